# Ends the worker of a run folder and nothing else. In: DIR GRACE (tenths of a
# second). Out: "state gone" or "state survived PID".

main() {
	umask 077
	expand "$DIR"
	dir=$expanded
	[ -d "$dir" ] || mkdir -p "$dir" || exit 1
	: >"$dir/stopped" || exit 1 # a worker on its way reads it once it has its identity
	if ! read_identity "$dir" || ! worker_alive; then
		printf 'state gone\n'
		return
	fi
	kill -TERM "$i_pid" 2>/dev/null
	n=0
	while worker_alive && [ "$n" -lt "$GRACE" ]; do
		nap 0.1
		n=$((n + 1))
	done
	if worker_alive; then kill -KILL "$i_pid" 2>/dev/null; fi
	n=0
	while worker_alive && [ "$n" -lt 50 ]; do
		nap 0.1
		n=$((n + 1))
	done
	if worker_alive; then printf 'state survived %s\n' "$i_pid"; else printf 'state gone\n'; fi
}
