# Who holds a lease: a lock that expires by this host's clock. Definitions only,
# behind lib.sh. In: LAUNCH, the one that counts as ours, or nothing.
#
# locks/NAME/lock.N: the highest N counts. It is held until it has "released",
# or until "expires" has passed and its launch is dead. mkdir decides who gets a
# generation, and whoever finds a higher one after that gives way.

# leases_now sets what judge needs, behind state_dir: locks, now, host_id, boot_id.
leases_now() {
	host_identity
	locks=$state/locks
	now=$(date +%s)
	n_known=
}

# top NAME: sets g to the highest generation, 0 when there is none.
top() {
	g=0
	for t_dir in "$locks/$1"/lock.*; do
		t_n=${t_dir##*/lock.}
		case $t_n in '' | *[!0-9]*) continue ;; esac
		[ "$t_n" -le "$g" ] || g=$t_n
	done
}

# launch_alive ID: a process of that launch still runs on this host.
launch_alive() {
	[ -n "$1" ] || return 1
	if ! read_identity "$state/runs/$1" && inside_alive "$1"; then return 0; fi
	if [ -n "$i_host" ] && [ "$i_host" != "$host_id" ]; then return 0; fi # cannot be judged
	[ "$i_boot" = "$boot_id" ] || i_sid=
	[ -n "$(ours "$1" "$i_sid")" ]
}

# inside_alive ID: the server of a launch in a container, whose process this user
# cannot see from outside, runs there. Ticks count from the boot on both sides. The
# answer stands for all leases of a launch.
inside_alive() {
	n_dir=$state/runs/$1
	{ read -r n_boot n_pid n_ticks <"$n_dir/inside"; } 2>/dev/null && [ "$n_boot" = "$boot_id" ] || return 1
	case " $n_known " in
	*" $1=1 "*) return 0 ;;
	*" $1=0 "*) return 1 ;;
	esac
	read -r n_engine n_id n_rest <"$n_dir/container" || return 1
	set -- "$1" "$n_engine" exec "$n_id" /bin/sh -c 'while IFS= read -r l; do printf "%s " "$l"; done </proc/$0/stat' "$n_pid"
	n_of=$1
	shift
	if command -v timeout >/dev/null 2>&1; then set -- timeout 20 "$@"; fi
	n_lives=0
	n_stat=$("$@" </dev/null 2>/dev/null) && [ "$(printf '%s\n' "$n_stat" | sed 's/^.*) //' | awk '$1 !~ /[ZXx]/ { print $20 }')" = "$n_ticks" ] && n_lives=1
	n_known="$n_known $n_of=$n_lives"
	[ "$n_lives" = 1 ]
}

# field FILE: sets f_value to the first line of a file of the lock that was
# judged last; nothing when there is none.
field() {
	f_value=
	{ IFS= read -r f_value <"$j_dir/$1"; } 2>/dev/null || :
}

# judge NAME: sets verdict (free ours held alive expired), g and j_dir.
judge() {
	j_launch= j_expires=
	top "$1"
	j_dir=$locks/$1/lock.$g
	if [ "$g" = 0 ] || [ -e "$j_dir/released" ]; then verdict=free; return; fi
	field launch
	j_launch=$f_value
	field expires
	j_expires=$f_value
	case $j_expires in
	'' | *[!0-9]*)
		# Given back meanwhile, or its maker died before it wrote who it is, or is
		# just writing it.
		if [ ! -d "$j_dir" ]; then
			verdict=free
		elif [ -n "$(find "$j_dir" -prune -mmin +1 2>/dev/null)" ]; then
			verdict=expired
		else
			verdict=held
		fi
		return
		;;
	esac
	if [ "$j_launch" = "$LAUNCH" ] && [ -n "$LAUNCH" ]; then verdict=ours; return; fi
	if [ "$now" -lt "$j_expires" ]; then verdict=held; return; fi
	case $1 in queue-*) verdict=expired; return ;; esac # who waits has no processes
	if launch_alive "$j_launch"; then verdict=alive; else verdict=expired; fi
}

blocked() { [ "$verdict" = held ] || [ "$verdict" = alive ]; } # what judge found is not for us

# hand_back NAME: releases it when it is ours. Names that are used a few times and
# never again go altogether, at once for everybody; but not while they are about
# to expire, when somebody may be taking the next generation.
hand_back() {
	verdict=free
	top "$1"
	j_dir=$locks/$1/lock.$g
	field launch
	[ "$f_value" = "$LAUNCH" ] || return 0 # before anything that takes its time
	judge "$1"
	[ "$verdict" = ours ] || return 0
	case $1 in
	port-* | queue-* | patches-*.*)
		if [ "$j_expires" -gt "$((now + 5))" ]; then
			h_gone=$locks/.gone.$1.$$
			mv "$locks/$1" "$h_gone" && rm -rf "$h_gone"
			return
		fi
		;;
	esac
	: >"$j_dir/released"
}

# hand_all_back: everything of LAUNCH; sets handed to how much that was.
hand_all_back() {
	handed=0
	for h_dir in "$locks"/port-* "$locks"/gpu-* "$locks"/patches-* "$locks"/queue-*; do
		[ -d "$h_dir" ] || continue
		hand_back "${h_dir##*/}" || return 1
		[ "$verdict" != ours ] || handed=$((handed + 1))
	done
}
