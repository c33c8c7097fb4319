# Says how a launch stands; changes nothing. In: STATE ID PORT (0 = do not look).
main() {
	state_dir
	host_identity
	dir=$state/runs/$ID
	[ ! -e "$dir/stopped" ] || echo 'stopped 1'
	printf 'dir %s\n' "$dir"
	if ! read_identity "$dir"; then
		echo 'phase absent'
		return 0
	fi
	printf 'identity %s %s %s %s %s\n' "$i_host" "$i_boot" "$i_pid" "$i_ticks" "$i_sid"
	if [ "$i_host" != "$host_id" ]; then
		printf 'phase elsewhere\nhere %s\n' "$host_id"
		return 0
	fi
	# The status is written after the process is gone: look at the process first,
	# and give the keeper a moment to write it.
	if leader_alive; then
		echo 'phase running'
	else
		tries=0
		while [ ! -e "$dir/exit" ] && [ "$i_boot" = "$boot_id" ] && [ "$tries" -lt 50 ] && [ -n "$(keepers "$dir")" ]; do
			nap 0.01
			tries=$((tries + 1))
		done
		echo 'phase exited'
		if status=$(val "$dir/exit"); then printf 'status %s\n' "$status"; fi
	fi
	size=$(stat -c %s "$dir/server.log" 2>/dev/null) || size=0
	printf 'log_size %s\n' "$size"
	[ "$PORT" != 0 ] && [ -n "$(listeners "$PORT")" ] || return 0
	mine=$(ours "$ID" "$i_sid")
	# shellcheck disable=SC2046
	holders "$PORT" $(printf '%s\n' "$mine" | cut -d ' ' -f 1) | while IFS= read -r line; do
		# shellcheck disable=SC2086
		set -f; set -- $line; set +f
		case "
$mine" in *"
$6 "*) whose=ours ;; *) whose=foreign ;; esac
		printf 'whose %s\n%s\n' "$whose" "$line"
	done
}
