# The frame around every script. A script defines main() and, when it needs
# one, cleanup(), which gets the exit status and runs at any exit but SIGKILL.
cleanup() { :; }

# Prints who we are, so that another session can end us by identity:
# pid, process group, session, start ticks (0 where there is no /proc).
specrun_begin() {
	if [ -r "/proc/$$/stat" ] && read -r specrun_stat <"/proc/$$/stat"; then
		# The command name may hold blanks and brackets: cut after the last ")".
		# shellcheck disable=SC2086
		set -- ${specrun_stat##*) }
		specrun_self="$$ $3 $4 ${20}"
	else
		specrun_self="$$ $(ps -o pgid= -p "$$" | tr -d ' ') 0 0"
	fi
	printf '\n%s begin %s\n' "$specrun_marker" "$specrun_self"
	printf '\n%s begin\n' "$specrun_marker" >&2
}

specrun_end() {
	trap '' HUP INT TERM
	trap - EXIT
	set +e
	cleanup "$1"
	printf '\n%s end %s\n' "$specrun_marker" "$1"
	printf '\n%s end %s\n' "$specrun_marker" "$1" >&2
	exit "$1"
}

specrun_run() {
	trap 'specrun_end $?' EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
	specrun_begin
	main
}
