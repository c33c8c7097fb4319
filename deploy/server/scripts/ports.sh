# In: MODE holder|free, PORT, STATE, COUNT. "holder" prints who listens on PORT.
# "free" prints the first port from PORT on, among COUNT, that nobody listens on
# and nobody leases.
main() {
	if [ "$MODE" = holder ]; then
		holders "$PORT"
		return 0
	fi
	state_dir
	LAUNCH=
	leases_now
	used=$(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk '$4 == "0A" { n = split($2, a, ":"); print a[n] }')
	port=$PORT
	while [ "$port" -lt "$((PORT + COUNT))" ]; do
		hex=$(printf '%04X' "$port")
		case "
$used
" in *"
$hex
"*) ;; *)
			if ! leased "port-$port"; then
				echo "port $port"
				return 0
			fi
			;;
		esac
		port=$((port + 1))
	done
}

# leased NAME: somebody holds it. One that has expired and whose launch is dead
# is there for the taking.
leased() {
	judge "$1"
	[ "$verdict" = held ] || [ "$verdict" = alive ]
}
