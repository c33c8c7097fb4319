# What is kept to be started again. In: STATE MODE ID LAUNCH INSTEAD.
#   list     each of them
#   read     one, with its environment
#   save     process PID (TICKS PORT LOG ABOUT UNIT) as ID, which goes on running
#   stopped  it was proved gone
#   claim    LAUNCH is to start it again, unless another launch is to; INSTEAD is
#            one that is known to have ended. Prints which one it is; or whose server
#            it is when that is another user's, or which service's.
#   restored LAUNCH serves
#   forget   it is not wanted again

# gpu_slices: "slice MIG-UUID UUID" of each part of a GPU that was cut up, with its card.
gpu_slices() {
	command -v nvidia-smi >/dev/null 2>&1 || return 0
	set -- nvidia-smi -L
	if command -v timeout >/dev/null 2>&1; then set -- timeout 20 "$@"; fi
	"$@" 2>/dev/null | sed -n 's/^\(.*\)(UUID: *\([^)]*\)).*$/\2/p' | while read -r l_uuid; do
		case $l_uuid in
		MIG-*) printf 'slice %s %s\n' "$l_uuid" "$l_card" ;;
		*) l_card=$l_uuid ;;
		esac
	done
}

main() {
	umask 077
	state_dir
	dir=$state/saved/$ID
	case $MODE in
	list)
		for dir in "$state"/saved/*; do
			case $dir in *.new | *.gone) continue ;; esac
			[ ! -e "$dir/argv" ] || tell_saved "$dir"
		done
		return 0
		;;
	save)
		if save_process "$dir" "$PID" "$TICKS" "$PORT" "$LOG" "$ABOUT" "$UNIT"; then tell_saved "$dir"; else printf 'error %s\n' "$save_error"; fi
		return 0
		;;
	esac
	if [ ! -e "$dir/argv" ]; then
		echo unknown
		return 0
	fi
	case $MODE in
	read)
		tell_saved "$dir"
		printf 'environ %s\n' "$(hex <"$dir/environ")"
		gpu_cards | sed 's/^/card /' || :
		gpu_slices
		;;
	stopped) put "$dir/stopped" "$(date +%s)" ;;
	claim)
		# As another user it would be another server: with other rights, and files.
		owner=$(val "$dir/user") || owner=
		me=$(user_of "$(id -u)")
		if [ -n "$owner" ] && [ "$owner" != "$me" ]; then
			printf 'owner %s\nme %s\n' "$owner" "$me"
			return 0
		fi
		# Beside its service it would be in that one's way, which may start it too.
		if unit=$(val "$dir/unit"); then
			printf 'unit %s\n' "$unit"
			return 0
		fi
		if [ -n "$INSTEAD" ] && [ "$(val "$dir/launch")" = "$INSTEAD" ]; then rm -f "$dir/launch"; fi
		printf '%s\n' "$LAUNCH" >"$dir/claim.$$.new" && ln "$dir/claim.$$.new" "$dir/launch" 2>/dev/null
		rm -f "$dir/claim.$$.new"
		printf 'launch %s\n' "$(val "$dir/launch")"
		;;
	restored) put "$dir/restored" "$LAUNCH" ;;
	forget) mv "$dir" "$dir.$$.gone" && rm -rf "$dir.$$.gone" ;;
	esac
}
