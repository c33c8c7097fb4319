# Asks the process of a sweep to end, as Ctrl-C does, once: a second time would
# end it at once. In: DIR. Out: "is ..." how it stood.

main() {
	umask 077
	s=$(stands "$DIR")
	printf 'is %s\n' "$s"
	[ "$s" = running ] || return 0
	read_identity "$DIR"
	me="$i_boot $i_pid $i_ticks"
	asked=
	{ IFS= read -r asked <"$DIR/stop"; } 2>/dev/null || :
	[ "$asked" != "$me" ] || return 0
	# A full disk is a reason to end it, not to leave it.
	printf '%s\n' "$me" 2>/dev/null >"$DIR/stop" || :
	kill -TERM "$i_pid" 2>/dev/null || :
}
