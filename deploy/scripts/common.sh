# Shared by all scripts of this package. One command stands on one line, and
# conditions only look: the tests kill a script after each of its lines.

# fail CODE KIND [LINE...]: says what happened, one value a line, and ends.
fail() {
	fail_code=$1
	printf 'error %s\n' "$2"
	shift 2
	printf '%s\n' "$@"
	exit "$fail_code"
}

# unwritable PATH: says that something could not be written there, and what
# room there is: free blocks, their size, free inodes, all inodes (0 where the
# file system does not count them).
unwritable() {
	[ -e "$1" ] || set -- "${1%/*}" "$1"
	room=$(stat -f -c '%a %S %d %c' "$1" 2>/dev/null) || room=
	fail 73 unwritable "path ${2:-$1}" "room $room"
}

# host_identity sets host_id (machine and PID namespace: what must be equal for
# a pid to mean the same process; probe.py makes the same) and boot_id.
host_identity() {
	host_id=
	for id_file in /etc/machine-id /var/lib/dbus/machine-id /proc/sys/kernel/hostname; do
		[ -n "$host_id" ] || [ ! -r "$id_file" ] || read -r host_id <"$id_file" || host_id=
	done
	host_id="$host_id/$(readlink /proc/self/ns/pid)"
	boot_identity
}

boot_identity() {
	boot_id=
	[ ! -r /proc/sys/kernel/random/boot_id ] || read -r boot_id </proc/sys/kernel/random/boot_id
}

# expand PATH sets expanded: "~" and "~/x" become paths below the home folder.
expand() {
	expanded=$1
	case $1 in "~" | "~/"*) expanded=$HOME${1#"~"} ;; esac
}
