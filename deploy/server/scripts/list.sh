# Lists the launches whose server process lives; changes nothing. A launch of
# another machine or container with the same state folder is left out: whether it
# lives cannot be told from here. In: STATE. Out: see list.go.
main() {
	state_dir
	host_identity
	for dir in "$state"/runs/*; do
		read_identity "$dir" || continue
		[ "$i_host" = "$host_id" ] && [ "$i_boot" = "$boot_id" ] && alive "$i_pid" "$i_ticks" || continue
		printf 'launch %s\ndir %s\nphase running\n' "${dir##*/}" "$dir"
		printf 'identity %s %s %s %s %s\n' "$i_host" "$i_boot" "$i_pid" "$i_ticks" "$i_sid"
		[ ! -e "$dir/stopped" ] || echo 'stopped 1'
		size=$(stat -c %s "$dir/server.log" 2>/dev/null) || size=0
		port=$(val "$dir/port") || port=0
		# The identity is written by the process right before it becomes the server.
		began=$(stat -c %Y "$dir/identity" 2>/dev/null) || continue
		printf 'log_size %s\nport %s\nbegan %s\nnow %s\n' "$size" "$port" "$began" "$(date +%s)"
		[ "$port" = 0 ] || [ -z "$(listeners "$port")" ] || echo 'listens 1'
		if place=$(val "$dir/container"); then printf 'container %s\n' "$place"; fi
		if about=$(val "$dir/about"); then printf 'about %s\n' "$about"; fi
	done
}
