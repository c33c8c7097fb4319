# Shared by all scripts of this package. One command stands on one line, and
# conditions only look: the tests kill a script after each of its lines.

# fail CODE KIND [LINE...]: says what happened, one value a line, and ends.
fail() {
	fail_code=$1
	printf 'error %s\n' "$2"
	shift 2
	printf '%s\n' "$@"
	exit "$fail_code"
}

# unwritable PATH: says that something could not be written there, and what
# room there is: free blocks, their size, free inodes, all inodes (0 where the
# file system does not count them).
unwritable() {
	[ -e "$1" ] || set -- "${1%/*}" "$1"
	room=$(stat -f -c '%a %S %d %c' "$1" 2>/dev/null) || room=
	fail 73 unwritable "path ${2:-$1}" "room $room"
}
