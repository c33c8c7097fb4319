# Looks at the workers that the host has. In: STATE.
# Out: "system OS MACHINE", "bin FOLDER", "has NAME BYTES" for each.

main() {
	umask 077
	expand "${STATE:-${XDG_STATE_HOME:-$HOME/.local/state}/specrun}"
	state=$expanded
	printf 'system %s %s\n' "$(uname -s)" "$(uname -m)"
	bin=$state/bin
	# Nobody runs a program that another user may have put there.
	if [ -e "$bin" ] && [ ! -O "$bin" ]; then bin=$state/bin-$(id -u); fi
	mkdir -p "$bin" || exit 1
	bin=$(cd "$bin" && pwd -P) || exit 1
	printf 'bin %s\n' "$bin"
	for f in "$bin"/*; do
		if [ -f "$f" ] && [ -x "$f" ]; then printf 'has %s %s\n' "${f##*/}" "$(wc -c <"$f" | tr -d ' ')"; fi
	done
	return 0
}
