# Tells how a benchmark stands. In: DIR. Out: "state ...", then "progress {...}"
# when there is any, then for a dead one "log" and the end of its output.

main() {
	expand "$DIR"
	dir=$expanded
	s=$(state)
	printf 'state %s\n' "$s"
	if [ -s "$dir/progress.json" ]; then
		printf 'progress '
		cat "$dir/progress.json"
	fi
	if [ "$s" = dead ]; then
		printf 'log\n'
		tail -c 2000 "$dir/worker.log" 2>/dev/null
	fi
	return 0
}
