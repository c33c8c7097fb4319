# Ends the processes of one script and proves it. In: PID PGID SID TICKS GRACE
# (tenths of a second before SIGKILL). Out: "gone", or "left PID...".
#
# The session is ours only when its leader is also the leader of the script's
# group (sshd starts each command in a new session); else only the group is.
members() {
	left=
	if [ -d /proc/self ]; then
		for dir in /proc/[0-9]*; do
			pid=${dir##*/}
			[ "$pid" != "$$" ] && proc "$pid" || continue
			[ "$p_state" != Z ] && [ "$p_state" != X ] || continue
			if [ "$p_pgid" = "$PGID" ] || { [ "$SID" = "$PGID" ] && [ "$p_sid" = "$SID" ]; }; then
				left="$left $pid"
			fi
		done
	elif kill -0 -- "-$PGID"; then
		left="-$PGID"
	fi
}

# signal NAME TENTHS: to the members until they are gone. The script's shell is
# told once: it remembers, and must not be told again while it cleans up. The
# others are told each time: one may have been started while we looked, or have
# lost the signal between its fork and its exec, and the shell waits for it
# before it runs its own trap.
signal() {
	tenths=0
	told=
	while :; do
		members
		[ -n "$left" ] || return 0
		for pid in $left; do
			[ "$pid" != "$PID" ] || [ -z "$told" ] || continue
			[ "$pid" != "$PID" ] || told=1
			kill -s "$1" -- "$pid"
		done
		[ "$tenths" -lt "$2" ] || return 1
		nap 0.1
		tenths=$((tenths + 1))
	done
}

main() {
	exec 2>/dev/null
	# A pid that begins at another tick is a stranger's: ours has ended, and
	# its group with it, else the number would not have been free.
	if [ "$TICKS" != 0 ] && proc "$PID" && [ "$p_ticks" != "$TICKS" ]; then
		echo gone
		return 0
	fi
	if signal TERM "$GRACE" || signal KILL 30; then echo gone; else echo "left$left"; fi
}
