# Functions shared by the scripts of this package. Definitions only. Works alike
# in dash, bash and busybox.

# home_path PATH: the path with a leading ~/ replaced by the home folder.
home_path() {
	case $1 in
	"~") printf '%s\n' "$HOME" ;;
	"~/"*) printf '%s\n' "$HOME/${1#??}" ;;
	*) printf '%s\n' "$1" ;;
	esac
}

nap() { sleep "$1" 2>/dev/null || sleep 1; }

# read_identity DIR: sets i_boot i_pid i_ticks; false when no worker has begun.
read_identity() {
	i_boot='' i_pid='' i_ticks=''
	{ read -r i_boot i_pid i_ticks <"$1/identity"; } 2>/dev/null
	[ -n "$i_ticks" ]
}

# alive: the worker of read_identity runs. A pid alone may be a stranger's, so
# boot and start ticks count too; a zombie is dead.
alive() {
	read -r a_boot </proc/sys/kernel/random/boot_id || return 1
	[ "$a_boot" = "$i_boot" ] || return 1
	a_raw=
	{ while IFS= read -r a_line || [ -n "$a_line" ]; do a_raw="$a_raw$a_line "; done <"/proc/$i_pid/stat"; } 2>/dev/null || return 1
	# The command name may hold anything: fields count from behind its last ")".
	# shellcheck disable=SC2086
	set -- ${a_raw##*) }
	[ $# -ge 20 ] || return 1
	case $1 in Z | X | x) return 1 ;; esac
	shift 19
	[ "$1" = "$i_ticks" ]
}

# state: prints absent, running, done or dead for $dir.
state() {
	if [ -e "$dir/report.json" ]; then
		echo done
	elif read_identity "$dir"; then
		# The report may have come, and the worker gone, between two looks.
		if alive; then echo running; elif [ -e "$dir/report.json" ]; then echo done; else echo dead; fi
	else
		echo absent
	fi
}
