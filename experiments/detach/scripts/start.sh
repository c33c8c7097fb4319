# Starts the process of a sweep, unless it runs. In: DIR STAGE WORKER, and BEGIN,
# how many hundredths of a second it may take to begin. Standard input: what the
# process reads from its own.
# Out: "is running", or "refused REASON" and the end of the process's log.

refuse() {
	printf 'refused %s\n' "$1"
	[ ! -s "$DIR/specrun.log" ] || tail -c 2000 "$DIR/specrun.log"
	exit 0
}

adopted() {
	rm -rf "$STAGE"
	printf 'is %s\n' "$(stands "$DIR")"
	exit 0
}

main() {
	umask 077
	exec 3<&0 # a command in the background has no input but one that it is given
	[ "$(stands "$DIR")" != running ] || adopted
	if [ -d "$STAGE" ]; then
		if [ -d "$DIR" ]; then
			# Another start was quicker: a process may be recording to what is there.
			[ ! -f "$DIR/results.db" ] || rm -f "$STAGE/results.db"
			mv -f "$STAGE"/* "$DIR" && rmdir "$STAGE" || refuse "$DIR cannot be written"
		else
			mv "$STAGE" "$DIR" || refuse "$DIR cannot be made"
		fi
	fi
	[ -f "$DIR/results.db" ] || refuse "$DIR has no results.db"
	[ -x "$WORKER" ] || refuse "$WORKER: no such file, or not executable"
	printf '%s\n' "$WORKER" >"$DIR/worker" || refuse "$DIR cannot be written"
	touch -c "$WORKER" 2>/dev/null || : # builds that are not used any more are forgotten
	read_identity "$DIR" || :
	was="$i_boot $i_pid $i_ticks"
	tries=0
	while :; do
		# The process leaves this session itself and writes its identity then.
		(
			trap '' HUP
			exec "$WORKER" detached serve --dir "$DIR" <&3 >>"$DIR/specrun.log" 2>&1 3<&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
		) &
		child=$!
		n=0
		while kill -0 "$child" 2>/dev/null && [ "$n" -lt "$BEGIN" ]; do
			if read_identity "$DIR" && [ "$i_boot $i_pid $i_ticks" != "$was" ]; then
				printf 'is %s\n' "$(stands "$DIR")"
				return
			fi
			nap 0.01
			n=$((n + 1))
		done
		if read_identity "$DIR" && [ "$i_boot $i_pid $i_ticks" != "$was" ]; then # quick, or another one's
			printf 'is %s\n' "$(stands "$DIR")"
			return
		fi
		if kill -0 "$child" 2>/dev/null; then
			kill -KILL "$child" 2>/dev/null # ours, and not waited for: no stranger has its number
			wait "$child" 2>/dev/null
			refuse "the process did not begin within $((BEGIN / 100)) s"
		fi
		wait "$child" 2>/dev/null
		status=$?
		tries=$((tries + 1))
		# 126 right after a push: the file is still open for writing somewhere.
		if [ "$status" != 126 ] || [ "$tries" -ge 20 ]; then
			refuse "the process ended with status $status before it began"
		fi
		nap 0.05
	done
}
