# Asks the process of a sweep to end, as Ctrl-C does. Asked again it goes on ending:
# this may be cut off at any moment and repeated. In: DIR. Out: "is ..." how it
# stood.

main() {
	s=$(stands "$DIR")
	printf 'is %s\n' "$s"
	[ "$s" = running ] || return 0
	read_identity "$DIR"
	kill -TERM "$i_pid" 2>/dev/null || :
}
