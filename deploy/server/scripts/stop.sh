# Ends all processes of one launch and proves it. Repeating it is harmless.
# In: STATE ID GRACE (empty: the launch's own) KILL_WAIT GPU_WAIT (hundredths of a second), RELEASE (1: what
# is leased for the launch is given back once it is proved). Out: see stop.go.

# scan: adds every living process of the launch to known; sets found.
scan() {
	found=$(ours "$ID" "$i_sid"; ! unit_of "$dir" || ! unit_ours "$dir" "$ID" || unit_members "$dir")
	for k_pair in $(printf '%s\n' "$found" | tr ' ' ':'); do
		case " $known " in *" $k_pair "*) ;; *) known="$known $k_pair" ;; esac
	done
}

# remaining: sets left to those of known that still live; rescans when none does,
# for one of them may have left a child.
remaining() {
	left=
	for k_pair in $known; do
		if alive "${k_pair%:*}" "${k_pair#*:}"; then left="$left $k_pair"; fi
	done
	[ -z "$left" ] || return 0
	scan
	left=$(printf '%s\n' "$found" | tr ' ' ':' | tr '\n' ' ')
	left=${left% }
}

# signal NAME PID:TICKS: judged anew right before each signal.
signal() {
	if alive "${2%:*}" "${2#*:}"; then kill -s "$1" "${2%:*}" 2>/dev/null; fi
}

# cleaner PID: it is Python's tracker of shared memory. That ends by itself right
# after those that it keeps a list for, and removes what they left in /dev/shm;
# killed with them it leaves hundreds of MB of the host's memory there for good.
cleaner() {
	case $(command_of "$1") in
	*multiprocessing.resource_tracker*) return 0 ;;
	esac
	return 1
}

end_processes() {
	known= left= pause=0.02 step=0
	scan
	if leader_alive; then
		echo "term $i_pid"
		signal TERM "$i_pid:$i_ticks"
		signal CONT "$i_pid:$i_ticks"
		# A command, make or srun, is no server that passes it on to its own.
		if [ -f "$dir/commands" ]; then for k_pair in $known; do signal TERM "$k_pair"; done; fi
		clock
		limit=$((t_cs + GRACE)) after=
		while remaining; do
			[ -n "$left" ] || break
			clock
			# Without its leader the rest has nothing to wait for.
			if [ -z "$after" ] && ! leader_alive; then
				after=1
				[ "$((t_cs + 500))" -ge "$limit" ] || limit=$((t_cs + 500))
			fi
			[ "$t_cs" -lt "$limit" ] || break
			step=$((step + 1))
			[ "$step" -lt 50 ] || pause=0.2
			nap "$pause"
		done
	elif [ -n "$known" ]; then
		remaining
	fi
	clock
	limit=$((t_cs + KILL_WAIT)) spared=$((t_cs + 500))
	while [ -n "$left" ]; do
		for k_pair in $left; do
			if [ "$t_cs" -lt "$spared" ] && cleaner "${k_pair%:*}"; then continue; fi
			echo "kill ${k_pair%:*}"
			signal KILL "$k_pair"
		done
		nap 0.02
		remaining
		clock
		[ "$t_cs" -lt "$limit" ] || break
	done
}

# The keeper ends by itself once the server has.
end_keeper() {
	clock
	limit=$((t_cs + 300))
	while :; do
		pairs=$(keepers "$dir")
		[ -n "$pairs" ] || return 0
		clock
		if [ "$t_cs" -ge "$limit" ]; then
			for k_pair in $pairs; do signal KILL "$k_pair"; done
			nap 0.05
			pairs=$(keepers "$dir")
			for k_pair in $pairs; do left="$left $k_pair"; done
			return 0
		fi
		nap 0.01
	done
}

survivors() {
	for k_pair in $left; do
		s_pid=${k_pair%:*}
		proc "$s_pid" || continue
		s_wchan=$(val "/proc/$s_pid/wchan") || s_wchan=
		printf 'left %s %s %s %s\n' "$s_pid" "$p_state" "${s_wchan:--}" "$(command_of "$s_pid")"
	done
}

# A socket of a process that has just ended may take a moment to go.
check_port() {
	port=$(val "$dir/port") || port=0
	[ "$port" != 0 ] || return 0
	echo "port $port"
	me=$(id -u)
	clock
	limit=$((t_cs + 500))
	while :; do
		held=$(holders "$port")
		[ -n "$held" ] || return 0
		clock
		# shellcheck disable=SC2086
		set -f; set -- $held; set +f
		# A visible owner is a stranger: all of ours are gone.
		if [ "$6" != 0 ] || [ "$4" != "$me" ]; then
			printf '%s\n' "$held"
			return 0
		fi
		if [ "$t_cs" -ge "$limit" ]; then
			echo unowned
			return 0
		fi
		nap 0.05
	done
}

# The driver gives memory back after the exit, not at the kill.
check_gpu() {
	[ -n "$known" ] || return 0
	clock
	limit=$((t_cs + GPU_WAIT))
	while :; do
		apps=$(gpu_apps) || return 0
		echo 'gpu_checked 1'
		held=$(printf '%s\n' "$apps" | awk -v known="$known" '
			BEGIN { n = split(known, k, " "); for (i = 1; i <= n; i++) { split(k[i], a, ":"); pid[a[1]] = 1 } }
			($1 in pid) { print "gpu", $0 }')
		[ -n "$held" ] || return 0
		clock
		if [ "$t_cs" -ge "$limit" ]; then
			printf '%s\n' "$held"
			return 0
		fi
		nap 0.5
	done
}

# release_all: the leases on ports and GPUs, which judge.sh knows.
release_all() {
	LAUNCH=$ID
	leases_now
	# None here may mean that they are on another host, the one around a container.
	if hand_all_back && [ "$handed" -gt 0 ]; then echo 'released 1'; fi
}

main() {
	umask 077
	# The stop goes on when nobody reads what it prints any more.
	trap '' PIPE
	state_dir
	dir=$state/runs/$ID
	host_identity
	# What runs in a container is ended there; what it leaves on its host, here.
	if [ -z "$PLACED" ] && place=$(val "$dir/container"); then
		mkdir -p "$dir" && : >>"$dir/stopped" || return 1
		printf 'state placed\ncontainer %s\n' "$place"
		return 0
	fi
	if read_identity "$dir" && [ "$i_host" != "$host_id" ]; then
		printf 'state elsewhere\nidentity %s %s %s %s %s\nhere %s\n' "$i_host" "$i_boot" "$i_pid" "$i_ticks" "$i_sid" "$host_id"
		return 0
	fi
	# From here on no launcher of this id starts anything: it looks for the mark
	# after it has shown itself, we look for it after the mark.
	mkdir -p "$dir" && : >>"$dir/stopped" || return 1
	[ -n "$GRACE" ] || GRACE=$(val "$dir/grace") || GRACE=6000
	read_identity "$dir" || :
	if [ -n "$i_boot" ] && [ "$i_boot" != "$boot_id" ]; then
		i_sid= # a session of an earlier boot
	fi
	stop_unit "$dir" "$ID"
	stop_by_command "$dir"
	end_processes
	end_keeper
	unit_undo "$dir" || printf 'unit %s\n' "$u_dropin"
	[ -n "$left" ] || command_says "$dir"
	rm -f "$dir"/launch.*.sh
	[ -z "$i_pid" ] || printf 'identity %s %s %s %s %s\n' "$i_host" "$i_boot" "$i_pid" "$i_ticks" "$i_sid"
	seen=$(
		survivors
		[ -n "$left" ] || check_port
		[ -n "$left" ] || check_gpu
	)
	printf '%s\n' "$seen"
	unproved=$(printf '%s\n' "$seen" | sed -n '/^left /p;/^unowned/p;/^gpu /p')
	if [ -n "$unproved" ]; then
		mark_host "$ID" "$(printf '%s\nport %s' "$unproved" "$(val "$dir/port")")"
	else
		# The user's stop and status were called for the last time, with the host's
		# environment in them.
		rm -f "$state/mark/$ID" "$dir/commands"
		[ "$RELEASE" != 1 ] || release_all
	fi
	if status=$(val "$dir/exit"); then printf 'status %s\n' "$status"; fi
	echo 'state done'
}
