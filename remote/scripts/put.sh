# Writes standard input to the new $file with $mode, and prints its size. A cut
# connection looks like the end of input: $length tells (-1: not known).
made=
cleanup() { [ "$1" = 0 ] || [ -z "$made" ] || rm -f -- "$file"; }

main() {
	umask 077
	# noclobber makes this O_EXCL. One open file for all: the final mode may
	# not let even us open it again.
	set -C
	write 3>"$file"
}

write() {
	made=1
	chmod "$mode" "$file" || return 1
	cat >&3 || return 1
	# shellcheck disable=SC2012 # size and no name is read; stat is not POSIX
	got=$(ls -ln -- "$file" | awk '{print $5}') || return 1
	got=$((got))
	[ "$length" = -1 ] || [ "$got" = "$length" ] || { echo "got $got of $length bytes" >&2; return 1; }
	echo "$got"
}
