# Binds a launch to a server that somebody else runs, once per launch; nothing of
# the server is touched. In: STATE ID PID TICKS (0 0: its process cannot be seen)
# PORT LOG. Out: see attach.go.

# family PID: it, its ancestors and its descendants.
family() {
	cat /proc/[0-9]*/stat 2>/dev/null | awk -v pid="$1" '
		{
			line = $0
			if (sub(/^.*\) /, "", line)) { split(line, f, " "); parent[$1] = f[2] }
		}
		END {
			mine[pid] = 1
			do {
				more = 0
				for (p in parent) if (!(p in mine) && (parent[p] in mine)) { mine[p] = 1; more = 1 }
			} while (more)
			for (p in mine) print p
			for (p = parent[pid]; p > 1; p = parent[p]) print p
		}'
}

main() {
	umask 077
	state_dir
	host_identity
	dir=$state/runs/$ID
	if read_identity "$dir"; then
		echo 'state launched'
		return 0
	fi
	if ! read_attached "$dir"; then
		p_sid=0
		if [ "$PID" != 0 ] && ! alive "$PID" "$TICKS"; then
			echo 'state gone'
			return 0
		fi
		sid=$p_sid
		held=$(holders "$PORT")
		if [ -z "$held" ]; then
			echo 'state silent'
			return 0
		fi
		# shellcheck disable=SC2086
		set -f; set -- $held; set +f
		socket=$3 owner=$6
		if [ "$PID" != 0 ] && [ "$owner" != 0 ]; then
			case "
$(family "$PID")
" in *"
$owner
"*) ;; *)
				printf 'state other\n%s\n' "$held"
				return 0
				;;
			esac
		fi
		log=$LOG
		if [ -n "$log" ]; then
			expand "$log"
			log=$expanded
			if [ ! -f "$log" ] || [ ! -r "$log" ]; then
				printf 'unreadable %s\n' "$log"
				log=
			fi
		fi
		from=0
		[ -z "$log" ] || from=$(stat -L -c %s "$log" 2>/dev/null) || from=0
		mkdir -p "$dir" || return 1
		printf '%s %s %s %s %s %s %s %s\n%s\n' "$host_id" "$boot_id" "$PID" "$TICKS" "$sid" "$PORT" "$socket" "$from" "$log" \
			>"$dir/attached.$$.new" && mv -f "$dir/attached.$$.new" "$dir/attached" || return 1
		read_attached "$dir" || return 1
	fi
	printf 'state attached\ndir %s\n' "$dir"
	tell_attached
	holders "$at_port"
}
