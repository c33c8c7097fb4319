# Starts one server process, once per launch id, and prints its identity.
# In: STATE ID PORT GPUS GPU_WAIT (hundredths of a second) CWD ENV_FILE PYTHON PROGRAM SH ABOUT GRACE VALUES LIBRARY LAUNCHER, COMMANDS or
# UNIT UNIT_SCOPE UNIT_EXEC UNIT_ENV UNIT_ENV_LAST.
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

q() { printf '%s\n' "$1" | sed "s/'/'\\\\''/g;1s/^/'/;\$s/\$/'/"; }

check_env_file() {
	[ -f "$env_file" ] && [ -r "$env_file" ] || refuse env_file "$env_file: no such file, or not readable"
	cr=$(printf '\r')
	number=0
	while IFS= read -r line || [ -n "$line" ]; do
		number=$((number + 1))
		env_line "$line"
		case $? in
		2) refuse env_file "$env_file line $number is no KEY=VALUE" ;;
		0) case $GPUS:$e_name in
			[0-9G]*:CUDA_VISIBLE_DEVICES) refuse env_file "$env_file line $number sets CUDA_VISIBLE_DEVICES, which server.gpus decides" ;;
			esac ;;
		esac
	done <"$env_file"
}

# cards: both answers of nvidia-smi at once, each takes it a while: "card index
# uuid MiB" of each GPU, "app pid uuid MiB name" of each process that holds memory.
cards() {
	gpu_apps | sed 's/^/app /' &
	gpu_cards | sed 's/^/card /'
	wait
}

# busy_gpus: prints who holds memory of the GPUs asked for ("all", or indexes and
# UUIDs), memory that no visible process holds among it: one in another container
# holds it, or the driver has not got it back. Less than a GiB of that is the
# driver's own. "none GPU" is one that is not there.
busy_gpus() {
	[ -n "$GPUS" ] || return 0
	seen=$(cards)
	[ -n "$seen" ] || return 0
	printf '%s\n' "$seen" | awk -v gpus="$GPUS" '
		BEGIN { all = gpus == "all"; n = split(gpus, g, ","); for (i = 1; i <= n; i++) asked[g[i]] = 1 }
		$1 == "card" {
			there[$2] = there[$3] = 1; cards++
			if (all || ($2 in asked) || ($3 in asked)) { want[$3] = 1; used[$3] = $4 }
		}
		$1 == "app" && NF > 3 { line[++apps] = $0; of[apps] = $3; held[$3] += $4 }
		END {
			if (!all && cards) for (i = 1; i <= n; i++) if (!(g[i] in there)) print "none", g[i]
			for (i = 1; i <= apps; i++) if (all || (of[i] in want)) print line[i]
			for (u in want) if (used[u] - held[u] > 1024) print "rest", u, used[u] - held[u]
		}' | while read -r kind pid uuid mib name; do
		case $kind in
		none) printf 'none %s\n' "$pid" ;;
		rest) printf 'gpu %s 0 %s - -\n' "$pid" "$uuid" ;;
		app)
			proc "$pid" || p_state=
			case $p_state in Z | X | x) continue ;; esac
			uid=$(stat -c %u "/proc/$pid" 2>/dev/null) || uid='?'
			printf 'gpu %s %s %s %s %s\n' "$uuid" "$pid" "$mib" "$(user_of "$uid")" "$name"
			;;
		esac
	done
}

# keep_commands: what a stop needs, without the launch's environment.
keep_commands() {
	printf 'DIR=%s\nCWD=%s\nPYTHON=%s\n%s\n' "$(q "$dir")" "$(q "$cwd")" "$(q "$python")" "$COMMANDS" >"$dir/commands" || unwritable "$dir/commands"
	(i_pid='' && user_command "$dir" user_status) &
	timed_pid=$!
	if timed 1000; then
		rm -f "$launcher"
		refuse running "the status command says that the server runs already, and it is none of ours"
	fi
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
	marked=$(marks)
	if [ -n "$marked" ]; then
		printf 'state marked\n%s\n' "$marked"
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
	clock
	limit=$((t_cs + GPU_WAIT))
	while :; do
		held=$(busy_gpus)
		[ -n "$held" ] || break
		case $held in
		none*) refuse gpus "no GPU $(printf '%s\n' "$held" | sed -n 's/^none //p' | tr '\n' ' ')on this host" ;;
		esac
		# What a process has just left goes on its own.
		clock
		if [ "$t_cs" -ge "$limit" ] || printf '%s\n' "$held" | grep -qv '^gpu [^ ]* 0 '; then
			printf 'state gpu\n%s\n' "$held"
			exit 0
		fi
		nap 0.5
	done

	if [ -n "$UNIT" ]; then
		put "$dir/port" "$PORT" || unwritable "$dir/port"
		[ -z "$ABOUT" ] || put "$dir/about" "$ABOUT" || unwritable "$dir/about"
		[ "$GRACE" = 0 ] || put "$dir/grace" "$GRACE" || unwritable "$dir/grace"
		: >>"$dir/server.log" || unwritable "$dir/server.log"
		start_unit
	fi
	expand "$PYTHON"
	python=$expanded
	launcher=$dir/launch.$$.sh
	printf 'ID=%s\nDIR=%s\nCWD=%s\nENV_FILE=%s\nPYTHON=%s\nSH=%s\n%s\n%s\n%s\n' "$(q "$ID")" "$(q "$dir")" "$(q "$cwd")" \
		"$(q "$env_file")" "$(q "$python")" "$(q "$SH")" "$VALUES" "$LIBRARY" "$LAUNCHER" >"$launcher" ||
		unwritable "$launcher"
	put "$dir/port" "$PORT" || unwritable "$dir/port"
	[ -z "$ABOUT" ] || put "$dir/about" "$ABOUT" || unwritable "$dir/about"
	[ "$GRACE" = 0 ] || put "$dir/grace" "$GRACE" || unwritable "$dir/grace"
	: >>"$dir/server.log" || unwritable "$dir/server.log"
	[ -z "$COMMANDS" ] || keep_commands
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
