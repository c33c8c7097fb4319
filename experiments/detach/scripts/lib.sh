# Functions shared by the scripts of this package, behind those of
# remote.HostLib. Definitions only. Works alike in dash, bash and busybox.

# read_identity DIR: sets i_boot i_pid i_ticks; false when no process has begun.
read_identity() {
	i_boot='' i_pid='' i_ticks=''
	{ read -r i_boot i_pid i_ticks <"$1/identity"; } 2>/dev/null
	[ -n "$i_ticks" ]
}

# process_alive: the process of read_identity runs, on this boot.
process_alive() {
	boot_identity
	[ "$boot_id" = "$i_boot" ] && alive "$i_pid" "$i_ticks"
}

# owner PATH: prints the name of the user whose it is.
owner() {
	# shellcheck disable=SC2012,SC2046
	set -- $(ls -ld "$1")
	printf '%s' "$3"
}

# stands DIR: prints how its sweep stands.
stands() {
	if [ ! -d "$1" ]; then
		echo absent
	elif ! read_identity "$1"; then
		echo begun
	elif process_alive; then
		echo running
	elif [ -s "$1/end.json" ]; then
		echo ended
	else
		echo dead
	fi
}
