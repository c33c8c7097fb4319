# Functions for launches that the user's own commands start and stop. A launch
# keeps "commands" in its folder: the values they run with, user_stop, user_status.

# user_command DIR NAME: runs one of them in place of this shell, in the launch's
# working directory.
user_command() {
	exec </dev/null >>"$1/server.log" 2>&1
	# shellcheck disable=SC1090,SC1091
	. "$1/commands"
	path=$PATH
	case $PYTHON in */*) path="${PYTHON%/*}${path:+:$path}" ;; esac
	if [ -n "$CWD" ]; then cd "$CWD" || exit 126; fi
	"$2"
}

# timed CENTISECONDS: waits for the child $timed_pid, ends it when it is late; its
# status, 124 when it was late.
timed() {
	clock
	limit=$((t_cs + $1))
	while proc "$timed_pid" && [ "$p_state" != Z ]; do
		clock
		if [ "$t_cs" -ge "$limit" ]; then
			kill -s KILL "$timed_pid" 2>/dev/null
			wait "$timed_pid" 2>/dev/null
			return 124
		fi
		nap 0.02
	done
	wait "$timed_pid"
}

# stop_by_command DIR: the user's stop, and the time that the server then takes.
# What it leaves is ended like anything of the launch.
stop_by_command() {
	[ -f "$1/commands" ] || return 0
	if ! leader_alive && [ -z "$(ours "$ID" "$i_sid")" ]; then return 0; fi
	(user_command "$1" user_stop) &
	timed_pid=$!
	status=0
	timed "$GRACE" || status=$?
	case $status in
	0) ;;
	127) return 0 ;; # there is none
	*)
		echo "note the stop command ended with $status"
		return 0
		;;
	esac
	echo "term $i_pid"
	clock
	limit=$((t_cs + GRACE))
	while leader_alive; do
		clock
		[ "$t_cs" -lt "$limit" ] || break
		nap 0.05
	done
	GRACE=0
}

# command_says DIR: what the user's status says when all is over, a hint.
command_says() {
	[ -f "$1/commands" ] || return 0
	(user_command "$1" user_status) &
	timed_pid=$!
	if timed 1000; then echo 'note the status command says that it still runs'; fi
}
