# Lists the locks below <state>/locks, or gives one back. In: state, host_id
# (empty: found out), release (a lock's name, or empty), generation.
main() {
	host_identity
	take=no
	expand "${state_dir:-${XDG_STATE_HOME:-$HOME/.local/state}/specrun}"
	state=$expanded
	[ -z "$release" ] || release_one
	for lock in "$state"/locks/install-*; do # leases are package server's
		highest "$lock"
		[ "$top" = 0 ] || describe "$lock/lock.$top"
	done
}

describe() {
	judge "$1"
	printf 'lock %s\n' "${lock##*/}"
	printf 'generation %s\n' "$top"
	printf 'verdict %s\n' "$verdict"
	printf 'reason %s\n' "$reason"
	for name in pid host boot ticks user what; do
		value "$1/$name"
		printf '%s %s\n' "$name" "$value"
	done
}

# release_one marks the very generation that the user looked at.
release_one() {
	lock=$state/locks/$release
	highest "$lock"
	[ "$top" = "$generation" ] || fail 6 locked "pid 0" "what $release" "reason busy" "lock $lock"
	judge "$lock/lock.$top"
	[ "$reason" != running ] && [ "$reason" != child ] || fail 6 locked "pid $holder" "what $release" "reason $reason" "lock $lock"
	true >"$lock/lock.$top/released" || unwritable "$lock"
}
