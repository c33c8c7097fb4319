# Says whether files still have the content they had. In: SUMS, lines of "sha256  path" as
# sha256sum -c reads them; TX, the folder of transactions, or empty. Out: "unchanged" or "changed".
# Changes nothing.
main() {
	for tx in "$TX"/*; do
		[ -z "$TX" ] || [ ! -e "$tx" ] || { echo changed; return 0; }
	done
	if printf '%s\n' "$SUMS" | sha256sum -c >/dev/null 2>&1; then
		echo unchanged
	else
		echo changed
	fi
}
