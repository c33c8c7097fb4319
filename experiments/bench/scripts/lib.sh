# Functions shared by the scripts of this package, behind those of
# remote.HostLib. Definitions only. Works alike in dash, bash and busybox.

# read_identity DIR: sets i_boot i_pid i_ticks; false when no worker has begun.
read_identity() {
	i_boot='' i_pid='' i_ticks=''
	{ read -r i_boot i_pid i_ticks <"$1/identity"; } 2>/dev/null
	[ -n "$i_ticks" ]
}

# worker_alive: the worker of read_identity runs, on this boot.
worker_alive() {
	boot_identity
	[ "$boot_id" = "$i_boot" ] && alive "$i_pid" "$i_ticks"
}

# state: prints absent, running, done or dead for $dir.
state() {
	if [ -e "$dir/report.json" ]; then
		echo done
	elif read_identity "$dir"; then
		# The report may have come, and the worker gone, between two looks.
		if worker_alive; then echo running; elif [ -e "$dir/report.json" ]; then echo done; else echo dead; fi
	else
		echo absent
	fi
}
