# Prints what a sweep has stored so far, packed. In: DIR, WANT: hashes of kept
# files, one a line, or nothing for the results.

main() {
	umask 077
	if [ ! -d "$DIR" ]; then
		echo "$DIR: no such folder" >&2
		exit 1
	fi
	worker=
	{ IFS= read -r worker <"$DIR/worker"; } 2>/dev/null || :
	if [ ! -x "$worker" ]; then
		echo "$DIR: the specrun that it runs with is gone ($worker)" >&2
		exit 1
	fi
	printf '%s\n' "$WANT" | "$worker" detached pack --dir "$DIR"
}
