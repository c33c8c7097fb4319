# Looks at the workers that the host has. In: STATE.
# Out: "system OS MACHINE", "bin FOLDER", "has NAME BYTES" for each.

main() {
	umask 077
	expand "${STATE:-${XDG_STATE_HOME:-$HOME/.local/state}/specrun}"
	state=$expanded
	printf 'system %s %s\n' "$(uname -s)" "$(uname -m)"
	mkdir -p "$state/bin" || exit 1
	bin=$(cd "$state/bin" && pwd -P) || exit 1
	printf 'bin %s\n' "$bin"
	for f in "$bin"/*; do
		if [ -f "$f" ] && [ -x "$f" ]; then printf 'has %s %s\n' "${f##*/}" "$(wc -c <"$f" | tr -d ' ')"; fi
	done
	return 0
}
