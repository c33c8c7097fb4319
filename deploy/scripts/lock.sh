# Locks. One folder per resource below <state>/locks; in it one generation
# lock.<n> per holder, of which only the highest counts. Its owner is told by
# one-value files, written before "pid", which makes the generation owned;
# "released" ends it. No generation above a live one can be made without its
# maker seeing the live one afterwards and giving way, so there are never two.

# young: seconds for which a generation without owner is taken as being made.
young=10

# start_of PID sets ticks, status (a letter) and session of a process; false
# when there is none.
start_of() {
	stat=
	{ read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
	set -- ${stat##*) }
	status=$1
	parent=$2
	session=$4
	ticks=${20}
}

# running PID TICKS: true while that very process lives, stopped or not.
running() {
	start_of "$1" || return 1
	[ "$ticks" = "$2" ] || return 1
	case $status in Z | X) return 1 ;; esac
}

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

# judge GENERATION-FOLDER sets verdict to free or held, and reason.
judge() {
	verdict=free
	reason=released
	[ ! -e "$1/released" ] || return 0
	value "$1/pid"
	holder=$value
	[ -n "$holder" ] || {
		judge_unowned "$1"
		return 0
	}
	value "$1/ticks"
	holder_ticks=$value
	value "$1/host"
	verdict=held
	reason=other-host
	[ "$value" = "$host_id" ] || return 0
	value "$1/boot"
	verdict=free
	reason=rebooted
	[ "$value" = "$boot_id" ] || return 0
	verdict=held
	reason=running
	! running "$holder" "$holder_ticks" || return 0
	reason=hidden
	[ -d /proc/1 ] || return 0
	reason=child
	value "$1/session"
	if [ "$value" = "$holder" ] && remnant "$holder"; then
		return 0
	fi
	verdict=free
	reason=dead
}

judge_unowned() {
	verdict=free
	reason=unowned
	made=$(stat -c %Y "$1" 2>/dev/null) || return 0
	now=$(date +%s)
	[ $((now - made)) -gt "$young" ] || verdict=held
	holder=0
}

# remnant SESSION: true when a process of a session is left whose leader is
# gone, such as the mv of a killed script. Sets holder to it.
remnant() {
	[ ! -d "/proc/$1" ] || ! start_of "$1" || case $status in Z | X) ;; *) return 1 ;; esac
	for dir in /proc/[0-9]*; do
		start_of "${dir##*/}" || continue
		[ "$session" = "$1" ] || continue
		case $status in Z | X) continue ;; esac
		holder=${dir##*/}
		holder_ticks=$ticks
		return 0
	done
	return 1
}

# lock_take KEY WHAT: takes the lock, or ends with exit 6. With take=yes it
# first ends the script that holds it, and its children.
lock_take() {
	lock=$state/locks/$1
	[ -d "$lock" ] || mkdir -p "$lock" || fail 73 unwritable "path $lock"
	tries=0
	while [ "$tries" -lt 20 ]; do
		tries=$((tries + 1))
		highest "$lock"
		below=$top
		lock_clear "$2"
		mine=$lock/lock.$((below + 1))
		mkdir "$mine" 2>/dev/null || {
			[ -d "$mine" ] || fail 73 unwritable "path $mine"
			continue
		}
		lock_own "$2" || fail 73 unwritable "path $mine"
		if lock_contested; then
			rm -rf "$mine"
			continue
		fi
		held="$mine
$held"
		lock_forget "$lock" "$below"
		return 0
	done
	fail 6 locked "pid 0" "what $2" "reason busy" "lock $lock"
}

# lock_clear WHAT: returns when no generation is held, else ends. One without
# owner counts only at the top: a lower one's maker will give way.
lock_clear() {
	for candidate in "$lock"/lock.*; do
		[ -d "$candidate" ] || continue
		judge "$candidate"
		while [ "$verdict" = held ] && [ "$holder" != 0 -o "$candidate" = "$lock/lock.$top" ]; do
			lock_end "$1"
			judge "$candidate"
		done
	done
}

# lock_end WHAT: with take=yes ends the holder, else tells who it is and ends us.
lock_end() {
	if [ "$take" = yes ] && [ "$holder" != 0 ] && [ "$reason" != other-host ] && [ "$reason" != hidden ]; then
		end_tree "$holder" "$holder_ticks" && return 0
		reason=cannot-end
	fi
	value "$candidate/user"
	lock_user=$value
	value "$candidate/host"
	fail 6 locked "pid $holder" "what $1" "reason $reason" "user $lock_user" "host $value" "lock $lock" "generation ${candidate##*.}"
}

# lock_own WHAT: says in $mine who we are, pid last.
lock_own() {
	start_of "$$"
	printf '%s\n' "$host_id" >"$mine/host" || return 1
	printf '%s\n' "$boot_id" >"$mine/boot" || return 1
	printf '%s\n' "$ticks" >"$mine/ticks" || return 1
	printf '%s\n' "$session" >"$mine/session" || return 1
	printf '%s\n' "$user" >"$mine/user" || return 1
	printf '%s\n' "$1" >"$mine/what" || return 1
	printf '%s\n' "$$" >"$mine/pid" || return 1
}

# lock_contested: true when another generation may be held beside $mine, so
# that we must give way: a higher one, or a lower one with a living owner.
lock_contested() {
	highest "$lock"
	[ "$lock/lock.$top" = "$mine" ] || return 0
	for candidate in "$lock"/lock.*; do
		[ "$candidate" != "$mine" ] || continue
		judge "$candidate"
		[ "$verdict" = free ] || [ "$holder" = 0 ] || return 0
	done
	return 1
}

# lock_forget FOLDER N: removes generations up to N, which no longer count.
lock_forget() {
	for generation in "$1"/lock.*; do
		[ "${generation##*/lock.}" -gt "$2" ] || rm -rf "$generation"
	done
}

# lock_release gives back every lock taken, last one first.
lock_release() {
	while [ -n "$held" ]; do
		: >"${held%%
*}/released"
		held=${held#*
}
	done
}

# end_tree PID TICKS: stops that script so that it starts nothing more, kills
# it and all below it, and sees them dead.
end_tree() {
	running "$1" "$2" || return 0
	kill -s STOP "$1" 2>/dev/null || return 1
	tree="$1:$2"
	found=yes
	while [ "$found" = yes ]; do
		found=no
		for dir in /proc/[0-9]*; do
			grow_tree "${dir##*/}"
		done
	done
	for member in $tree; do
		running "${member%:*}" "${member#*:}" && kill -s KILL "${member%:*}" 2>/dev/null
	done
	waits=0
	for member in $tree; do
		while running "${member%:*}" "${member#*:}"; do
			waits=$((waits + 1))
			[ "$waits" -lt 100 ] || return 1
			sleep 0.05 2>/dev/null || sleep 1
		done
	done
}

# grow_tree PID: adds a child of the tree to it, stopped.
grow_tree() {
	case " $tree " in *" $1:"*) return 0 ;; esac
	start_of "$1" || return 0
	case " $tree " in *" $parent:"*) ;; *) return 0 ;; esac
	kill -s STOP "$1" 2>/dev/null
	tree="$tree $1:$ticks"
	found=yes
}
