# Lists the stops on this host that could not be proved, see stop.sh, takes them
# away, and notes one. In: STATE MODE (list|clear|set); to set ID and LEFT. Out: see
# mark.go.
main() {
	umask 077
	state_dir
	host_identity
	if [ "$MODE" = set ]; then
		mark_host "$ID" "$LEFT"
		return 0
	fi
	for m_file in "$state"/mark/*; do
		[ -e "$m_file" ] || continue
		if mark_holds "$m_file"; then
			printf 'mark %s\n' "${m_file##*/}"
			cat "$m_file"
		fi
		[ "$MODE" != clear ] || rm -f "$m_file" || return 1
	done
}
