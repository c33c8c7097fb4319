# One look at a sweep. In: DIR OFFSET WANT. Out: "is ...", "clock SECONDS" of the
# host, "now {...}" and "end {...}" when there are any, then "data" and what lies
# behind OFFSET in its events, up to WANT bytes.

value() { # NAME FILE
	if [ -s "$2" ] && IFS= read -r line <"$2"; then printf '%s %s\n' "$1" "$line"; fi
}

main() {
	s=$(stands "$DIR")
	printf 'is %s\n' "$s" # before the events: of a process that has ended all are there
	[ "$s" != absent ] || return 0
	printf 'clock %s\n' "$(date +%s)"
	value now "$DIR/now.json" 2>/dev/null
	[ "$s" != ended ] || value end "$DIR/end.json" 2>/dev/null
	printf 'data\n'
	[ -f "$DIR/events.jsonl" ] || return 0
	tail -c "+$((OFFSET + 1))" <"$DIR/events.jsonl" | head -c "$WANT"
}
