# Makes the private places that new content is sent to. In: state tx controller
# folders (groups of three: key, folder, claim) host_id user.
# The only files it writes lie below <state> and in .specrun-<tx>.
main() {
	umask 077
	mkdir -p "$state" || fail 73 unwritable "path $state"
	[ ! -g "$state" ] || umask 007
	mkdir -p "$state/blobs" "$state/files" "$state/locks" "$state/claims" "$state/tx/$tx/blobs" || fail 73 unwritable "path $state"
	printf '%s\n' "$controller" >"$state/tx/$tx/controller" || fail 73 unwritable "path $state/tx/$tx"
	eval "set -- $folders"
	while [ $# -gt 0 ]; do
		printf '%s\n' "$2" >"$state/tx/$tx/folder-$1" || fail 73 unwritable "path $state/tx/$tx"
		[ "$3" = none ] || stage_folder "$2"
		shift 3
	done
	staged=yes
}

stage_folder() {
	mkdir -m 700 "$1/.specrun-$tx" || fail 73 unwritable "path $1"
	umask 022
	printf '%s\n' "$user" "$state" "$host_id" >"$1/.specrun-$tx/claim" || fail 73 unwritable "path $1"
	umask 077
}

# What was begun and not finished is taken away again.
cleanup() {
	[ "$staged" != yes ] || return 0
	eval "set -- $folders"
	while [ $# -gt 0 ]; do
		rm -rf "$2/.specrun-$tx"
		shift 3
	done
	rm -rf "$state/tx/$tx"
}
