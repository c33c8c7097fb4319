# Lists processes whose command line has one of the words; changes nothing. In:
# WORDS, separated by blanks. Out: "process PID PPID HEX" for each.

# candidates: pids that have one of WORDS in an argument, or one that matches
# PATTERN, an extended regular expression. One look at all: a shell reads byte by
# byte, and a command line may have a hundred thousand.
candidates() {
	# As in with_run_id: tail heads each file with its name, and a newline inside
	# an argument becomes \001.
	tail -n +1 /proc/[0-9]*/cmdline 2>/dev/null | tr '\n\000' '\001\n' | WORDS=${WORDS-} PATTERN=${PATTERN-} awk '
		BEGIN { n = split(ENVIRON["WORDS"], word, " "); pattern = ENVIRON["PATTERN"] }
		function look(text,  i) {
			if (pid == "" || pid == seen) return
			for (i = 1; i <= n; i++) if (index(text, word[i])) { print pid; seen = pid; return }
			if (pattern != "" && text ~ pattern) { print pid; seen = pid }
		}
		{
			while (match($0, /\001?==> \/proc\/[0-9]+\/cmdline <==\001/)) {
				look(substr($0, 1, RSTART - 1))
				pid = substr($0, RSTART, RLENGTH)
				gsub(/\001|[^0-9]/, "", pid)
				$0 = substr($0, RSTART + RLENGTH)
			}
			look($0)
		}'
}

main() {
	for pid in $(candidates); do
		[ "$pid" != $$ ] && proc "$pid" || continue
		case $p_state in Z | X | x) continue ;; esac
		printf 'process %s %s ' "$pid" "$p_ppid"
		od -An -v -tx1 <"/proc/$pid/cmdline" 2>/dev/null | tr -d ' \n'
		echo
	done
}
