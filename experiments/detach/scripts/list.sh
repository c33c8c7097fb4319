# Lists the sweeps that went on by themselves. In: STATE.
# Out: "dir PATH" of all, then "sweep ID STATE" for each.

main() {
	expand "${STATE:-${XDG_STATE_HOME:-$HOME/.local/state}/specrun}"
	[ -d "$expanded/detached" ] || return 0
	all=$(cd "$expanded/detached" && pwd -P) || exit 1
	printf 'dir %s\n' "$all"
	for d in "$all"/*/; do
		d=${d%/}
		if [ -d "$d" ]; then printf 'sweep %s %s\n' "${d##*/}" "$(stands "$d")"; fi
	done
	return 0
}
