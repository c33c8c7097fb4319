# Leases on ports, GPUs and patch sets, and the queue for them; see judge.sh, and
# lease.go for what the names stand for.
# In: STATE MODE (acquire|refresh|release|reclaim|last|met|list) NAMES LAUNCH
# CONTROLLER WHAT TTL (seconds); to acquire also PARENT WANTS WAIT FOUND SET, and
# PORT FIRST SPAN STEP COUNT ROOM OFFSETS. To release no NAMES is everything of
# LAUNCH. Out: see parseLeases.

describe() { # NAME: what judge found
	printf 'name %s\nverdict %s\n' "$1" "$verdict"
	for d_field in launch parent controller what set wants taken expires; do
		field "$d_field"
		printf '%s %s\n' "$d_field" "$f_value"
	done
	printf 'now %s\nend\n' "$now"
}

# claim NAME G: takes the generation after G; 1 = somebody else was faster. A shared
# lease gets its time only when nobody was found who is in its way: until then it
# is nobody's.
claim() {
	mkdir -p "$locks/$1" || exit 1
	top "$1"
	[ "$g" = "$2" ] || return 1
	c_n=$((g + 1))
	c_dir=$locks/$1/lock.$c_n
	if ! mkdir "$c_dir" 2>/dev/null; then
		if [ -d "$c_dir" ] || [ ! -d "$locks/$1" ]; then return 1; fi
		mkdir "$c_dir" || exit 1
	fi
	case $1 in
	queue-*) printf '%s\n' "$WANTS $NAMES" >"$c_dir/wants" || exit 1 ;;
	port-*) printf '%s\n' "$ROOM" >"$c_dir/room" || exit 1 ;;
	patches-*) printf '%s\n' "$FOUND" >"$c_dir/found" && printf '%s\n' "$SET" >"$c_dir/set" || exit 1 ;;
	esac
	printf '%s\n' "$LAUNCH" >"$c_dir/launch" &&
		printf '%s\n' "$PARENT" >"$c_dir/parent" &&
		printf '%s\n' "$CONTROLLER" >"$c_dir/controller" &&
		printf '%s\n' "$WHAT" >"$c_dir/what" &&
		printf '%s\n' "$now" >"$c_dir/taken" || exit 1
	case $1 in
	patches-*.*) ;;
	*) put "$c_dir/expires" "$((now + TTL))" || exit 1 ;;
	esac
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

# give_back: what this script took itself.
give_back() {
	for b_pair in $mine; do
		put "$locks/${b_pair%:*}/lock.${b_pair##*:}/expires" "$((now + TTL))" || exit 1
		hand_back "${b_pair%:*}"
	done
	mine=
}

# refused: nothing is taken, and who does not wait has no place in the queue.
refused() {
	give_back
	[ -n "$ticket" ] || return 0
	if [ "$WAIT" = 1 ]; then
		printf 'ticket %s\n' "$ticket"
	else
		hand_back "$ticket"
	fi
}

# room NAME: sets r_first and r_last, the ports that a port's lease covers.
room() {
	r_first=${1#port-}
	top "$1"
	j_dir=$locks/$1/lock.$g
	field room
	r_last=$((r_first + ${f_value:-1} - 1))
}

# rivals NAME: other names that stand for something of the same.
rivals() {
	case $1 in
	gpu-all) for r_dir in "$locks"/gpu-*; do
		[ ! -d "$r_dir" ] || [ "${r_dir##*/}" = gpu-all ] || printf '%s\n' "${r_dir##*/}"
	done ;;
	gpu-*) echo gpu-all ;;
	port-*) for r_dir in "$locks"/port-*; do
		r_name=${r_dir##*/}
		if [ ! -d "$r_dir" ] || [ "$r_name" = "$1" ]; then continue; fi
		room "$r_name"
		if [ "${1#port-}" -le "$r_last" ] && [ "$((${1#port-} + ROOM - 1))" -ge "$r_first" ]; then printf '%s\n' "$r_name"; fi
	done ;;
	patches-*) for r_dir in "$locks/${1%%.*}" "$locks/${1%%.*}".*; do
		r_name=${r_dir##*/}
		if [ -d "$r_dir" ] && [ "$r_name" != "$1" ] && clash "$1" "$r_name"; then printf '%s\n' "$r_name"; fi
	done ;;
	esac
}

# clash NAME NAME: two launches cannot have both at once. Rooms of ports apart.
clash() {
	[ "$1" != "$2" ] || return 0
	case $1 in
	gpu-all) case $2 in gpu-*) return 0 ;; esac ;;
	gpu-*) [ "$2" != gpu-all ] || return 0 ;;
	patches-*)
		[ "${1%%.*}" = "${2%%.*}" ] || return 1
		case $1 in *.*) ;; *) return 0 ;; esac
		case $2 in *.*) ;; *) return 0 ;; esac
		c_set=${1#*.} c_other=${2#*.}
		[ "${c_set%%.*}" = "${c_other%%.*}" ] || return 0
		;;
	esac
	return 1
}

# settled NAME: judges it; one whose maker is just writing who it is, a moment later.
settled() {
	s_try=0
	judge "$1"
	while [ "$verdict" = held ] && [ -z "$j_expires" ] && [ "$s_try" -lt 50 ]; do
		nap 0.02
		s_try=$((s_try + 1))
		judge "$1"
	done
}

# in_the_way NAME: describes who holds what stands for something of the same.
in_the_way() {
	for rival in $(rivals "$1"); do
		settled "$rival"
		if blocked; then
			describe "$rival"
			return 0
		fi
	done
	return 1
}

# queue_up sets ticket to PARENT's place in the queue, a new one at its end when it
# has none.
queue_up() {
	while :; do
		q_last=0
		for q_dir in "$locks"/queue-*; do
			[ -d "$q_dir" ] || continue
			q_n=${q_dir##*/queue-}
			q_n=${q_n#"${q_n%%[!0]*}"}
			[ "$q_n" -le "$q_last" ] || q_last=$q_n
			judge "${q_dir##*/}"
			if [ "$verdict" = expired ] && [ "$now" -gt "$((${j_expires:-0} + 604800))" ]; then rm -rf "$q_dir"; fi
			[ "$verdict" = ours ] || continue
			ticket=${q_dir##*/}
			put "$j_dir/wants" "$WANTS $NAMES" && put "$j_dir/controller" "$CONTROLLER" && put "$j_dir/expires" "$((now + TTL))" || exit 1
			return 0
		done
		ticket=$(printf 'queue-%09d' "$((q_last + 1))")
		q_mine=$mine
		if claim "$ticket" 0; then
			mine=$q_mine # it goes on its own terms
			return 0
		fi
	done
}

# earlier NAME...: describes who came before PARENT and needs one of these.
earlier() {
	for q_dir in "$locks"/queue-*; do
		[ -d "$q_dir" ] || continue
		settled "${q_dir##*/}"
		if [ -n "$PARENT" ] && [ "$j_launch" = "$PARENT" ]; then return 1; fi
		[ "$verdict" = held ] || continue
		field wants
		for q_want in $f_value; do
			for q_mine in "$@"; do
				if clash "$q_mine" "$q_want"; then
					describe "${q_dir##*/}"
					return 0
				fi
			done
		done
	done
	return 1
}

# candidates: ports that may be taken, best first: nobody listens on one or at the
# OFFSETS from it, and no other launch has room there.
candidates() {
	p_taken=
	for p_dir in "$locks"/port-*; do
		[ -d "$p_dir" ] || continue
		judge "${p_dir##*/}"
		blocked || continue
		room "${p_dir##*/}"
		p_taken="$p_taken $r_first:$r_last"
	done
	cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk -v port="$PORT" -v first="$FIRST" -v span="$SPAN" -v step="$STEP" \
		-v count="$COUNT" -v room="$ROOM" -v offsets="$1" -v taken="$p_taken" '
		$4 == "0A" { n = split($2, a, ":"); used[a[n]] = 1 }
		END {
			offs = split(offsets, off, " ")
			ranges = split(taken, range, " ")
			for (i = 0; i < count && some < 20; i++) {
				p = first + (port - first + i * step) % span
				ok = 1
				for (j = 1; j <= offs; j++) {
					hex = sprintf("%04X", p + off[j])
					if (hex in used) ok = 0
				}
				for (j = 1; j <= ranges; j++) {
					split(range[j], r, ":")
					if (p <= r[2] && p + room - 1 >= r[1]) ok = 0
				}
				if (ok) { print p; some++ }
			}
		}'
}

# lease_port takes a port with its room. A port that was asked for by its number,
# and cannot be had, names who is in the way.
lease_port() {
	p_offsets=$OFFSETS
	if read_identity "$state/runs/$LAUNCH" && [ "$i_host" = "$host_id" ] && leader_alive; then p_offsets=; fi # its own server listens
	for p_port in $(candidates "$p_offsets"); do
		name=port-$p_port
		judge "$name"
		if [ "$verdict" = ours ]; then
			put "$j_dir/controller" "$CONTROLLER" && put "$j_dir/expires" "$((now + TTL))" || exit 1
			port=$p_port
			return 0
		fi
		p_mine=$mine
		if blocked || ! claim "$name" "$g"; then continue; fi
		if ! p_way=$(in_the_way "$name"); then
			port=$p_port
			return 0
		fi
		hand_back "$name"
		mine=$p_mine
	done
	if [ "$COUNT" != 1 ]; then
		echo 'state noport'
		return 1
	fi
	for p_offset in $p_offsets; do
		p_held=$(holders "$((PORT + p_offset))")
		if [ -n "$p_held" ]; then
			printf 'state port\nlistens %s\n%s\n' "$((PORT + p_offset))" "$p_held"
			return 1
		fi
	done
	judge "port-$PORT"
	if blocked; then
		describe "port-$PORT"
	else
		in_the_way "port-$PORT" || echo 'state noport' # it went a moment ago
	fi
	return 1
}

# meet: each of two launches that are here together is told of the other.
meet() {
	top "port-$port"
	m_mine=$locks/port-$port/lock.$g
	for m_dir in "$locks"/port-*; do
		m_name=${m_dir##*/}
		if [ ! -d "$m_dir" ] || [ "$m_name" = "port-$port" ]; then continue; fi
		judge "$m_name"
		if ! blocked || [ -z "$j_expires" ]; then continue; fi
		printf '%s %s\n' "$LAUNCH" "$WHAT" >>"$j_dir/met" || :  # it may have gone
		field what
		printf '%s %s\n' "$j_launch" "$f_value" >>"$m_mine/met" || exit 1
	done
}

acquire() {
	mine= ticket= port=
	for a_dir in "$locks"/.gone.*; do
		[ ! -d "$a_dir" ] || rm -rf "$a_dir"
	done
	[ -z "$WANTS" ] || queue_up
	fixed=
	[ -z "$PORT" ] || [ "$COUNT" != 1 ] || fixed=port-$PORT
	# shellcheck disable=SC2086
	if earlier $WANTS $NAMES $fixed; then
		refused
		return 0
	fi
	for name in $WANTS; do # free for our launches, which take them later
		for rival in "$name" $(rivals "$name"); do
			judge "$rival"
			blocked || continue
			field parent
			[ -z "$f_value" ] || [ "$f_value" != "$PARENT" ] || continue # one of them has it
			describe "$rival"
			refused
			return 0
		done
	done
	for name in $NAMES; do
		while :; do
			judge "$name"
			if blocked; then
				describe "$name"
				refused
				return 0
			fi
			if [ "$verdict" = ours ]; then
				# Who goes on with it is asked from now on.
				put "$j_dir/controller" "$CONTROLLER" && put "$j_dir/expires" "$((now + TTL))" || exit 1
				[ -z "$FOUND" ] || put "$j_dir/found" "$FOUND" || exit 1
				break
			fi
			if claim "$name" "$g"; then break; fi
		done
	done
	# Ours first, then a look at those that overlap: of two who meet, at least
	# one sees the other.
	for name in $NAMES; do
		if in_the_way "$name"; then
			refused
			return 0
		fi
	done
	if [ -n "$PORT" ] && ! lease_port; then
		refused
		return 0
	fi
	for name in $NAMES; do
		case $name in patches-*.*) ;; *) continue ;; esac
		top "$name"
		put "$locks/$name/lock.$g/expires" "$((now + TTL))" || exit 1
		sharers "$name"
	done
	if [ -n "$ticket" ]; then
		top "$ticket"
		put "$locks/$ticket/lock.$g/wants" "$WANTS" || exit 1
		printf 'ticket %s\n' "$ticket"
	fi
	if [ -n "$port" ]; then
		meet
		printf 'port %s\n' "$port"
	fi
	echo 'state leased'
}

# sharers NAME: who else has this patch set, and what was found before the first of
# them came.
sharers() {
	s_set=${1#*.}
	for s_dir in "$locks/${1%%.*}.${s_set%%.*}".*; do
		if [ ! -d "$s_dir" ] || [ "${s_dir##*/}" = "$1" ]; then continue; fi
		judge "${s_dir##*/}"
		if ! blocked || [ -z "$j_expires" ]; then continue; fi
		field found
		printf 'sharer %s\nfound %s\n' "$j_launch" "$f_value"
	done
}

refresh() {
	for name in $NAMES; do
		judge "$name"
		if [ "$verdict" != ours ]; then
			describe "$name"
			return 0
		fi
		put "$j_dir/expires" "$((now + TTL))" || exit 1
	done
	echo 'state leased'
}

release() {
	if [ -z "$NAMES" ]; then hand_all_back || exit 1; fi
	for name in $NAMES; do hand_back "$name" || exit 1; done
	echo 'state released'
}

# Of a launch whose controller is gone: nothing of whoever goes on with it by now.
reclaim() {
	for name in $NAMES; do
		judge "$name"
		[ "$verdict" = ours ] || continue
		field controller
		[ "$f_value" != "$CONTROLLER" ] || hand_back "$name" || exit 1
	done
	echo 'state released'
}

# last: NAMES are patch sets, without who holds them. Takes them for LAUNCH alone
# when nobody else has a share in one of them; else LAUNCH gives up its own shares,
# and whoever is left is the one to ask. Shares are counted only by who has the
# whole: so of two that end at once one is the last.
last() {
	mine= ticket= tries=0
	for name in $NAMES; do
		while :; do
			judge "$name"
			if [ "$verdict" = ours ]; then
				put "$j_dir/expires" "$((now + TTL))" || exit 1
				break
			fi
			if ! blocked; then
				if claim "$name" "$g"; then break; fi
				continue
			fi
			tries=$((tries + 1))
			if [ "$tries" -gt 200 ]; then # not at its end: it has the files
				describe "$name"
				give_back
				return 0
			fi
			nap 0.05
			now=$(date +%s)
		done
	done
	for name in $NAMES; do
		for rival in $(rivals "$name"); do
			settled "$rival"
			# One that is still nobody's sees ours before it gets its time.
			if ! blocked || [ -z "$j_expires" ]; then continue; fi
			describe "$rival"
			for own in $NAMES; do
				for l_dir in "$locks/$own".*; do
					[ ! -d "$l_dir" ] || hand_back "${l_dir##*/}" || exit 1
				done
			done
			for own in $NAMES; do hand_back "$own" || exit 1; done
			return 0
		done
	done
	echo 'state leased'
}

# met: who was here together with the launch of these ports.
met() {
	for name in $NAMES; do
		top "$name"
		[ ! -e "$locks/$name/lock.$g/met" ] || sed 's/^/met /' "$locks/$name/lock.$g/met"
	done
	echo 'state listed'
}

list() {
	for l_dir in "$locks"/queue-* "$locks"/port-* "$locks"/gpu-* "$locks"/patches-*; do
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
	acquire | last) mkdir -p "$locks" || exit 1; "$MODE" ;;
	refresh | release | reclaim | met | list) "$MODE" ;;
	esac
}
