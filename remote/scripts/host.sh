# What several packages must understand alike on a host: who it is, what a
# process is, what "~" means. Definitions only, one command a line, nothing is
# printed and no process is started but where it says so. Works alike in dash,
# bash and busybox. A process is named by pid and start ticks: a pid alone may be
# a stranger's.

# host_identity sets boot_id, and host_id: machine and PID namespace, what must be
# equal for a pid to mean the same process. It has no blanks. Runs readlink. In a
# container that was entered from its host it is the container: its PID namespace
# is another one after each restart.
host_identity() {
	if [ -n "${SPECRUN_CONTAINER-}" ]; then
		host_id=container/$SPECRUN_CONTAINER
		boot_identity
		return 0
	fi
	host_id=
	for id_file in /etc/machine-id /var/lib/dbus/machine-id /proc/sys/kernel/hostname; do
		[ -n "$host_id" ] || [ ! -r "$id_file" ] || read -r host_id <"$id_file" || :
	done
	host_id="$host_id/$(readlink /proc/self/ns/pid 2>/dev/null)"
	boot_identity
}

# boot_identity sets boot_id, to nothing where the system does not tell. A
# container boots when its first process starts.
boot_identity() {
	boot_id=
	[ ! -r /proc/sys/kernel/random/boot_id ] || read -r boot_id </proc/sys/kernel/random/boot_id
	[ -z "${SPECRUN_CONTAINER-}" ] || boot_id=$boot_id.$(proc 1 && echo "$p_ticks")
}

# proc PID sets p_state (a letter), p_ppid, p_pgid, p_sid, p_ticks; false when
# there is none. The command name may hold anything, line breaks too, so fields
# count from behind its last ")".
proc() {
	p_raw=
	{
		while IFS= read -r p_line || [ -n "$p_line" ]; do
			p_raw="$p_raw$p_line "
		done <"/proc/$1/stat"
	} 2>/dev/null || return 1
	# shellcheck disable=SC2086
	set -- ${p_raw##*) }
	[ $# -ge 20 ] || return 1
	p_state=$1
	p_ppid=$2
	p_pgid=$3
	p_sid=$4
	p_ticks=${20}
}

# alive PID TICKS: that very process runs, or is stopped. A zombie is dead: it
# holds no port and no memory, and where PID 1 does not reap it stays for ever.
alive() {
	proc "$1" || return 1
	[ "$p_ticks" = "$2" ] || return 1
	case $p_state in Z | X | x) return 1 ;; esac
}

# expand PATH sets expanded: "~" and "~/x" become paths below the home folder.
expand() {
	expanded=$1
	case $1 in "~" | "~/"*) expanded=$HOME${1#"~"} ;; esac
}

# nap SECONDS sleeps for a part of one, or for one where sleep knows no parts.
nap() {
	sleep "$1" 2>/dev/null || sleep 1
}
