# The container of a launch: one made for it. In: MODE (find, run, remove), ENGINE,
# ID (of the launch), STATE; to run a function create; to remove LOG, the server's
# log inside. Out: id, state, left, see launcher_container.go.

# instance: sets c_id and c_state of the launch's container; false when there is
# none. The label counts, not the name: it is ours alone.
instance() {
	c_id=$("$ENGINE" ps -a -q --no-trunc --filter "label=specrun.launch=$ID" 2>&1) || {
		printf '%s\n' "$c_id" >&2
		exit 1
	}
	c_id=${c_id%%
*}
	[ -n "$c_id" ] || return 1
	c_state=$("$ENGINE" container inspect --format '{{.State.Status}}' "$c_id" 2>/dev/null) || return 1
}

run() {
	if instance; then
		[ "$c_state" != running ] || return 0
		# Its start was cut off, or it was stopped: nothing in it was ever used, or
		# nothing in it lives.
		"$ENGINE" rm -f -v "$c_id" >/dev/null || return 1
	fi
	create >/dev/null || return 1
	instance
}

remove() {
	if ! instance; then return 0; fi
	umask 077
	dir=$state/runs/$ID
	# Also out of one that has ended. That there is no log is no reason to keep it.
	if mkdir -p "$dir" && "$ENGINE" cp "$c_id:$LOG" "$dir/server.log.$$" 2>/dev/null; then
		mv -f "$dir/server.log.$$" "$dir/server.log"
	fi
	tries=0
	while instance && [ "$tries" -lt 5 ]; do
		"$ENGINE" rm -f -v "$c_id" >/dev/null 2>&1 || nap 0.2
		tries=$((tries + 1))
	done
	if instance; then
		"$ENGINE" rm -f -v "$c_id" >&2
		printf 'left %s\n' "$c_id"
	fi
}

main() {
	command -v "$ENGINE" >/dev/null 2>&1 || {
		echo "there is no $ENGINE in PATH" >&2
		return 1
	}
	state_dir
	case $MODE in
	run) run || return 1 ;;
	remove)
		remove
		printf 'log %s\n' "$state/runs/$ID/server.log"
		return 0
		;;
	find) instance || return 0 ;;
	esac
	printf 'id %s\nstate %s\n' "$c_id" "$c_state"
}
