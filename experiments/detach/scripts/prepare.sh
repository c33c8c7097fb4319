# Makes a private place for what a sweep needs. In: STATE ID.
# Out: "dir PATH" where the sweep lies or will, "is ..." how it stands there,
# "stage PATH" an empty folder, "free KIB" on its disk.

main() {
	umask 077
	expand "${STATE:-${XDG_STATE_HOME:-$HOME/.local/state}/specrun}"
	mkdir -p "$expanded/detached" || exit 1
	all=$(cd "$expanded/detached" && pwd -P) || exit 1
	stage=$all/.$ID.$$.new
	mkdir "$stage" || exit 1
	printf 'dir %s\nis %s\nstage %s\n' "$all/$ID" "$(stands "$all/$ID")" "$stage"
	# The name of the disk may have blanks; the numbers are counted from the "%".
	df -Pk "$stage" 2>/dev/null | awk 'NR == 2 { for (i = NF; i > 1; i--) if ($i ~ /^[0-9]+%$/) { print "free", $(i - 1); exit } }'
	return 0
}
