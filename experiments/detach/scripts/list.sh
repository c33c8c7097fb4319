# Lists the sweeps that went on by themselves. In: STATE.
# Out: "dir PATH" of all, then "sweep ID STATE" for each, with " USER" behind it
# when it is another user's. Or "others USER", when who asks may not look.

main() {
	expand "${STATE:-${XDG_STATE_HOME:-$HOME/.local/state}/specrun}"
	[ -d "$expanded/detached" ] || return 0
	if ! { [ -r "$expanded/detached" ] && [ -x "$expanded/detached" ]; }; then
		printf 'dir %s\nothers %s\n' "$expanded/detached" "$(owner "$expanded/detached")"
		return 0
	fi
	all=$(cd "$expanded/detached" && pwd -P) || exit 1
	printf 'dir %s\n' "$all"
	for d in "$all"/*/; do
		d=${d%/}
		[ -d "$d" ] || continue
		whose=
		[ -r "$d" ] || whose=" $(owner "$d")"
		printf 'sweep %s %s%s\n' "${d##*/}" "$(stands "$d")" "$whose"
	done
	return 0
}
