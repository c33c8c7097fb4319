# Prints the folder of the benchmark that a launch began last; nothing when there
# is none. In: DIR, the launch's folder.
main() {
	# shellcheck disable=SC2012
	ls -1dt "$DIR"/bench-* 2>/dev/null | sed -n 1p
}
