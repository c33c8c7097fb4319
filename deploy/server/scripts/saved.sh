# Servers that were stopped and are kept to be started again: saved/ID has what
# it takes, readable by this user alone since an environment holds secrets.
# argv and environ are as the kernel has them; the other files hold one value
# each. "stopped" is there once the process was proved gone, "launch" names the
# launch that starts it again, "restored" says that this one served. Definitions
# only, behind lib.sh.

# hex: its input as hexadecimal digits.
hex() { od -An -v -tx1 | tr -d ' \n'; }

# main_of UNIT PID: prints "system UNIT" or "user UNIT" when the process is what
# that service runs, not one that somebody started in it.
main_of() {
	[ -n "$1" ] && command -v systemctl >/dev/null 2>&1 || return 0
	if [ "$(systemctl show -p MainPID "$1" 2>/dev/null)" = "MainPID=$2" ]; then
		echo "system $1"
	elif [ "$(XDG_RUNTIME_DIR=${XDG_RUNTIME_DIR:-/run/user/$(id -u)} systemctl --user show -p MainPID "$1" 2>/dev/null)" = "MainPID=$2" ]; then
		echo "user $1"
	fi
}

# save_process DIR PID TICKS PORT LOG ABOUT UNIT: everything or nothing. False, with
# save_error set, when it cannot be read or written; a process that is written
# down already is not read again.
save_process() {
	save_error=
	[ ! -e "$1/argv" ] || return 0
	s_new=$1.$$.new
	mkdir -p "$s_new" 2>/dev/null || { save_error="$s_new cannot be made"; return 1; }
	if other_space "$2" pid; then
		# Here its program and its folder would be others.
		save_error="it runs in a container, which has to start it again"
	elif ! cat "/proc/$2/environ" >"$s_new/environ" 2>/dev/null; then
		save_error="the environment of process $2 cannot be read"
	elif ! cat "/proc/$2/cmdline" >"$s_new/argv" 2>/dev/null || [ ! -s "$s_new/argv" ]; then
		save_error="the command line of process $2 cannot be read"
	elif ! readlink "/proc/$2/cwd" >"$s_new/cwd" 2>/dev/null; then
		save_error="the folder of process $2 cannot be read"
	else
		folder "$(cat "$s_new/cwd")"
		case $(cat "$s_new/cwd") in *" (deleted)") put "$s_new/cwd" "$f_path" ;; esac
		proc "$2" || :
		{
			put "$s_new/user" "$(user_of "$(stat -c %u "/proc/$2" 2>/dev/null)")" &&
				put "$s_new/pid" "$2" && put "$s_new/port" "$4" && put "$s_new/log" "$5" && put "$s_new/about" "$6" &&
				{ s_unit=$(main_of "$7" "$2") && { [ -z "$s_unit" ] || put "$s_new/unit" "$s_unit"; }; }
		} || save_error="$s_new cannot be written"
		# What was read is its own only when it is still there.
		alive "$2" "$3" || save_error="process $2 ended while it was read"
	fi
	[ -n "$save_error" ] || mv "$s_new" "$1" 2>/dev/null || save_error="$1 cannot be made"
	[ -z "$save_error" ] || rm -rf "$s_new"
	[ -z "$save_error" ]
}

# tell_saved DIR: without its environment.
tell_saved() {
	printf 'saved %s\nargv %s\ncwd %s\n' "${1##*/}" "$(hex <"$1/argv")" "$(hex <"$1/cwd")"
	for t_name in user pid port log about unit stopped launch restored; do
		if t_value=$(val "$1/$t_name"); then printf '%s %s\n' "$t_name" "$t_value"; fi
	done
}
