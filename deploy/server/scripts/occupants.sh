# Lists the processes of which an argument matches the pattern, and those that hold
# GPU memory; changes nothing. Behind find.sh and foreign.sh, whose functions it
# uses. In: PATTERN, an extended regular expression. Out: see occupants.go. What may
# hold any byte is in hex.

# run_id PID: the launch of specrun's that the process says it is of; nothing for
# none, and where its environment cannot be read or was overwritten by a title.
run_id() {
	{ tr '\n\000' '\001\n' <"/proc/$1/environ"; } 2>/dev/null | sed -n 's/^SPECRUN_RUN_ID=\([A-Za-z0-9._-]*\)$/\1/p' | sed -n 1p
}

# above PID...: "PID ANCESTOR..." for each, from the nearest on. One look at all
# processes, of which a GPU host has thousands.
above() {
	cat /proc/[0-9]*/stat 2>/dev/null | awk -v pids="$*" '
		{
			pid = $1; line = $0
			if (!sub(/^.*\) /, "", line) || pid !~ /^[0-9]+$/) next
			split(line, f, " ")
			parent[pid] = f[2]
		}
		END {
			n = split(pids, want, " ")
			for (i = 1; i <= n; i++) {
				text = want[i]
				hops = 0
				for (p = parent[want[i]]; p > 0 && hops++ < 1000; p = parent[p]) text = text " " p
				print text
			}
		}'
}

main() {
	hz=$(getconf CLK_TCK 2>/dev/null) || hz=100
	read -r up rest </proc/uptime
	printf 'me %s\nhz %s\nup %s\ncgroup_here ' "$(id -u)" "$hz" "$up"
	{ hex <"/proc/$$/cgroup"; } 2>/dev/null || :
	echo
	if apps=$(gpu_apps); then
		gpu_cards | sed 's/^/card /' || :
	else
		apps=
	fi
	pids=$({
		candidates
		printf '%s\n' "$apps" | sed 's/ .*//;/^$/d'
	} | sort -nu)
	# shellcheck disable=SC2086
	kin=$(above $pids)
	for pid in $pids; do
		[ "$pid" != $$ ] && proc "$pid" || continue
		case $p_state in Z | X | x) continue ;; esac
		uid=$(stat -c %u "/proc/$pid" 2>/dev/null) || continue
		PID=$pid
		printf 'process %s\nticks %s\nuid %s\nuser %s\nargv ' "$pid" "$p_ticks" "$uid" "$(user_of "$uid")"
		{ hex <"/proc/$pid/cmdline"; } 2>/dev/null || :
		printf '\ncgroup '
		{ hex <"/proc/$pid/cgroup"; } 2>/dev/null || :
		printf '\nrun %s\n' "$(run_id "$pid")"
		printf '%s\n' "$kin" | sed -n "s/^$pid /above /p"
		listening "$pid" | sed 's/^/listens /'
	done
	printf '%s\n' "$apps" | while read -r a_pid a_uuid a_mib a_name; do
		[ -n "$a_name" ] || continue
		a_uid=$(stat -c %u "/proc/$a_pid" 2>/dev/null) || a_uid='?'
		printf 'gpu %s %s %s %s %s\n' "$a_uuid" "$a_pid" "$a_mib" "$(user_of "$a_uid")" "$a_name"
	done
}
