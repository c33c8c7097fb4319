# What the host knows about the end of a launch's processes; changes nothing.
# In: STATE ID. Out: see death.go.

# full FOLDER WHAT: says so when nothing can be written there any more.
full() {
	[ -n "$1" ] && [ -d "$1" ] || return 0
	f_space=$(df -Pk "$1" 2>/dev/null | awk 'NR == 2 { print $4, $6 }')
	f_nodes=$(df -Pi "$1" 2>/dev/null | awk 'NR == 2 { print $4 }')
	case ${f_space%% *} in '' | *[!0-9]*) return 0 ;; esac
	# A page of log that fits is no sign of space: file systems keep some back.
	if [ "${f_space%% *}" -lt 64 ] || [ "$f_nodes" = 0 ]; then
		printf 'full %s\n' "$2 $1 (file system ${f_space#* }: ${f_space%% *} KiB, ${f_nodes:-?} files free)"
	fi
}

main() {
	state_dir
	host_identity
	dir=$state/runs/$ID
	read_identity "$dir" || return 0
	[ "$i_host" = "$host_id" ] || return 0
	[ ! -e "$dir/stopped" ] || echo 'stopped 1'
	if [ "$i_boot" != "$boot_id" ]; then
		echo 'reboot 1'
		return 0
	fi
	if { read -r before_host before_group group <"$dir/oom"; } 2>/dev/null; then
		oom_kills "$group"
		printf 'oom host %s %s\noom group %s %s\n' "$before_host" "$o_host" "$before_group" "$o_group"
	fi
	# Readable for few; the lines name the process that was killed.
	if command -v dmesg >/dev/null 2>&1; then
		dmesg 2>/dev/null | tail -n 400 | grep -i 'killed process\|oom-kill:' | tail -n 3 | tr -c '[:print:]\n' ' ' | sed 's/^/kernel /'
	fi
	full "$dir" 'the folder of its log'
	full "${TMPDIR:-/tmp}" 'the folder for temporary files'
	full "${XDG_CACHE_HOME:-$HOME/.cache}" 'the folder of caches'
	full /dev/shm 'shared memory'
}
