# Describes one process of the host, whoever started it; changes nothing. In: PID.
# Out: see foreign.go. What may hold any byte is in hex. Exit 3: there is none.
# Only "thread PID" or "kernel 1": the number is that of something else.

# hex: standard input as one line of hex digits.
hex() { od -An -v -tx1 | tr -d ' \n'; }

# link NAME: where a link of the process leads, without a line break at its end;
# nothing where this user may not see it.
link() {
	k_to=$(readlink "/proc/$PID/$1" 2>/dev/null && echo .) || return 1
	k_to=${k_to%??}
	[ -n "$k_to" ]
}

say() { # KEY TEXT
	printf '%s ' "$1"
	printf '%s' "$2" | hex
	echo
}

# tree prints "ancestor PID" from the nearest on, and "child PID" for the direct
# children and "below PID" for every descendant.
tree() {
	cat /proc/[0-9]*/stat 2>/dev/null | awk -v root="$PID" '
		{
			pid = $1; line = $0
			if (!sub(/^.*\) /, "", line) || pid !~ /^[0-9]+$/) next
			split(line, f, " ")
			parent[pid] = f[2]
			if (f[1] !~ /[ZXx]/) lives[pid] = 1
		}
		END {
			for (p = parent[root]; p > 0 && !seen[p]++; p = parent[p]) print "ancestor", p
			mark[root] = 1
			do {
				more = 0
				for (p in parent) if (!(p in mark) && (parent[p] in mark)) { mark[p] = 1; more = 1 }
			} while (more)
			for (p in lives) {
				if (parent[p] == root) print "child", p
				if (p != root && (p in mark)) print "below", p
			}
		}'
}

# listening PID...: the ports on which these processes listen, in the network of
# the process that is described.
listening() {
	for n_pid in "$@"; do
		set -- "$@" "/proc/$n_pid/fd"
		shift
	done
	{
		cat "/proc/$PID/net/tcp" "/proc/$PID/net/tcp6" 2>/dev/null | awk '$4 == "0A" { n = split($2, a, ":"); print "port", $10, a[n] }'
		ls -ln "$@" 2>/dev/null | awk '$NF ~ /^socket:/ { gsub(/[^0-9]/, "", $NF); print "has", $NF }'
	} | awk '
		$1 == "port" { port[$2] = $3 }
		$1 == "has" && ($2 in port) && !was[port[$2]]++ { print port[$2] }' | while read -r n_hex; do
		echo "$((0x$n_hex))"
	done | sort -n
}

# program: the file that the process calls itself by: its first word, looked up
# in its own PATH and folder. The link to the file that runs has lost the virtual
# environment through which it was found.
program() {
	g_word=$(tr '\0' '\n' <"/proc/$PID/cmdline" 2>/dev/null | sed -n 1p)
	[ -n "$g_word" ] || return 0
	g_cwd=
	if link cwd; then g_cwd=$k_to; fi
	case $g_word in
	/*) set -- "$g_word" ;;
	*/*) set -- "${g_cwd:+$g_cwd/}$g_word" ;;
	*)
		g_path=$(tr '\0' '\n' <"/proc/$PID/environ" 2>/dev/null | sed -n 's/^PATH=//p' | sed -n 1p)
		set -f
		IFS=:
		# shellcheck disable=SC2086
		set -- $g_path
		unset IFS
		set +f
		for g_dir in "$@"; do
			set -- "$@" "$g_dir/$g_word"
			shift
		done
		;;
	esac
	for g_file in "$@"; do
		# In a container the path is one of its own files, where those can be seen.
		g_there=$g_file
		[ ! -d "/proc/$PID/root/." ] || g_there=/proc/$PID/root$g_file
		[ -f "$g_there" ] && [ -x "$g_there" ] || continue
		# Of another user's process the file that runs cannot be seen.
		if link exe && [ ! "$g_there" -ef "/proc/$PID/exe" ]; then continue; fi
		say program "$g_file"
		return 0
	done
}

main() {
	host_identity
	proc "$PID" || return 3
	case $p_state in Z | X | x) return 3 ;; esac
	ticks=$p_ticks
	# /proc answers to the number of a thread, which no list of processes has.
	leader=$(sed -n 's/^Tgid:[[:space:]]*//p' "/proc/$PID/status" 2>/dev/null)
	if [ "${leader:-$PID}" != "$PID" ]; then
		echo "thread $leader"
		return 0
	fi
	# PF_KTHREAD; these take no signal.
	if [ "$(awk 'END { sub(/^.*\) /, ""); print int($7 / 2097152) % 2 }' "/proc/$PID/stat" 2>/dev/null)" = 1 ]; then
		echo 'kernel 1'
		return 0
	fi
	printf 'identity %s %s %s %s %s\n' "$host_id" "$boot_id" "$PID" "$p_ticks" "$p_sid"
	uid=$(stat -c %u "/proc/$PID" 2>/dev/null) || return 3
	printf 'uid %s\nuser %s\n' "$uid" "$(user_of "$uid")"
	# A title set by the process may be all that its command line holds.
	printf 'argv '
	{ hex <"/proc/$PID/cmdline"; } 2>/dev/null || :
	echo
	if environ=$({ hex <"/proc/$PID/environ"; } 2>/dev/null) && [ -r "/proc/$PID/environ" ]; then
		printf 'environ %s\n' "$environ"
	else
		echo 'environ_hidden 1'
	fi
	if link cwd; then
		folder "$k_to"
		say cwd "$f_path"
	fi
	if link exe; then say exe "$k_to"; fi
	program
	for fd in 1 2; do
		if link "fd/$fd"; then say "fd$fd" "$k_to"; fi
	done
	hz=$(getconf CLK_TCK 2>/dev/null) || hz=100
	read -r up rest </proc/uptime
	echo "hz $hz"
	echo "up $up"
	echo "now $(date +%s)"
	printf 'cgroup '
	{ hex <"/proc/$PID/cgroup"; } 2>/dev/null || :
	printf '\ncgroup_here '
	{ hex <"/proc/$$/cgroup"; } 2>/dev/null || :
	echo
	for who in "$PID" $$; do
		sed -n "s/^Cpus_allowed_list:[[:space:]]*/cpus $who /p" "/proc/$who/status" 2>/dev/null
	done
	if other_space "$PID" net; then echo 'other_network 1'; fi
	kin=$(tree)
	printf '%s\n' "$kin" | grep -v '^below'
	below=$(printf '%s\n' "$kin" | sed -n 's/^below //p')
	listening "$PID" | sed 's/^/listens /'
	# shellcheck disable=SC2086
	[ -z "$below" ] || listening $below | sed 's/^/listens /'
	if apps=$(gpu_apps); then
		nvidia-smi --query-gpu=index,uuid --format=csv,noheader 2>/dev/null | sed 's/, */ /;s/^/device /'
		printf '%s\n' "$apps" | while read -r a_pid a_uuid a_mib a_name; do
			# No process holds memory: one empty line, which the list below may have too.
			[ -n "$a_pid" ] || continue
			case "
$PID
$below
" in *"
$a_pid
"*)
				a_uid=$(stat -c %u "/proc/$a_pid" 2>/dev/null) || a_uid='?'
				printf 'gpu %s %s %s %s %s\n' "$a_uuid" "$a_pid" "$a_mib" "$(user_of "$a_uid")" "$a_name"
				;;
			esac
		done
	fi
	# All this was one process's, not half a stranger's.
	alive "$PID" "$ticks" || return 3
}
