# Locks. One folder per resource below <state>/locks; in it one generation
# lock.<n> per holder. Its owner is told by one-value files, written before
# "pid", which makes the generation owned; "released" ends it. Whoever makes a
# generation looks again afterwards and gives way to a higher one and to a
# living owner of a lower one, so there are never two holders.

# young: seconds for which a generation without owner is taken as being made.
young=2

# value FILE sets value to its first line, or to nothing.
value() {
	value=
	{ read -r value <"$1"; } 2>/dev/null || :
}

# highest FOLDER sets top to the highest generation in it, 0 if there is none.
highest() {
	top=0
	for generation in "$1"/lock.*; do
		generation=${generation##*/lock.}
		case $generation in *[!0-9]*) continue ;; esac
		[ "$generation" -le "$top" ] || top=$generation
	done
}

# judge GENERATION-FOLDER sets verdict to free or held, reason, and holder.
judge() {
	verdict=free
	reason=released
	holder=0
	[ ! -e "$1/released" ] || return 0
	value "$1/pid"
	if [ -z "$value" ]; then
		judge_unowned "$1"
		return 0
	fi
	holder=$value
	value "$1/ticks"
	holder_ticks=$value
	verdict=held
	reason=other-host
	value "$1/host"
	if [ "$value" != "$host_id" ]; then
		# Written before pid, it is gone only while its generation is removed,
		# and only one that nobody holds is.
		[ -e "$1/host" ] || { verdict=free; reason=released; }
		return 0
	fi
	value "$1/boot"
	verdict=free
	reason=rebooted
	[ "$value" = "$boot_id" ] || return 0
	verdict=held
	reason=running
	! alive "$holder" "$holder_ticks" || return 0
	reason=hidden
	[ -d /proc/1 ] || return 0
	reason=child
	value "$1/session"
	[ "$value" != "$holder" ] || ! remnant "$holder" || return 0
	verdict=free
	reason=dead
}

judge_unowned() {
	reason=unowned
	made=$(stat -c %Y "$1" 2>/dev/null) || return 0
	now=$(date +%s)
	[ $((now - made)) -gt "$young" ] || verdict=held
}

# remnant SESSION: true when a process of a session is left whose leader is
# gone, such as the mv of a killed script. Sets holder and holder_ticks to it.
remnant() {
	! proc "$1" || [ "$p_state" = Z ] || [ "$p_state" = X ] || return 1
	for dir in /proc/[0-9]*; do
		proc "${dir##*/}" || continue
		[ "$p_sid" = "$1" ] && [ "$p_state" != Z ] && [ "$p_state" != X ] || continue
		holder=${dir##*/}
		holder_ticks=$p_ticks
		return 0
	done
	return 1
}

# lock_take NAME WHAT: takes the lock, or ends with exit 6. With take=yes it
# first ends the script that holds it, and its children.
lock_take() {
	lock=$state/locks/$1
	[ -d "$lock" ] || mkdir -p "$lock" || unwritable "$lock"
	tries=0
	while [ "$tries" -lt 20 ]; do
		tries=$((tries + 1))
		highest "$lock"
		below=$top
		lock_clear "$2"
		mine=$lock/lock.$((below + 1))
		made=no
		mkdir "$mine" 2>/dev/null && made=yes
		[ "$made" = yes ] || [ -d "$mine" ] || unwritable "$mine"
		[ "$made" = yes ] || continue
		# Gone again: it was taken for abandoned while we stood still.
		lock_own "$2" 2>/dev/null || [ ! -d "$mine" ] || unwritable "$mine"
		lock_look
		if [ "$contested" = no ]; then
			held="$1/lock.$((below + 1)) $held"
			lock_forget "$below"
			return 0
		fi
		rm -rf "$mine"
	done
	fail 6 locked "pid 0" "what $2" "reason busy" "lock $lock"
}

# lock_clear WHAT: returns when no generation is held, else ends. One without
# owner counts only at the top, since a lower one's maker will give way, and
# is waited for.
lock_clear() {
	patience=50
	for candidate in "$lock"/lock.*; do
		[ -d "$candidate" ] || continue
		judge "$candidate"
		while [ "$verdict" = held ]; do
			[ "$holder" != 0 ] || [ "$candidate" = "$lock/lock.$top" ] || break
			patience=$((patience - 1))
			[ "$holder" = 0 ] && [ "$patience" -gt 0 ] || lock_end "$1"
			[ "$holder" != 0 ] || nap 0.1
			judge "$candidate"
		done
	done
}

# lock_end WHAT: with take=yes ends the holder, else says who it is and ends us.
lock_end() {
	why=$reason
	lock_mortal && why=cannot-end
	[ "$why" != cannot-end ] || ! end_tree "$holder" "$holder_ticks" || return 0
	value "$candidate/user"
	lock_user=$value
	value "$candidate/host"
	fail 6 locked "pid $holder" "what $1" "reason $why" "user $lock_user" "host $value" "lock $lock"
}

# lock_mortal: true when the holder is to be ended and can be told by its pid.
lock_mortal() {
	[ "$take" = yes ] && [ "$holder" != 0 ] && [ "$reason" != other-host ] && [ "$reason" != hidden ]
}

# lock_own WHAT: says in $mine who we are, pid last.
lock_own() {
	proc "$$"
	printf '%s\n' "$host_id" >"$mine/host" || return 1
	printf '%s\n' "$boot_id" >"$mine/boot" || return 1
	printf '%s\n' "$p_ticks" >"$mine/ticks" || return 1
	printf '%s\n' "$p_sid" >"$mine/session" || return 1
	printf '%s\n' "$user" >"$mine/user" || return 1
	printf '%s\n' "$1" >"$mine/what" || return 1
	printf '%s\n' "$tx $leftovers" >"$mine/tx" || return 1
	printf '%s\n' "$$" >"$mine/pid" || return 1
}

# lock_look sets contested to yes when another generation may be held beside
# $mine: a higher one, or a lower one with a living owner.
lock_look() {
	contested=yes
	highest "$lock"
	[ "$lock/lock.$top" = "$mine" ] || return 0
	for candidate in "$lock"/lock.*; do
		[ "$candidate" != "$mine" ] || continue
		judge "$candidate"
		[ "$verdict" = free ] || [ "$holder" = 0 ] || return 0
	done
	contested=no
}

# lock_forget N: removes generations up to N, which no longer count. What one
# had staged whose owner died with it goes into orphans.
lock_forget() {
	for generation in "$lock"/lock.*; do
		[ "${generation##*/lock.}" -le "$1" ] || continue
		value "$generation/tx"
		[ -e "$generation/released" ] || [ ! -e "$generation/pid" ] || add_orphans "$value"
		rm -rf "$generation"
	done
}

# add_orphans WORDS: in a shared state folder anyone of the group wrote them,
# and they become parts of paths to remove: only ids count, and none is a
# pattern.
add_orphans() {
	set -f
	for word in $1; do
		case $word in *[!A-Za-z0-9_-]*) ;; *) orphans="$orphans $word" ;; esac
	done
	set +f
}

# lock_release gives back every lock taken, the last one first.
lock_release() {
	for taken in $held; do
		true >"$state/locks/$taken/released"
	done
	held=
}

# end_tree PID TICKS: stops that script so that it starts nothing more, kills
# it and all below it, and sees them dead; false when it could not.
end_tree() {
	alive "$1" "$2" || return 0
	kill -s STOP "$1" 2>/dev/null || ! alive "$1" "$2" || return 1
	tree="$1:$2"
	found=yes
	while [ "$found" = yes ]; do
		found=no
		for dir in /proc/[0-9]*; do
			grow_tree "${dir##*/}"
		done
	done
	for member in $tree; do
		! alive "${member%:*}" "${member#*:}" || kill -s KILL "${member%:*}" 2>/dev/null || :
	done
	waits=0
	while [ "$waits" -lt 100 ]; do
		nap 0.05
		waits=$((waits + 1))
		alive=no
		for member in $tree; do
			! alive "${member%:*}" "${member#*:}" || alive=yes
		done
		[ "$alive" = yes ] || waits=100
	done
	[ "$alive" = no ]
}

# grow_tree PID: adds a child of the tree to it, stopped.
grow_tree() {
	case " $tree " in *" $1:"*) return 0 ;; esac
	proc "$1" || return 0
	case " $tree " in *" $p_ppid:"*) ;; *) return 0 ;; esac
	kill -s STOP "$1" 2>/dev/null
	tree="$tree $1:$p_ticks"
	found=yes
}
