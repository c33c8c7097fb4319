# Starts one server process, once per launch id, and prints its identity.
# In: STATE ID PORT GPUS CWD ENV_FILE PYTHON PROGRAM SH ABOUT GRACE VALUES LIBRARY LAUNCHER.
# Out: "state ..." and what belongs to it; see start.go.

refuse() { # REASON DETAIL
	printf 'state refused\nreason %s\ndetail %s\n' "$1" "$2"
	exit 0
}

# unwritable FILE: refuses, and leaves no launcher, which may hold secrets.
unwritable() {
	rm -f "$launcher"
	refuse state_dir "$1 cannot be written"
}

started() {
	printf 'state started\nadopted %s\nidentity %s %s %s %s %s\ndir %s\n' "$1" "$i_host" "$i_boot" "$i_pid" "$i_ticks" "$i_sid" "$dir"
	exit 0
}

check_env_file() {
	[ -f "$env_file" ] && [ -r "$env_file" ] || refuse env_file "$env_file: no such file, or not readable"
	cr=$(printf '\r')
	number=0
	while IFS= read -r line || [ -n "$line" ]; do
		number=$((number + 1))
		env_line "$line"
		[ $? -ne 2 ] || refuse env_file "$env_file line $number is no KEY=VALUE"
	done <"$env_file"
}

# busy_gpus: prints what runs on the GPUs asked for ("all", or indexes and uuids).
busy_gpus() {
	[ -n "$GPUS" ] || return 0
	apps=$(gpu_apps) || return 0
	[ -n "$apps" ] || return 0
	want=all
	if [ "$GPUS" != all ]; then
		want=$(nvidia-smi --query-gpu=index,uuid --format=csv,noheader 2>/dev/null | sed 's/, */ /' |
			awk -v gpus="$GPUS" 'BEGIN { n = split(gpus, g, ","); for (i = 1; i <= n; i++) w[g[i]] = 1 }
				($1 in w) || ($2 in w) { printf "%s ", $2 }')
	fi
	printf '%s\n' "$apps" | awk -v want="$want" '
		BEGIN { n = split(want, w, " "); for (i = 1; i <= n; i++) wanted[w[i]] = 1 }
		want == "all" || ($2 in wanted)' | while read -r pid uuid mib name; do
		proc "$pid" || p_state=
		case $p_state in Z | X | x) continue ;; esac
		uid=$(stat -c %u "/proc/$pid" 2>/dev/null) || uid='?'
		printf 'gpu %s %s %s %s %s\n' "$uuid" "$pid" "$mib" "$(user_of "$uid")" "$name"
	done
}

main() {
	umask 077
	state_dir
	host_identity
	dir=$state/runs/$ID
	mkdir -p "$dir" || refuse state_dir "$dir cannot be made"
	dir=$(cd "$dir" && pwd -P) || refuse state_dir "$dir cannot be entered"
	if read_identity "$dir"; then started 1; fi
	if [ -e "$dir/stopped" ]; then
		printf 'state stopped\n'
		exit 0
	fi

	command -v setsid >/dev/null 2>&1 || refuse setsid "no setsid in PATH ($PATH)"
	cwd=$CWD
	if [ -n "$cwd" ]; then
		expand "$cwd"
		cwd=$expanded
		cd "$cwd" 2>/dev/null || refuse cwd "$cwd: no such folder, or not accessible"
	fi
	expand "$PROGRAM"
	program=$expanded
	case $program in
	*/*) [ -f "$program" ] && [ -x "$program" ] || refuse program "$program: no such file, or not executable" ;;
	esac
	cd "$HOME" 2>/dev/null || cd /
	env_file=$ENV_FILE
	if [ -n "$env_file" ]; then
		expand "$env_file"
		env_file=$expanded
		case $env_file in /*) ;; *) env_file=$HOME/$env_file ;; esac
		check_env_file
	fi
	if [ "$PORT" != 0 ]; then
		held=$(holders "$PORT")
		if [ -n "$held" ]; then
			printf 'state port\n%s\n' "$held"
			exit 0
		fi
	fi
	held=$(busy_gpus)
	if [ -n "$held" ]; then
		printf 'state gpu\n%s\n' "$held"
		exit 0
	fi

	expand "$PYTHON"
	python=$expanded
	launcher=$dir/launch.$$.sh
	q() { printf '%s\n' "$1" | sed "s/'/'\\\\''/g;1s/^/'/;\$s/\$/'/"; }
	printf 'ID=%s\nDIR=%s\nCWD=%s\nENV_FILE=%s\nPYTHON=%s\nSH=%s\n%s\n%s\n%s\n' "$(q "$ID")" "$(q "$dir")" "$(q "$cwd")" \
		"$(q "$env_file")" "$(q "$python")" "$(q "$SH")" "$VALUES" "$LIBRARY" "$LAUNCHER" >"$launcher" ||
		unwritable "$launcher"
	put "$dir/port" "$PORT" || unwritable "$dir/port"
	[ -z "$ABOUT" ] || put "$dir/about" "$ABOUT" || unwritable "$dir/about"
	[ "$GRACE" = 0 ] || put "$dir/grace" "$GRACE" || unwritable "$dir/grace"
	: >>"$dir/server.log" || unwritable "$dir/server.log"
	# Nothing of ours may stay open in it, or the session would wait for it.
	setsid "$SH" "$launcher" keep </dev/null >/dev/null 2>&1 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- &
	keeper=$!
	clock
	limit=$((t_cs + 1500))
	while [ "$t_cs" -lt "$limit" ]; do
		if read_identity "$dir"; then started 0; fi
		if ! proc "$keeper" || [ "$p_state" = Z ]; then
			# It gave way to one that is under way, or the server has ended already.
			if [ -z "$(keepers "$dir")" ] && [ -z "$(with_run_id "$ID")" ]; then
				if read_identity "$dir"; then started 0; fi
				break
			fi
		fi
		nap 0.01
		clock
	done
	if [ -e "$dir/stopped" ]; then
		printf 'state stopped\n'
		exit 0
	fi
	refuse launcher "the launcher in $dir wrote no identity (file system without hard links, or full?)"
}
