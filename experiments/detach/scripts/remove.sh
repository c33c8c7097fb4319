# Removes what a sweep left, when its process is gone. In: DIR, and DEAD=yes to
# remove that of one that was killed, too. Out: "is ..." how it stands.

main() {
	s=$(stands "$DIR")
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
