# Functions for launches that a systemd unit runs. A launch keeps in its folder:
# unit ("system NAME" or "user NAME"), invocation, cgroup. The drop-in lies below
# /run, so that a restart of the host leaves the unit as it was; so does the
# environment, which may hold secrets, on no disk and for its owner alone. Both stay
# until the stop: who restarts the unit has the launch's server again.

# unit_of DIR: sets u_name, u_scope, u_dropin; false when no unit runs the launch.
unit_of() {
	u_scope='' u_name=''
	{ read -r u_scope u_name <"$1/unit"; } 2>/dev/null && [ -n "$u_name" ] || return 1
	unit_paths
}

unit_paths() {
	case $u_scope in
	user)
		# A session over SSH has it only where PAM says so.
		XDG_RUNTIME_DIR=${XDG_RUNTIME_DIR:-/run/user/$(id -u)}
		export XDG_RUNTIME_DIR
		u_dropin=$XDG_RUNTIME_DIR/systemd/user/$u_name.d/zz-specrun.conf
		;;
	*) u_dropin=/run/systemd/system/$u_name.d/zz-specrun.conf ;;
	esac
}

# unit_env_file ID: where a launch's environment lies; no name that is read as a
# drop-in.
unit_env_file() { printf '%s\n' "${u_dropin%.conf}.$1.env"; }

unit_ctl() {
	if [ "$u_scope" = user ]; then systemctl --user "$@"; else systemctl "$@"; fi
}

# unit_read: sets u_active u_main u_control u_first u_invocation u_cgroup u_code
# u_status to what the manager says of the unit.
unit_read() {
	u_active='' u_main='' u_control='' u_first='' u_invocation='' u_cgroup='' u_code='' u_status=''
	u_all=$(unit_ctl show -p ActiveState -p MainPID -p ControlPID -p ExecMainPID -p InvocationID -p ControlGroup -p ExecMainCode -p ExecMainStatus "$u_name" 2>/dev/null) || return 1
	while IFS= read -r u_line; do
		case $u_line in
		ActiveState=*) u_active=${u_line#*=} ;;
		MainPID=*) u_main=${u_line#*=} ;;
		ControlPID=*) u_control=${u_line#*=} ;;
		ExecMainPID=*) u_first=${u_line#*=} ;;
		InvocationID=*) u_invocation=${u_line#*=} ;;
		ControlGroup=*) u_cgroup=${u_line#*=} ;;
		ExecMainCode=*) u_code=${u_line#*=} ;;
		ExecMainStatus=*) u_status=${u_line#*=} ;;
		esac
	done <<END
$u_all
END
}

# unit_was DIR: the unit's latest run, read before, is the launch's.
unit_was() {
	u_kept=$(val "$1/invocation") && [ -n "$u_kept" ] && [ "$u_kept" = "$u_invocation" ]
}

# unit_ours DIR ID: what runs in the unit is this launch's. Reads it.
unit_ours() {
	unit_read || return 1
	if unit_was "$1"; then return 0; fi
	# Its start was cut off before that was written. The unit may have a user of its
	# own, whose processes with_run_id does not count as ours.
	for u_pid in $u_main $u_control; do
		case $u_pid in 0) continue ;; esac
		if tr '\n\000' '\001\n' 2>/dev/null <"/proc/$u_pid/environ" | grep -Fqx "SPECRUN_RUN_ID=$2"; then return 0; fi
	done 2>/dev/null
	return 1
}

# unit_status DIR: keeps how the unit's main process ended, as a shell has it. A
# unit that is inactive is soon forgotten by its manager: what the drop-in's
# ExecStopPost= wrote is asked first.
unit_status() {
	[ ! -e "$1/exit" ] || return 0
	{ read -r u_code u_status <"$1/unit.end"; } 2>/dev/null || { unit_read && unit_was "$1"; } || return 0
	case $u_code in
	exited | 1) put "$1/exit" "$u_status" ;;
	2 | 3) put "$1/exit" "$((128 + u_status))" ;;
	killed | dumped)
		u_signal=1
		while [ "$u_signal" -lt 65 ]; do
			if [ "$(kill -l "$u_signal" 2>/dev/null)" = "$u_status" ]; then
				put "$1/exit" "$((128 + u_signal))"
				return
			fi
			u_signal=$((u_signal + 1))
		done
		;;
	esac
}

# unit_members DIR: "pid ticks" of each living process in the launch's cgroup.
unit_members() {
	u_group=$(val "$1/cgroup") && [ -n "$u_group" ] || return 0
	case $u_group in /) return 0 ;; esac
	for u_root in /sys/fs/cgroup /sys/fs/cgroup/systemd /sys/fs/cgroup/unified; do
		[ -d "$u_root$u_group" ] || continue
		find "$u_root$u_group" -name cgroup.procs 2>/dev/null
	done | while IFS= read -r u_file; do cat "$u_file" 2>/dev/null; done | sort -u | while read -r u_pid; do
		if proc "$u_pid" && [ "$p_state" != Z ]; then echo "$u_pid $p_ticks"; fi
	done
}

# unit_escape TEXT: for a value of a unit file.
unit_escape() { printf '%s\n' "$1" | sed 's/%/%%/g'; }

# unit_home TEXT: the home folder for each mark of it.
unit_home() {
	h_mark=$(printf '\001') h_rest=$1 h_out='' h_home=$(unit_escape "$HOME")
	while :; do
		case $h_rest in
		*"$h_mark"*)
			h_out=$h_out${h_rest%%"$h_mark"*}$h_home
			h_rest=${h_rest#*"$h_mark"}
			;;
		*) break ;;
		esac
	done
	printf '%s\n' "$h_out$h_rest"
}

# unit_drop_in: what changes the unit for this launch. No other launch's start is
# limited by how often there was one, and nobody but us starts it anew.
unit_drop_in() {
	printf '# specrun launch %s: it goes when the launch is stopped\n' "$ID"
	printf '[Unit]\nStartLimitIntervalSec=0\n'
	printf '[Service]\nType=simple\nPIDFile=\nRestart=no\nRemainAfterExit=no\nWatchdogSec=0\n'
	[ -z "$UNIT_EXEC" ] || printf 'ExecStart=\nExecStart=%s\n' "$(unit_home "$UNIT_EXEC")"
	printf 'EnvironmentFile=%s\n' "$(unit_escape "$(unit_env_file "$ID")")"
	printf 'ExecStopPost=+/bin/sh -c "echo \\"$$EXIT_CODE $$EXIT_STATUS\\" >\\"$$0\\"" "%s"\n' "$(unit_escape "$dir/unit.end" | sed 's/[\\"]/\\&/g;s/\$/$$/g')"
	[ -z "$cwd" ] || printf 'WorkingDirectory=%s\n' "$(unit_escape "$cwd")"
	printf 'StandardOutput=append:%s\nStandardError=append:%s\n' "$(unit_escape "$dir/server.log")" "$(unit_escape "$dir/server.log")"
}

unit_env() {
	printf '%s' "$UNIT_ENV"
	if [ -n "$env_file" ]; then
		while IFS= read -r line || [ -n "$line" ]; do
			env_line "$line" || continue
			printf '%s="%s"\n' "$e_name" "$(printf '%s\n' "$e_value" | sed 's/[\\"`$]/\\&/g')"
		done <"$env_file"
	fi
	printf '%s' "$UNIT_ENV_LAST"
}

# unit_refuse TEXT: undoes what was begun.
unit_refuse() {
	unit_undo "$dir"
	refuse unit "$1"
}

# start_unit: starts the server as UNIT, which must be there and not run.
start_unit() {
	u_scope=$UNIT_SCOPE u_name=$UNIT
	unit_paths
	command -v systemctl >/dev/null 2>&1 || refuse unit "no systemctl in PATH ($PATH)"
	load=$(unit_ctl show -p LoadState "$u_name" 2>&1) || refuse unit "systemctl: $load"
	[ "$load" = LoadState=loaded ] || refuse unit "unit $u_name is not loaded: ${load#*=}"
	unit_read
	case $u_active in
	inactive | failed) ;;
	*)
		# A start of this launch that was cut off.
		if unit_ours "$dir" "$ID"; then unit_found; fi
		printf 'state unit\nunit %s %s %s\n' "$u_name" "$u_active" "$u_main"
		exit 0
		;;
	esac
	put "$dir/unit" "$u_scope $u_name" || unwritable "$dir/unit"
	# The manager reads it, whoever the unit's user is, and nobody else may: what
	# Environment= says, everybody can read.
	if ! { (umask 022 && mkdir -p "${u_dropin%/*}") && unit_env >"$(unit_env_file "$ID")" && (umask 022 && unit_drop_in >"$u_dropin.new") && mv -f "$u_dropin.new" "$u_dropin"; } 2>/dev/null; then
		rm -f "$u_dropin.new"
		unit_refuse "$u_dropin cannot be written: only root may change a unit of the system; a unit of your own needs user: true"
	fi
	answer=$(unit_ctl daemon-reload 2>&1) || unit_refuse "systemctl daemon-reload: $answer"
	if [ -e "$dir/stopped" ]; then
		unit_undo "$dir"
		printf 'state stopped\n'
		exit 0
	fi
	answer=$(unit_ctl start "$u_name" 2>&1) || unit_refuse "systemctl start $u_name: $answer"
	if [ -e "$dir/stopped" ]; then # by somebody else, who may have undone the drop-in: nothing ran before us
		unit_ctl stop "$u_name" >/dev/null 2>&1
		unit_undo "$dir"
		printf 'state stopped\n'
		exit 0
	fi
	unit_found
}

# unit_found: identity of what systemctl start has started, also when it has ended
# again by now.
unit_found() {
	unit_read
	put "$dir/invocation" "$u_invocation" && put "$dir/cgroup" "$u_cgroup" || unwritable "$dir/invocation"
	put "$dir/unit" "$u_scope $u_name" || unwritable "$dir/unit"
	if [ "${u_main:-0}" != 0 ] && proc "$u_main"; then
		put "$dir/identity" "$host_id $boot_id $u_main $p_ticks $p_sid" || unwritable "$dir/identity"
	else
		case $u_first in '' | 0) unit_refuse "unit $u_name started nothing" ;; esac
		put "$dir/identity" "$host_id $boot_id $u_first 0 $u_first" || unwritable "$dir/identity"
		unit_status "$dir"
	fi
	read_identity "$dir" && started 0
	refuse state_dir "$dir/identity cannot be read"
}

# stop_unit DIR ID: stops what runs in the unit as the launch, within GRACE
# hundredths of a second. What it leaves is ended like anything of the launch.
stop_unit() {
	unit_of "$1" || return 0
	unit_ours "$1" "$2" || return 0
	case $u_main in '' | 0) ;; *) echo "term $u_main" ;; esac
	if ! u_answer=$(unit_ctl stop --no-block "$u_name" 2>&1); then
		printf 'note systemctl stop %s: %s\n' "$u_name" "$(printf '%s' "$u_answer" | tr '\n' ' ')"
		return 0
	fi
	clock
	limit=$((t_cs + GRACE))
	while :; do
		unit_read
		case $u_active in inactive | failed) break ;; esac
		clock
		[ "$t_cs" -lt "$limit" ] || break
		nap 0.05
	done
	# It had its time.
	GRACE=0
	unit_status "$1"
}

# unit_undo DIR: takes the drop-in away again, when it is this launch's.
unit_undo() {
	unit_of "$1" || return 0
	rm -f "$(unit_env_file "${1##*/}")"
	u_mine=$(val "$u_dropin") || u_mine=
	case $u_mine in
	"# specrun launch ${1##*/}:"*) ;;
	*)
		rmdir "${u_dropin%/*}" 2>/dev/null || : # a start that was cut off before it
		return 0
		;;
	esac
	rm -f "$u_dropin" || return 1
	rmdir "${u_dropin%/*}" 2>/dev/null || : # others have theirs in it
	unit_ctl daemon-reload >/dev/null 2>&1 || return 1
	# Only what failed can be reset.
	unit_ctl reset-failed "$u_name" >/dev/null 2>&1 || :
}
