# Says how a launch stands; changes nothing. In: STATE ID PORT (0 = do not look),
# CLOSE (1: also what its processes have used, and which of them have ended).

# used PID...: what these processes have used so far, all together: CPU in
# ticks, bytes through read(2), bytes from storage (pages of a mapped file too),
# bytes written, MiB of GPU memory.
used() {
	u_pids=" $* "
	for u_pid in "$@"; do
		set -- "$@" "/proc/$u_pid/stat" "/proc/$u_pid/io"
		shift
	done
	[ $# -gt 0 ] || return 0
	cat "$@" 2>/dev/null | awk '
		/^[0-9]/ { if (sub(/^.*\) /, "")) { cpu += $12 + $13; n++ } next }
		$1 == "rchar:" { read += $2 }
		$1 == "read_bytes:" { disk += $2 }
		$1 == "wchar:" { written += $2 }
		END { printf "used %d %.0f %.0f %.0f %.0f\n", n, cpu, read, disk, written }'
	u_apps=$(gpu_apps) || return 0
	printf '%s\n' "$u_apps" | awk -v pids="$u_pids" '
		index(pids, " " $1 " ") { mib += $3 }
		END { printf "gpu_mib %.0f\n", mib }'
}

# ended PID...: "ended pid name" of each child of these that has ended and that
# its parent has not asked for.
ended() {
	cat /proc/[0-9]*/stat 2>/dev/null | awk -v pids=" $* " '
		/^[0-9]+ \(.*\) Z / {
			line = $0
			sub(/^.*\) /, "", line)
			split(line, f, " ")
			if (!index(pids, " " f[2] " ")) next
			name = $0
			sub(/^[0-9]+ \(/, "", name); sub(/\) Z .*$/, "", name)
			print "ended", $1, name
		}'
}

# leader_listens: all sockets that listen on the port are the server's own, so that
# nobody else needs to be looked for.
leader_listens() {
	leader_alive || return 1
	e_inodes=$(listeners "$PORT" | cut -d ' ' -f 1 | tr '\n' ' ')
	e_open=$(socket_pids "$e_inodes" "/proc/$i_pid/fd")
	for e_inode in $e_inodes; do
		case "
$e_open
" in *"
$e_inode $i_pid
"*) ;; *) return 1 ;; esac
	done
}

# successor: a start command has ended, and its keeper knows by now which process
# is the server.
successor() {
	[ -f "$dir/commands" ] || return 1
	tries=0
	while [ ! -e "$dir/exit" ] && [ "$tries" -lt 500 ] && [ -n "$(keepers "$dir")" ]; do
		nap 0.01
		tries=$((tries + 1))
	done
	read_identity "$dir" && leader_alive || return 1
	printf 'identity %s %s %s %s %s\n' "$i_host" "$i_boot" "$i_pid" "$i_ticks" "$i_sid"
}

main() {
	state_dir
	host_identity
	dir=$state/runs/$ID
	[ ! -e "$dir/stopped" ] || echo 'stopped 1'
	printf 'dir %s\n' "$dir"
	if place=$(val "$dir/container"); then printf 'container %s\n' "$place"; fi
	if ! read_identity "$dir"; then
		if read_attached "$dir"; then tell_attached; else echo 'phase absent'; fi
		return 0
	fi
	printf 'identity %s %s %s %s %s\n' "$i_host" "$i_boot" "$i_pid" "$i_ticks" "$i_sid"
	if [ "$i_host" != "$host_id" ]; then
		printf 'phase elsewhere\nhere %s\n' "$host_id"
		return 0
	fi
	# The status is written after the process is gone: look at the process first,
	# and give the keeper a moment to write it.
	if leader_alive || successor; then
		echo 'phase running'
	else
		if unit_of "$dir"; then unit_status "$dir"; fi
		tries=0
		while [ ! -e "$dir/exit" ] && [ "$i_boot" = "$boot_id" ] && [ "$tries" -lt 50 ] && [ -n "$(keepers "$dir")" ]; do
			nap 0.01
			tries=$((tries + 1))
		done
		echo 'phase exited'
		if status=$(val "$dir/exit"); then printf 'status %s\n' "$status"; fi
	fi
	log=$(stat -c '%s %d:%i' "$dir/server.log" 2>/dev/null) || log='0 -'
	printf 'log_size %s\nlog_file %s\n' "${log% *}" "${log#* }"
	mine=
	if [ "$CLOSE" = 1 ]; then
		mine=$(ours "$ID" "$i_sid")
		pids=$(printf '%s\n' "$mine" | cut -d ' ' -f 1)
		# shellcheck disable=SC2086
		used $pids
		# shellcheck disable=SC2086
		ended $pids
	fi
	[ "$PORT" != 0 ] && [ -n "$(listeners "$PORT")" ] || return 0
	if [ -z "$mine" ]; then
		if leader_listens; then mine="$i_pid $i_ticks"; else mine=$(ours "$ID" "$i_sid"); fi
	fi
	# shellcheck disable=SC2046
	holders "$PORT" $(printf '%s\n' "$mine" | cut -d ' ' -f 1) | while IFS= read -r line; do
		# shellcheck disable=SC2086
		set -f; set -- $line; set +f
		case "
$mine" in *"
$6 "*) whose=ours ;; *) whose=foreign ;; esac
		printf 'whose %s\n%s\n' "$whose" "$line"
	done
}
