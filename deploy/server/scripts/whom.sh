# Whom the end of a process concerns; changes nothing. In: PID PORT (0: none).
# Out: "member pid command" of each process that a stop of it ends with it, and
# "peer address count" of who is connected to its port. "protected first" or "above"
# where no stop is made: see foreignstop.sh.
main() {
	if [ "$PID" = 1 ]; then
		echo 'protected first'
		return 0
	fi
	proc "$PID" || return 0
	sid=
	[ "$p_sid" != "$PID" ] || sid=$PID
	for w_pid in $(cat /proc/[0-9]*/stat 2>/dev/null | awk -v pid="$PID" -v sid="$sid" '
		{
			line = $0
			if (!sub(/^.*\) /, "", line)) next
			split(line, f, " ")
			if (f[1] ~ /[ZXx]/) next
			parent[$1] = f[2]
			if (sid != "" && f[4] == sid) mark[$1] = 1
		}
		END {
			mark[pid] = 1
			do {
				more = 0
				for (p in parent) if (!(p in mark) && (parent[p] in mark)) { mark[p] = 1; more = 1 }
			} while (more)
			for (p in mark) if (p != pid && (p in parent)) print p
		}' | sort -n); do
		printf 'member %s %s\n' "$w_pid" "$(command_of "$w_pid")"
		[ "$w_pid" != "$$" ] || echo 'protected above'
	done
	[ "$PORT" != 0 ] || return 0
	cat "/proc/$PID/net/tcp" "/proc/$PID/net/tcp6" 2>/dev/null | awk -v port="$(printf '%04X' "$PORT")" '
		$4 == "01" {
			split($2, a, ":"); split($3, b, ":")
			if (a[2] == port) n[b[1]]++
		}
		END { for (p in n) print "peer", p, n[p] }' | sort
}
