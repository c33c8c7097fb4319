# Lists processes whose command line has one of the words; changes nothing. In:
# WORDS, separated by blanks. Out: "process PID PPID HEX" for each.
main() {
	for dir in /proc/[0-9]*; do
		pid=${dir#/proc/}
		[ "$pid" != $$ ] || continue
		text=
		# A shell reads over the NULs: one long word, good enough to look into.
		{ while IFS= read -r line || [ -n "$line" ]; do text="$text $line"; done <"$dir/cmdline"; } 2>/dev/null || continue
		for word in $WORDS; do
			case $text in *"$word"*) ;; *) continue ;; esac
			proc "$pid" || break
			case $p_state in Z | X | x) break ;; esac
			printf 'process %s %s ' "$pid" "$p_ppid"
			od -An -v -tx1 <"$dir/cmdline" 2>/dev/null | tr -d ' \n'
			echo
			break
		done
	done
}
