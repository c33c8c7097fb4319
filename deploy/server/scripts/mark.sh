# Lists the stops on this host that could not be proved, see stop.sh, and takes them
# away. In: STATE MODE (list|clear). Out: see mark.go.
main() {
	state_dir
	host_identity
	for m_file in "$state"/mark/*; do
		[ -e "$m_file" ] || continue
		if [ "$(sed -n 's/^boot //p' "$m_file")" = "$boot_id" ]; then
			printf 'mark %s\n' "${m_file##*/}"
			cat "$m_file"
		fi
		[ "$MODE" != clear ] || rm -f "$m_file" || return 1
	done
}
