# Makes a private place for what a sweep needs. In: STATE ID.
# Out: "dir PATH" where the sweep lies or will, "is ..." how it stands there,
# "stage PATH" an empty folder, "free KIB" on its disk. Or "others USER", when
# the folder of such sweeps is another user's, and "dir PATH" of it.

main() {
	umask 077
	expand "${STATE:-${XDG_STATE_HOME:-$HOME/.local/state}/specrun}"
	all=$expanded/detached
	if [ ! -d "$all" ]; then
		mkdir -p "$expanded" || exit 1
		mkdir "$all" || [ -d "$all" ] || exit 1
		# The group that shares the state folder sees what goes on; the sticky bit keeps
		# each user's sweeps from the others. It fails where another user was quicker.
		[ ! -g "$expanded" ] || chmod 3770 "$all" 2>/dev/null || :
	fi
	if ! { [ -w "$all" ] && [ -x "$all" ]; }; then
		printf 'others %s\ndir %s\n' "$(owner "$all")" "$all"
		return 0
	fi
	all=$(cd "$all" && pwd -P) || exit 1
	# What a start or a removal left that was cut off, of any sweep.
	find "$all/." ! -name . -prune -type d \( -name '.*.new' -o -name '.*.gone' \) -mtime +0 -exec rm -rf {} + 2>/dev/null
	stage=$all/.$ID.$$.new
	mkdir "$stage" || exit 1
	[ ! -g "$all" ] || chmod g+x "$stage" || exit 1
	printf 'dir %s\nis %s\nstage %s\n' "$all/$ID" "$(stands "$all/$ID")" "$stage"
	# The name of the disk may have blanks; the numbers are counted from the "%".
	df -Pk "$stage" 2>/dev/null | awk 'NR == 2 { for (i = NF; i > 1; i--) if ($i ~ /^[0-9]+%$/) { print "free", $(i - 1); exit } }'
	return 0
}
