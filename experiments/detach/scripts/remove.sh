# Removes what a sweep left, when its process is gone. In: DIR, STORE: only when
# its results are for that store, and DEAD=yes to remove that of one that was
# killed, too. Out: "is ..." how it stands.

main() {
	s=$(stands "$DIR")
	for_store=
	{ IFS= read -r for_store <"$DIR/store"; } 2>/dev/null || :
	if [ "$for_store" != "$STORE" ]; then
		printf 'is %s\n' "$s"
		return 0
	fi
	case $s$DEAD in
	ended* | begunyes | deadyes)
		gone=${DIR%/*}/.${DIR##*/}.$$.gone
		mv "$DIR" "$gone" || exit 1
		rm -rf "$gone" "${DIR%/*}/.${DIR##*/}".*.new
		s=absent
		;;
	esac
	printf 'is %s\n' "$s"
}
