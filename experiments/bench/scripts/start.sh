# Starts the worker of a run folder, once. In: DIR WORKER JOB, and BEGIN, how
# many hundredths of a second it may take to begin.
# Out: "state ..." as of lib.sh, or "refused REASON", then the worker's log.

refuse() {
	printf 'refused %s\n' "$1"
	[ ! -s "$dir/worker.log" ] || tail -c 2000 "$dir/worker.log"
	exit 0
}

main() {
	umask 077
	expand "$DIR"
	dir=$expanded
	expand "$WORKER"
	worker=$expanded
	mkdir -p "$dir" || refuse "$dir cannot be made"
	s=$(state)
	if [ "$s" != absent ]; then
		printf 'state %s\n' "$s"
		return
	fi
	[ ! -e "$dir/stopped" ] || refuse "it was stopped"
	[ -x "$worker" ] || refuse "$worker: no such file, or not executable"
	touch -c "$worker" 2>/dev/null || : # builds that are not used any more are forgotten
	printf '%s\n' "$JOB" >"$dir/job.$$.new" && mv -f "$dir/job.$$.new" "$dir/job.json" || refuse "$dir/job.json cannot be written"
	tries=0
	while :; do
		# The worker leaves this session itself and writes its identity then.
		(
			trap '' HUP
			exec "$worker" bench-worker --dir "$dir" </dev/null >>"$dir/worker.log" 2>&1 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
		) &
		child=$!
		n=0
		while kill -0 "$child" 2>/dev/null && [ "$n" -lt "$BEGIN" ]; do
			if read_identity "$dir"; then
				printf 'state %s\n' "$(state)"
				return
			fi
			nap 0.01
			n=$((n + 1))
		done
		s=$(state)
		if [ "$s" != absent ]; then # quick, or another one had the folder
			printf 'state %s\n' "$s"
			return
		fi
		late=
		if kill -0 "$child" 2>/dev/null; then
			late=yes
			kill -KILL "$child" 2>/dev/null # ours, and not waited for: no stranger has its number
		fi
		wait "$child" 2>/dev/null
		status=$?
		[ -z "$late" ] || refuse "the worker did not begin within $((BEGIN / 100)) s"
		tries=$((tries + 1))
		# 126 right after a push: the file is still open for writing somewhere.
		if [ "$status" != 126 ] || [ "$tries" -ge 20 ]; then
			refuse "the worker ended with status $status before it began"
		fi
		nap 0.05
	done
}
