# Leases on ports and GPUs, see judge.sh.
# In: STATE MODE (acquire|refresh|release|reclaim|list) NAMES LAUNCH CONTROLLER WHAT
# TTL (seconds). To release no NAMES is all that LAUNCH has. Out: see lease.go.

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

blocked() { [ "$verdict" = held ] || [ "$verdict" = alive ]; } # what judge found is not for us

acquire() {
	mine=
	for name in $NAMES; do
		while :; do
			judge "$name"
			if blocked; then
				describe "$name"
				give_back
				return 0
			fi
			if [ "$verdict" = ours ]; then
				# Who goes on with it is asked from now on.
				put "$locks/$name/lock.$g/controller" "$CONTROLLER" &&
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
			if blocked; then
				describe "$rival"
				give_back
				return 0
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

# Of a launch whose controller is gone: nothing of whoever goes on with it by now.
reclaim() {
	for name in $NAMES; do
		judge "$name"
		[ "$verdict" = ours ] || continue
		r_controller=$(val "$locks/$name/lock.$g/controller") || r_controller=
		[ "$r_controller" != "$CONTROLLER" ] || : >"$locks/$name/lock.$g/released" || exit 1
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
	leases_now
	case $MODE in
	acquire) mkdir -p "$locks" || exit 1; acquire ;;
	refresh | release | reclaim | list) "$MODE" ;;
	esac
}
