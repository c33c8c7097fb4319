# Ends a server that specrun did not start, and proves it. Behind stop.sh, some of
# whose functions are given another meaning here: nothing marks this server's
# processes as ours, so they are those that descend from it, and those of its
# session when it leads one. Each is known by identity from its first sight on.
# In: STATE ID PID TICKS BOOT PORT LOG ABOUT UNIT SAVE (1, or nothing) GRACE
# KILL_WAIT GPU_WAIT. Out: see foreignstop.go.

# ours: "pid ticks" of each living process of the server.
ours() {
	cat /proc/[0-9]*/stat 2>/dev/null | awk -v pid="$PID" -v ticks="$TICKS" -v sid="$i_sid" -v known="$known" '
		{
			p = $1; line = $0
			if (!sub(/^.*\) /, "", line)) next
			split(line, f, " ")
			state[p] = f[1]; parent[p] = f[2]; begun[p] = f[20]
			# A session outlives its leader, whose number nobody else gets meanwhile.
			if (sid != "" && f[4] == sid) mark[p] = 1
		}
		END {
			if (begun[pid] == ticks) mark[pid] = 1
			n = split(known, k, " ")
			for (i = 1; i <= n; i++) { split(k[i], a, ":"); if (begun[a[1]] == a[2]) mark[a[1]] = 1 }
			do {
				more = 0
				for (p in begun) if (!(p in mark) && (parent[p] in mark)) { mark[p] = 1; more = 1 }
			} while (more)
			for (p in mark) if ((p in begun) && state[p] !~ /[ZXx]/) print p, begun[p]
		}'
}

# scan: adds every living process of the server to known.
scan() {
	found=$(ours)
	for k_pair in $(printf '%s\n' "$found" | tr ' ' ':'); do
		case " $known " in *" $k_pair "*) ;; *) known="$known $k_pair" ;; esac
	done
}

# remaining: looked at anew each time, for children of what ends have no mark.
remaining() {
	scan
	left=
	for k_pair in $known; do
		if alive "${k_pair%:*}" "${k_pair#*:}"; then left="$left $k_pair"; fi
	done
}

main() {
	umask 077
	trap '' PIPE
	state_dir
	host_identity
	dir=$state/saved/$ID
	known=
	if [ "$BOOT" != "$boot_id" ] || ! alive "$PID" "$TICKS"; then
		echo 'state gone'
		return 0
	fi
	i_host=$host_id i_boot=$boot_id i_pid=$PID i_ticks=$TICKS i_sid= parent=$p_ppid
	[ "$p_sid" != "$PID" ] || i_sid=$PID
	# All processes of a machine or container end with the first one; and this stop
	# must not be among those that it ends.
	scan
	case "$PID $known " in
	"1 "*) echo 'state first'; return 0 ;;
	*" $$:"*) echo 'state above'; return 0 ;;
	esac
	if ! kill -s 0 "$PID" 2>/dev/null; then
		printf 'state denied\nme %s\n' "$(user_of "$(id -u)")"
		return 0
	fi
	if [ "$SAVE" = 1 ]; then
		if ! save_process "$dir" "$PID" "$TICKS" "$PORT" "$LOG" "$ABOUT" "$UNIT"; then
			printf 'state unsaved\ndetail %s\n' "$save_error"
			return 0
		fi
		echo "saved $ID"
		if service=$(val "$dir/unit"); then printf 'service %s\n' "$service"; fi
	fi
	printf 'identity %s %s %s %s %s\n' "$host_id" "$boot_id" "$PID" "$TICKS" "${i_sid:-$p_sid}"
	# In another network its port is not the one of that number here.
	elsewhere=
	! other_space "$PID" net || elsewhere=1
	command=$(command_of "$PID")
	before=$(siblings)
	end_processes
	seen=$(survivors)
	[ -z "$seen" ] || mark_host "process-$PID" "$(printf 'process %s\nlives %s\n%s' "$PID" "$left" "$seen")"
	printf '%s\n' "$seen"
	if [ -z "$left" ] && [ "$PORT" != 0 ] && [ -z "$elsewhere" ]; then
		echo "port $PORT"
		held=$(after_end)
		[ -z "$held" ] || printf '%s\n' "$held"
	fi
	if [ -z "$left" ]; then
		again
		check_gpu
		[ "$SAVE" != 1 ] || put "$dir/stopped" "$(date +%s)"
	fi
	echo 'state done'
}

# siblings: "pid:ticks" of each living child of the process's parent.
siblings() {
	cat /proc/[0-9]*/stat 2>/dev/null | awk -v parent="$parent" '
		{
			p = $1; line = $0
			if (!sub(/^.*\) /, "", line)) next
			split(line, f, " ")
			if (f[2] == parent && f[1] !~ /[ZXx]/) print p ":" f[20]
		}'
}

# again: a child that the parent has begun meanwhile with the same command line;
# it may take minutes until that one listens, or holds GPU memory.
again() {
	for k_pair in $(siblings); do
		case "
$before
" in *"
$k_pair
"*) continue ;; esac
		if [ "$(command_of "${k_pair%:*}")" = "$command" ]; then
			echo "again ${k_pair%:*} $parent"
			return 0
		fi
	done
}

# after_end: who listens on the port now that the server has ended; a socket may
# take a moment to go.
after_end() {
	clock
	limit=$((t_cs + 500))
	while :; do
		held=$(holders "$PORT")
		[ -n "$held" ] || return 0
		clock
		# shellcheck disable=SC2086
		set -f; set -- $held; set +f
		# All of the server's are gone, so whoever can be seen is another one.
		if [ "$6" != 0 ] || [ "$t_cs" -ge "$limit" ]; then
			printf '%s\n' "$held"
			return 0
		fi
		nap 0.05
	done
}
