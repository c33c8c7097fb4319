# What is kept to be started again. In: STATE MODE ID LAUNCH INSTEAD.
#   list     each of them
#   read     one, with its environment
#   save     process PID (TICKS PORT LOG ABOUT) as ID, which goes on running
#   stopped  it was proved gone
#   claim    LAUNCH is to start it again, unless another launch is to; INSTEAD is
#            one that is known to have ended. Prints which one it is, or whose server
#            it is when that is another user's.
#   restored LAUNCH serves
#   forget   it is not wanted again
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
		if save_process "$dir" "$PID" "$TICKS" "$PORT" "$LOG" "$ABOUT"; then tell_saved "$dir"; else printf 'error %s\n' "$save_error"; fi
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
		if [ -n "$INSTEAD" ] && [ "$(val "$dir/launch")" = "$INSTEAD" ]; then rm -f "$dir/launch"; fi
		printf '%s\n' "$LAUNCH" >"$dir/claim.$$.new" && ln "$dir/claim.$$.new" "$dir/launch" 2>/dev/null
		rm -f "$dir/claim.$$.new"
		printf 'launch %s\n' "$(val "$dir/launch")"
		;;
	restored) put "$dir/restored" "$LAUNCH" ;;
	forget) mv "$dir" "$dir.$$.gone" && rm -rf "$dir.$$.gone" ;;
	esac
}
