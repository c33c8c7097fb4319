# The launcher that start.sh leaves in the launch's folder, behind its values
# (ID DIR CWD ENV_FILE PYTHON SH; COMMAND, for a start by the user's command: how long
# the server may take to show when that has ended, in hundredths of a second), a
# function serve() that execs the server, and lib.sh. Two processes run it: "keep" waits and keeps the exit status, "launch"
# becomes the server. They are in sessions of their own, so that no hangup ends
# either and the server's session holds nothing but the server.

# claim: at most one keeper starts a server for this launch id, however often
# and from wherever start.sh ran. link(2) makes the name and its content appear
# at once; a keeper that died leaves its generation, and the next one outranks it.
claim() {
	proc $$ && c_me="$host_id $boot_id $$ $p_ticks"
	printf '%s\n' "$c_me" >"$DIR/keeper.$$.new" || return 1
	while :; do
		gen=0
		while [ -e "$DIR/keeper.$((gen + 1))" ]; do gen=$((gen + 1)); done
		if [ "$gen" -gt 0 ]; then
			[ ! -e "$DIR/identity" ] || break
			read -r c_host c_boot c_pid c_ticks <"$DIR/keeper.$gen"
			if [ "$c_host" != "$host_id" ]; then break; fi
			if [ "$c_boot" = "$boot_id" ] && alive "$c_pid" "$c_ticks"; then break; fi
		fi
		gen=$((gen + 1))
		if ln "$DIR/keeper.$$.new" "$DIR/keeper.$gen" 2>/dev/null; then
			rm -f "$DIR/keeper.$$.new"
			# The dead keeper's child may be on its way to becoming the server.
			# It shows its run id before it looks at the generation, we raise the
			# generation before we look for it: one of us sees the other.
			[ "$gen" = 1 ] || [ -z "$(with_run_id "$ID")" ] || return 1
			return 0
		fi
		[ -e "$DIR/keeper.$gen" ] || break # no hard links here, or no space
	done
	rm -f "$DIR/keeper.$$.new"
	return 1
}

# keep runs in a launcher of its own, which holds the environment, secrets
# included: it goes also when another one serves.
keep() {
	if ! claim || [ -e "$DIR/stopped" ]; then
		rm -f "$0"
		exit 0
	fi
	# We were started in the background and so with SIGINT and SIGQUIT ignored
	# (SIGHUP too below nohup),
	# which a shell cannot undo and the server would inherit.
	defaults='env --default-signal=HUP,INT,QUIT,TERM'
	$defaults true 2>/dev/null || defaults=
	proc $$ && a_since=$p_ticks
	# In the foreground, for its status. It leads no process group, so setsid
	# execs in place and the server keeps this child's pid.
	# shellcheck disable=SC2086
	SPECRUN_RUN_ID=$ID $defaults setsid "$SH" "$0" launch "$gen" </dev/null >>"$DIR/server.log" 2>&1
	status=$?
	if [ "$status" != 0 ] || ! adopt; then put "$DIR/exit" "$status"; fi
	rm -f "$0"
}

# adopt: the user's start has ended well, and has left the server behind. Which
# process that is, it printed, or the run id shows.
adopt() {
	[ -n "${COMMAND-}" ] && read_identity "$DIR" || return 1
	clock
	a_limit=$((t_cs + COMMAND))
	while ! successor_pid; do
		clock
		if [ "$t_cs" -ge "$a_limit" ] || [ -e "$DIR/stopped" ]; then
			echo "specrun: the start command has ended; no process has SPECRUN_RUN_ID=$ID in its environment, and no line of its output is alone the pid of one that it started" >>"$DIR/server.log"
			return 1
		fi
		nap 0.1
	done
	# A session that is not its own holds strangers.
	proc "$a_pid" && put "$DIR/identity" "$host_id $boot_id $a_pid $p_ticks $a_pid"
}

# successor_pid: sets a_pid to the pid that the command printed last, alone on a
# line; else to the process with our run id that listens on the port, else to the
# eldest of those. A pid is believed only of a process that began after the launch:
# any other number that stands alone would have a stranger ended at the stop.
successor_pid() {
	a_pid=$(head -c 65536 "$DIR/server.log" | sed -n 's/^[[:space:]]*\([1-9][0-9]*\)[[:space:]]*$/\1/p' | tail -n 1)
	if [ -n "$a_pid" ] && proc "$a_pid" && [ "$p_state" != Z ] && [ "$p_ticks" -ge "$a_since" ]; then return 0; fi
	a_pid='' a_born=''
	a_marked=$(with_run_id "$ID")
	for a_one in $a_marked; do
		proc "$a_one" && [ "$p_state" != Z ] || continue
		if [ -z "$a_pid" ] || [ "$p_ticks" -lt "$a_born" ]; then a_pid=$a_one a_born=$p_ticks; fi
	done
	[ -n "$a_pid" ] || return 1
	a_port=$(val "$DIR/port") || a_port=0
	[ "$a_port" != 0 ] || return 0
	# shellcheck disable=SC2086
	a_listener=$(holders "$a_port" $a_marked | awk '{ print $6; exit }')
	case "
$a_marked
" in *"
$a_listener
"*) a_pid=$a_listener ;; esac
	proc "$a_pid"
}

launch() {
	[ ! -e "$DIR/keeper.$(($1 + 1))" ] || exit 0
	proc $$ || exit 126
	put "$DIR/identity" "$host_id $boot_id $$ $p_ticks $p_sid" || exit 126
	# A stop writes its mark and then looks for us; we show ourselves first.
	[ ! -e "$DIR/stopped" ] || exit 0
	if [ "$p_sid" != $$ ]; then
		echo "specrun: setsid made no session of its own" >&2
		exit 126
	fi
	# What death.sh compares with. Nobody needs it who cannot write it.
	group=$(cgroup_of $$)
	oom_kills "$group"
	put "$DIR/oom" "$o_host $o_group $group"
	path=${BASE_PATH-$PATH}
	case $PYTHON in */*) path="${PYTHON%/*}${path:+:$path}" ;; esac
	cr=$(printf '\r')
	set --
	if [ -n "$ENV_FILE" ]; then
		while IFS= read -r line || [ -n "$line" ]; do
			env_line "$line" || continue
			set -- "$@" "$e_name=$e_value"
		done <"$ENV_FILE"
	fi
	if [ -n "$CWD" ]; then cd "$CWD" || exit 126; fi
	unset SPECRUN_CONTAINER # which the way into the container says, not the server's environment
	rm -f "$0" # it holds the environment, secrets included
	serve "$@"
}

host_identity
case $1 in
keep) keep ;;
launch) launch "$2" ;;
esac
exit
