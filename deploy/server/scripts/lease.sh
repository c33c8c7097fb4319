# Leases on ports and GPUs: locks that expire by this host's clock.
# In: STATE MODE (acquire|take|refresh|release|list) NAMES LAUNCH CONTROLLER WHAT
# TTL (seconds). To release no NAMES is all that LAUNCH has. Out: see lease.go.
#
# locks/NAME/lock.N: the highest N counts. It is held until it has "released",
# or until "expires" has passed and its launch is dead. mkdir decides who gets a
# generation, and whoever finds a higher one after that gives way.

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
	read_identity "$state/runs/$1" || :
	if [ -n "$i_host" ] && [ "$i_host" != "$host_id" ]; then return 0; fi # cannot be judged
	[ "$i_boot" = "$boot_id" ] || i_sid=
	[ -n "$(ours "$1" "$i_sid")" ]
}

# judge NAME: sets verdict (free ours held alive expired) and g.
judge() {
	top "$1"
	j_dir=$locks/$1/lock.$g
	if [ "$g" = 0 ] || [ -e "$j_dir/released" ]; then verdict=free; return; fi
	j_launch=$(val "$j_dir/launch") || j_launch=
	j_expires=$(val "$j_dir/expires") || j_expires=
	case $j_expires in
	'' | *[!0-9]*)
		# Its maker died before it wrote who it is, or is just writing it.
		if [ -n "$(find "$j_dir" -prune -mmin +1 2>/dev/null)" ]; then verdict=expired; else verdict=held; fi
		return
		;;
	esac
	if [ "$j_launch" = "$LAUNCH" ] && [ -n "$LAUNCH" ]; then verdict=ours; return; fi
	if [ "$now" -lt "$j_expires" ]; then verdict=held; return; fi
	if launch_alive "$j_launch"; then verdict=alive; else verdict=expired; fi
}

describe() { # NAME: what judge found
	printf 'name %s\nverdict %s\n' "$1" "$verdict"
	for d_field in launch controller what taken expires; do
		d_value=$(val "$locks/$1/lock.$g/$d_field") || d_value=
		printf '%s %s\n' "$d_field" "$d_value"
	done
	printf 'now %s\nend\n' "$now"
}

# claim NAME: takes the next generation; 1 = somebody else was faster.
claim() {
	mkdir -p "$locks/$1" || exit 1
	top "$1"
	[ "$g" = "$2" ] || return 1
	c_n=$((g + 1))
	c_dir=$locks/$1/lock.$c_n
	mkdir "$c_dir" 2>/dev/null || { [ -d "$c_dir" ] && return 1; mkdir "$c_dir" || exit 1; }
	printf '%s\n' "$LAUNCH" >"$c_dir/launch" &&
		printf '%s\n' "$CONTROLLER" >"$c_dir/controller" &&
		printf '%s\n' "$WHAT" >"$c_dir/what" &&
		printf '%s\n' "$now" >"$c_dir/taken" &&
		put "$c_dir/expires" "$((now + TTL))" || exit 1
	top "$1"
	if [ "$g" != "$c_n" ]; then
		rm -rf "$c_dir"
		return 1
	fi
	mine="$mine $1:$c_n"
	# Generations below are history.
	c_old=$((c_n - 1))
	while [ "$c_old" -gt 0 ] && [ -d "$locks/$1/lock.$c_old" ]; do
		rm -rf "$locks/$1/lock.$c_old"
		c_old=$((c_old - 1))
	done
}

give_back() {
	for b_pair in $mine; do : >"$locks/${b_pair%:*}/lock.${b_pair##*:}/released"; done
}

# rivals NAME: other names that stand for the same thing.
rivals() {
	case $1 in
	gpu-all) for r_dir in "$locks"/gpu-*; do
		[ ! -d "$r_dir" ] || [ "${r_dir##*/}" = gpu-all ] || printf '%s\n' "${r_dir##*/}"
	done ;;
	gpu-*) echo gpu-all ;;
	esac
}

blocked() { # NAME: not for us
	case $verdict in
	held | alive) [ "$MODE" != take ] ;;
	*) return 1 ;;
	esac
}

acquire() {
	mine=
	for name in $NAMES; do
		while :; do
			judge "$name"
			if blocked "$name"; then
				describe "$name"
				give_back
				return 0
			fi
			if [ "$verdict" = ours ]; then
				put "$locks/$name/lock.$g/expires" "$((now + TTL))" || exit 1
				break
			fi
			if claim "$name" "$g"; then break; fi
		done
	done
	# Ours first, then a look at those that overlap: of two who meet, at least
	# one sees the other.
	for name in $NAMES; do
		for rival in $(rivals "$name"); do
			judge "$rival"
			if blocked "$rival"; then
				describe "$rival"
				give_back
				return 0
			fi
			if [ "$MODE" = take ] && [ "$verdict" != free ] && [ "$verdict" != ours ]; then
				: >"$locks/$rival/lock.$g/released"
			fi
		done
	done
	echo 'state leased'
}

refresh() {
	for name in $NAMES; do
		judge "$name"
		if [ "$verdict" != ours ]; then
			describe "$name"
			return 0
		fi
		put "$locks/$name/lock.$g/expires" "$((now + TTL))" || exit 1
	done
	echo 'state leased'
}

release() {
	if [ -z "$NAMES" ]; then
		for r_dir in "$locks"/port-* "$locks"/gpu-*; do
			[ ! -d "$r_dir" ] || NAMES="$NAMES ${r_dir##*/}"
		done
	fi
	for name in $NAMES; do
		judge "$name"
		[ "$verdict" != ours ] || : >"$locks/$name/lock.$g/released" || exit 1
	done
	echo 'state released'
}

list() {
	for l_dir in "$locks"/port-* "$locks"/gpu-* "$locks"/patches-*; do
		[ -d "$l_dir" ] || continue
		judge "${l_dir##*/}"
		[ "$verdict" = free ] || describe "${l_dir##*/}"
	done
	echo 'state listed'
}

main() {
	umask 077
	state_dir
	host_identity
	locks=$state/locks
	now=$(date +%s)
	case $MODE in
	acquire | take) mkdir -p "$locks" || exit 1; acquire ;;
	refresh | release | list) "$MODE" ;;
	esac
}
