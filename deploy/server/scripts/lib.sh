# Functions shared by the scripts of this package and by the launcher that is
# left on the host, behind those of remote.HostLib. Definitions only. Works alike
# in dash, bash and busybox. Who uses host_id or boot_id calls host_identity first.

# val FILE: prints the one value (the first line) that FILE holds.
val() {
	v_line=
	{ IFS= read -r v_line <"$1"; } 2>/dev/null || [ -n "$v_line" ] || return 1
	printf '%s\n' "$v_line"
}

# put FILE VALUE: a reader sees the old value or the new one, never half of one.
put() { printf '%s\n' "$2" >"$1.$$.new" && mv -f "$1.$$.new" "$1"; }

# clock: sets t_cs, hundredths of a second since boot. Not the wall clock, which
# may jump while we wait.
clock() {
	read -r c_up c_idle </proc/uptime
	t_cs=$((${c_up%.*} * 100 + 1${c_up#*.} - 100))
}

# state_dir: sets state to the absolute state folder ($STATE, or the default).
state_dir() {
	expand "${STATE:-${XDG_STATE_HOME:-$HOME/.local/state}/specrun}"
	state=$expanded
	case $state in /*) ;; *) state=$(pwd)/$state ;; esac
}

# mark_host NAME TEXT: nothing starts on this host until the mark is gone, see
# mark.go. Says so when it cannot be written.
mark_host() {
	mkdir -p "$state/mark" 2>/dev/null &&
		put "$state/mark/$1" "$(printf 'when %s\nboot %s\n%s' "$(date +%s)" "$boot_id" "$2")" 2>/dev/null || echo 'unmarked 1'
}

# mark_holds FILE: it is of this boot, and what is left can still be there. A mark
# with a line "lives" names all of that by identity.
mark_holds() {
	[ "$(sed -n 's/^boot //p' "$1")" = "$boot_id" ] || return 1
	m_pairs=$(sed -n 's/^lives //p' "$1")
	[ -n "$m_pairs" ] || return 0
	for m_pair in $m_pairs; do
		! alive "${m_pair%:*}" "${m_pair#*:}" || return 0
	done
	return 1
}

# marks: prints those that hold, and removes the others.
marks() {
	for m_file in "$state"/mark/*; do
		[ -e "$m_file" ] || continue
		if mark_holds "$m_file"; then
			printf 'mark %s\n' "${m_file##*/}"
			cat "$m_file"
		else
			rm -f "$m_file"
		fi
	done
}

# read_identity DIR: sets i_host i_boot i_pid i_ticks i_sid; false when no
# server process was started from DIR.
read_identity() {
	i_host='' i_boot='' i_pid='' i_ticks='' i_sid=''
	{ read -r i_host i_boot i_pid i_ticks i_sid <"$1/identity"; } 2>/dev/null
	[ -n "$i_sid" ]
}

# leader_alive: the server process named by read_identity runs, on this boot.
leader_alive() {
	[ "$i_boot" = "$boot_id" ] && alive "$i_pid" "$i_ticks"
}

# keepers DIR: "pid:ticks" of each living keeper of the launch.
keepers() {
	for k_file in "$1"/keeper.*; do
		case $k_file in *.new) continue ;; esac
		{ read -r k_host k_boot k_pid k_ticks <"$k_file"; } 2>/dev/null || continue
		if [ "$k_host" = "$host_id" ] && [ "$k_boot" = "$boot_id" ] && alive "$k_pid" "$k_ticks"; then
			printf '%s:%s\n' "$k_pid" "$k_ticks"
		fi
	done
}

# with_run_id ID: pids, of our own user, whose environment says
# SPECRUN_RUN_ID=ID. What was started by us keeps it through fork and exec,
# also in another session.
with_run_id() {
	# tail heads each file with its name. busybox's grep stops at a NUL, so it
	# cannot search these files. A newline inside a value becomes \001, so that
	# only a whole variable counts.
	tail -n +1 /proc/[0-9]*/environ 2>/dev/null | tr '\n\000' '\001\n' | awk -v want="SPECRUN_RUN_ID=$1" '
		{
			while (match($0, /\001?==> \/proc\/[0-9]+\/environ <==\001/)) {
				pid = substr($0, RSTART, RLENGTH)
				gsub(/\001|[^0-9]/, "", pid)
				$0 = substr($0, RSTART + RLENGTH)
			}
			if ($0 == want) print pid
		}' |
		while IFS= read -r w_pid; do
			if [ -O "/proc/$w_pid" ]; then printf '%s\n' "$w_pid"; fi
		done
}

# ours ID SID: "pid ticks" of each living process of a launch: those with its
# run id, those of its session (titles set by setproctitle overwrite the
# environment), the server itself (a command may have started it without either),
# and their descendants. SID may be empty.
ours() {
	o_sid=$2
	# A leader with other ticks means that the number went to a stranger, which
	# it can only when our session was empty.
	if [ -n "$o_sid" ] && proc "$o_sid" && [ "$o_sid" = "$i_pid" ] && [ "$p_ticks" != "$i_ticks" ]; then
		o_sid=
	fi
	o_pid=
	[ -z "$i_boot" ] || [ "$i_boot" != "$boot_id" ] || o_pid=$i_pid
	{
		with_run_id "$1" | sed 's/^/id /'
		cat /proc/[0-9]*/stat 2>/dev/null
	} | awk -v sid="$o_sid" -v leader="$o_pid" -v born="$i_ticks" '
		$1 == "id" { mark[$2] = 1; next }
		{
			pid = $1; line = $0
			if (!sub(/^.*\) /, "", line)) next
			split(line, f, " ")
			state[pid] = f[1]; parent[pid] = f[2]; ticks[pid] = f[20]
			if (sid != "" && f[4] == sid || leader != "" && pid == leader && f[20] == born) mark[pid] = 1
		}
		END {
			do {
				more = 0
				for (p in ticks) if (!(p in mark) && (parent[p] in mark)) { mark[p] = 1; more = 1 }
			} while (more)
			for (p in mark) if ((p in ticks) && state[p] !~ /[ZXx]/) print p, ticks[p]
		}'
}

# listeners PORT: "inode uid address" of each TCP socket that listens on it.
listeners() {
	cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk -v port="$(printf '%04X' "$1")" '
		$4 == "0A" { n = split($2, a, ":"); if (a[n] == port) print $10, $8, a[1] }'
}

# socket_pids INODES DIR...: "inode pid" for each of these sockets that is open
# in one of the /proc/PID/fd folders.
socket_pids() {
	s_want=$1
	shift
	# One folder alone would get no heading.
	[ $# -ne 1 ] || set -- "$1" "$1"
	ls -ln "$@" 2>/dev/null | awk -v want="$s_want" '
		BEGIN { n = split(want, w, " "); for (i = 1; i <= n; i++) wanted["socket:[" w[i] "]"] = w[i] }
		/^\/proc\// { split($0, d, "/"); pid = d[3]; next }
		($NF in wanted) { print wanted[$NF], pid }'
}

# command_of PID: its command line on one line, at most 300 characters.
command_of() {
	k_cmd=$(tr '\0\n\r\t' '    ' <"/proc/$1/cmdline" 2>/dev/null | cut -c 1-300)
	[ -n "$k_cmd" ] || k_cmd=$(val "/proc/$1/comm") || k_cmd='?'
	printf '%s\n' "$k_cmd"
}

# folder PATH: sets f_path, the name of a folder to which /proc links: one that was
# deleted has that behind it, and may be made again.
folder() {
	f_path=$1
	[ -d "$f_path" ] || f_path=${f_path%" (deleted)"}
}

# user_of UID: its name; busybox's id takes names only.
user_of() {
	u_name=$(id -nu "$1" 2>/dev/null) || u_name=$(getent passwd "$1" 2>/dev/null | cut -d : -f 1)
	printf '%s\n' "${u_name:-$1}"
}

# holders PORT [PID...]: a line "listener address inode uid user pid command" for
# each listening socket; pid 0 when its owner cannot be seen. Nothing when the
# port is free. The pids are looked at first: that is cheap, all are many.
holders() {
	l_port=$1
	shift
	l_sockets=$(listeners "$l_port")
	[ -n "$l_sockets" ] || return 0
	l_inodes=$(printf '%s\n' "$l_sockets" | while read -r l_inode l_rest; do printf '%s ' "$l_inode"; done)
	l_pids=
	if [ $# -gt 0 ]; then
		for l_pid in "$@"; do
			set -- "$@" "/proc/$l_pid/fd"
			shift
		done
		l_pids=$(socket_pids "$l_inodes" "$@")
	fi
	for l_inode in $l_inodes; do
		case "
$l_pids" in *"
$l_inode "*) ;; *)
			l_pids="$l_pids
$(socket_pids "$l_inodes" /proc/[0-9]*/fd)"
			break
			;;
		esac
	done
	printf '%s\n' "$l_sockets" | while read -r l_inode l_uid l_addr; do
		# Between fork and exec a child has its parent's sockets: who has it still?
		l_pid=
		for l_seen in $(printf '%s\n' "$l_pids" | awk -v i="$l_inode" '$1 == i && !was[$2]++ { print $2 }'); do
			l_pid=$l_seen
			[ -z "$(socket_pids "$l_inode" "/proc/$l_seen/fd")" ] || break
		done
		if [ -n "$l_pid" ]; then l_cmd=$(command_of "$l_pid"); else l_pid=0 l_cmd='?'; fi
		printf 'listener %s %s %s %s %s %s\n' "$l_addr" "$l_inode" "$l_uid" "$(user_of "$l_uid")" "$l_pid" "$l_cmd"
	done
}

# gpu_apps: "pid uuid MiB name" of each process that holds GPU memory; false
# when the host has no nvidia-smi or it gives no answer.
gpu_apps() {
	command -v nvidia-smi >/dev/null 2>&1 || return 1
	set -- nvidia-smi --query-compute-apps=pid,gpu_uuid,used_memory,process_name --format=csv,noheader,nounits
	if command -v timeout >/dev/null 2>&1; then set -- timeout 20 "$@"; fi
	g_out=$("$@" 2>/dev/null) || return 1
	printf '%s\n' "$g_out" | sed 's/, / /;s/, / /;s/, / /'
}

# gpu_cards: "index uuid MiB" of each GPU with the memory that is in use; false as
# gpu_apps is.
gpu_cards() {
	command -v nvidia-smi >/dev/null 2>&1 || return 1
	set -- nvidia-smi --query-gpu=index,uuid,memory.used --format=csv,noheader,nounits
	if command -v timeout >/dev/null 2>&1; then set -- timeout 20 "$@"; fi
	g_cards=$("$@" 2>/dev/null) || return 1
	printf '%s\n' "$g_cards" | sed 's/, */ /g'
}

# oom_kills GROUP: sets o_host and o_group, how many processes the kernel has
# ended for want of memory, on this machine and in a control group; "-" where it
# does not tell. cgroup_of gives the group.
oom_kills() {
	o_host=$(sed -n 's/^oom_kill //p' /proc/vmstat 2>/dev/null)
	o_group=
	for o_file in "/sys/fs/cgroup$1/memory.events" "/sys/fs/cgroup/memory$1/memory.oom_control"; do
		[ -z "$o_group" ] || break
		o_group=$(sed -n 's/^oom_kill //p' "$o_file" 2>/dev/null)
	done
	o_host=${o_host:--} o_group=${o_group:--}
}

# cgroup_of PID: prints its control group (version 2, else that of memory).
cgroup_of() {
	sed -n 's/^0:://p; s/^[0-9]*:[a-z,_]*memory[a-z,_]*://p' "/proc/$1/cgroup" 2>/dev/null | sed -n 1p
}

# other_space PID KIND: the process sees other processes (pid) or another network
# (net) than this one; false where that cannot be seen.
other_space() {
	o_its=$(readlink "/proc/$1/ns/$2" 2>/dev/null) || return 1
	o_here=$(readlink "/proc/$$/ns/$2" 2>/dev/null) || return 1
	[ "$o_its" != "$o_here" ]
}

# env_line LINE: sets e_name and e_value from one line of an env file. Returns
# 1 for a line to skip, 2 for one that is no KEY=VALUE. Nothing is expanded: a
# value is the text behind "=", less one pair of quotes around all of it.
env_line() {
	e_text=${1%"$cr"}
	e_text=${e_text#"${e_text%%[! ]*}"}
	case $e_text in
	'' | '#'*) return 1 ;;
	'export '*) e_text=${e_text#export } ;;
	esac
	case $e_text in *=*) ;; *) return 2 ;; esac
	e_name=${e_text%%=*} e_value=${e_text#*=}
	case $e_name in '' | [0-9]* | *[!A-Za-z0-9_]*) return 2 ;; esac
	case $e_value in
	\"*\") [ "$e_value" = '"' ] || { e_value=${e_value#?} e_value=${e_value%?}; } ;;
	\'*\') [ "$e_value" = "'" ] || { e_value=${e_value#?} e_value=${e_value%?}; } ;;
	esac
}
