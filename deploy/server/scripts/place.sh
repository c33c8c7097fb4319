# Keeps on the host that a launch lives in a container of it, so that whoever looks
# at the launches here finds it. In: STATE ID PORT (0: the container's own) ABOUT
# PLACE (one line, see launcher_container.go) PID TICKS (of the server, as the
# container sees it; 0: not started).

# outer_pid: sets o_pid to the process here that is PID there: numbers differ, the
# ticks since the machine's boot do not.
outer_pid() {
	for o_pid in $(cat /proc/[0-9]*/status 2>/dev/null | awk -v pid="$PID" '
		$1 == "Pid:" { here = $2 }
		$1 == "NSpid:" && $NF == pid { print here }'); do
		if proc "$o_pid" && [ "$p_ticks" = "$TICKS" ]; then return 0; fi
	done
	return 1
}

main() {
	umask 077
	state_dir
	host_identity
	dir=$state/runs/$ID
	# Of what was left before, a container that is new knows nothing.
	if [ "$PID" = 0 ] && [ ! -e "$dir/container" ]; then
		marked=$(marks)
		if [ -n "$marked" ]; then
			printf '%s\n' "$marked"
			return 0
		fi
	fi
	mkdir -p "$dir" || return 1
	put "$dir/container" "$PLACE" && put "$dir/port" "$PORT" || return 1
	[ -z "$ABOUT" ] || put "$dir/about" "$ABOUT" || return 1
	[ "$PID" != 0 ] || return 0
	# Where processes of others cannot be seen, judge.sh asks the container.
	if ! outer_pid; then
		put "$dir/inside" "$boot_id $PID $TICKS"
		return
	fi
	put "$dir/identity" "$host_id $boot_id $o_pid $p_ticks $p_sid"
}
