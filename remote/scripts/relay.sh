# Connects to HOST PORT and copies: standard input to it, what it sends to
# standard output, behind a line "<marker> connected". Ends with either side.
# What can do it differs from image to image; most have Python.
say() { printf '\n%s %s\n' "$specrun_marker" "$1"; }

by_python() {
	exec "$1" -c '
import os, socket, sys, threading
mark, host, port = sys.argv[1:4]
def say(word):
    os.write(1, ("\n%s %s\n" % (mark, word)).encode())
try:
    s = socket.create_connection((host, int(port)), 10)
except OSError:
    say("refused")
    sys.exit(0)
s.settimeout(None)
say("connected")
def up():
    while True:
        b = os.read(0, 65536)
        if not b:
            break
        try:
            s.sendall(b)
        except OSError:
            break
    os._exit(0)
threading.Thread(target=up, daemon=True).start()
while True:
    try:
        b = s.recv(65536)
    except OSError:
        break
    if not b:
        break
    while b:
        b = b[os.write(1, b):]
os._exit(0)' "$specrun_marker" "$HOST" "$PORT"
}

by_bash() {
	exec bash -c '
if ! { exec 3<>"/dev/tcp/$2/$3"; } 2>/dev/null; then printf "\n%s refused\n" "$1"; exit 0; fi
printf "\n%s connected\n" "$1"
exec 4<&0
cat <&4 >&3 &
up=$!
{ cat <&3; kill "$up"; } 2>/dev/null &
wait "$up" 2>/dev/null
kill $! 2>/dev/null' bash "$specrun_marker" "$HOST" "$PORT"
}

main() {
	for try in python3 python; do
		if command -v "$try" >/dev/null 2>&1 && "$try" -c '' 2>/dev/null; then by_python "$try"; fi
	done
	if command -v bash >/dev/null 2>&1; then by_bash; fi
	if command -v nc >/dev/null 2>&1; then
		# It does not tell that it is connected: who listens is asked before.
		hex=$(printf '%04X' "$PORT")
		if ! cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk -v port="$hex" '
			$4 == "0A" { n = split($2, a, ":"); if (a[n] == port) found = 1 } END { exit !found }'; then
			say refused
			return 0
		fi
		say connected
		exec nc "$HOST" "$PORT"
	fi
	say none
}
