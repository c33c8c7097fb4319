# Prints what could explain a number and may differ from launch to launch.
# Behind remote.HostLib and smi.sh. Changes nothing.
# In: PID and SESSION of the server (0 unknown), python cwd exports program ask.

first() {
	line=
	{ IFS= read -r line <"$1"; } 2>/dev/null
	[ -n "$line" ]
}

# stamp NAME: the host's clock, with what parts of a second it tells.
stamp() {
	printf '%s\t%s\n' "$1" "$(date +%s.%N)"
}

# chosen FILE: the word in brackets.
chosen() {
	! first "$1" || printf '%s' "$line" | sed -n 's/.*\[\([^]]*\)\].*/\1/p'
}

# limit FILE FOLDER: the nearest limit at a control group or above it.
limit() {
	group=$2
	while :; do
		if first "/sys/fs/cgroup$group/$1"; then
			case $line in max | "max "*) ;; *) printf '%s' "$line"; return ;; esac
		fi
		[ -n "$group" ] || break
		group=${group%/*}
	done
	first "/sys/fs/cgroup$2/$1" && printf 'none'
}

settings() {
	fact host governor "$(cat /sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor 2>/dev/null | sort -u | tr '\n' ' ' | sed 's/ $//')"
	if first /sys/devices/system/cpu/intel_pstate/no_turbo; then
		case $line in 0) fact host turbo on ;; *) fact host turbo off ;; esac
	elif first /sys/devices/system/cpu/cpufreq/boost; then
		case $line in 0) fact host turbo off ;; *) fact host turbo on ;; esac
	fi
	fact host transparent_hugepages "$(chosen /sys/kernel/mm/transparent_hugepage/enabled)"
	! first /proc/sys/kernel/numa_balancing || fact host numa_balancing "$line"
	! first /proc/loadavg || fact host load_average "${line%%.*}"
	group=$(sed -n 's/^0:://p' "/proc/$PID/cgroup" 2>/dev/null | head -n 1)
	[ "$group" != / ] || group=
	fact host cgroup_cpu_max "$(limit cpu.max "$group")"
	fact host cgroup_memory_max "$(limit memory.max "$group")"
	if [ "$PID" != 0 ] && [ -r "/proc/$PID/status" ]; then
		fact host cpu_affinity "$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/$PID/status")"
		fact host numa_memory "$(sed -n 's/^Mems_allowed_list:[[:space:]]*//p' "/proc/$PID/status")"
	fi
}

# whose PID sets whose: ours is of the server's session or below it; unknown is
# a process that cannot be seen here, or a server that nobody named.
whose() {
	whose=unknown
	[ "$SESSION" != 0 ] || return 0
	at=$1
	hops=0
	while [ "$hops" -lt 64 ] && proc "$at"; do
		whose=theirs
		if [ "$at" = "$SESSION" ] || [ "$p_sid" = "$SESSION" ]; then
			whose=ours
			return
		fi
		[ "$p_ppid" -gt 1 ] || return 0
		at=$p_ppid
		hops=$((hops + 1))
	done
}

cards() {
	smi_there || return 0
	smi_query index,power.limit,clocks.applications.graphics,clocks.applications.memory,ecc.mode.current,persistence_mode,mig.mode.current,compute_mode
	smi --query-compute-apps=pid,used_memory,process_name --format=csv,noheader,nounits | while IFS=, read -r pid memory name; do
		case $pid in '' | *[!0-9]*) continue ;; esac
		whose "$pid"
		[ "$whose" = theirs ] || continue
		printf 'user\t%s\t%s\t%s\t%s\n' "$pid" "$(stat -c %U "/proc/$pid" 2>/dev/null)" "${memory# }" "${name# }"
	done
}

interpreter() {
	expand "$python"
	python=$expanded
	[ -n "$python" ] || return 0
	expand "$cwd"
	if [ -n "$expanded" ] && ! cd "$expanded" 2>/dev/null; then
		fact code note "no package was read: no folder $expanded"
		return 0
	fi
	eval "$exports"
	"$python" -B -c "$program" "$ask" </dev/null || fact code note "no package was read: $python ended with status $?"
}

main() {
	stamp begin
	settings
	cards
	# Its environment is the server's and not for the rest of this script.
	(interpreter)
	printf '\n'
	stamp end
}
