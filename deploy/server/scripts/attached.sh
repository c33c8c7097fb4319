# A launch whose server somebody else runs. runs/ID/attached says what that
# server was when the launch began: a line "host boot pid ticks sid port socket
# from", pid 0 for a process that could not be seen, socket the inode it listens
# with, from the length of its log then; and a line with the path of its log. It
# is no "identity", so that nothing which ends a launch's processes knows of it.
# Definitions only, behind lib.sh.

# read_attached DIR: false when that launch has a server of its own, or none.
read_attached() {
	at_host='' at_boot='' at_pid='' at_ticks='' at_sid='' at_port='' at_socket='' at_from='' at_log=''
	{
		read -r at_host at_boot at_pid at_ticks at_sid at_port at_socket at_from &&
			IFS= read -r at_log
	} 2>/dev/null <"$1/attached" || :
	[ -n "$at_from" ]
}

# tell_attached: how it stands, behind read_attached and host_identity. It runs
# while its process lives and the socket is the one it listened with: a server
# that was started anew has another one, whatever its pid.
tell_attached() {
	printf 'attached 1\nport %s\nlog_from %s\nidentity %s %s %s %s %s\n' "$at_port" "$at_from" \
		"$at_host" "$at_boot" "$at_pid" "$at_ticks" "$at_sid"
	if [ "$at_host" != "$host_id" ]; then
		printf 'phase elsewhere\nhere %s\n' "$host_id"
		return 0
	fi
	[ -z "$at_log" ] || printf 'log %s\n' "$at_log"
	at_live=1
	[ "$at_boot" = "$boot_id" ] || at_live=
	[ "$at_pid" = 0 ] || alive "$at_pid" "$at_ticks" || at_live=
	case "
$(listeners "$at_port")" in *"
$at_socket "*) ;; *) at_live= ;; esac
	if [ -n "$at_live" ]; then
		echo 'phase running'
		[ "${PORT:-0}" = 0 ] || holders "$at_port" | sed 's/^listener /whose ours\
listener /'
	else
		echo 'phase exited'
		holders "$at_port" | sed 's/^listener /replaced /'
	fi
	[ -n "$at_log" ] || return 0
	at_stat=$(stat -L -c '%s %d:%i' "$at_log" 2>/dev/null) || at_stat='0 -'
	printf 'log_size %s\nlog_file %s\n' "${at_stat% *}" "${at_stat#* }"
}
