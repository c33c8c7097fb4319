# Says what the engine knows of a container. In: ENGINE (docker, podman), NAME.
# Out: "problem WORD" and "detail TEXT", or id, state, pid, network, address.
main() {
	command -v "$ENGINE" >/dev/null 2>&1 || {
		echo 'problem no engine'
		return 0
	}
	# Where two parts of a network have no address the engines print "invalid IP".
	if found=$("$ENGINE" container inspect --format 'id {{.Id}}
state {{.State.Status}}
pid {{.State.Pid}}
network {{.HostConfig.NetworkMode}}
{{range .NetworkSettings.Networks}}address {{.IPAddress}}
{{end}}' "$NAME" 2>&1); then
		printf '%s\n' "$found"
		return 0
	fi
	# An engine that answers otherwise knows no such container.
	if "$ENGINE" ps -q >/dev/null 2>&1; then echo 'problem absent'; else echo 'problem refused'; fi
	printf '%s\n' "$found" | sed 's/^/detail /'
}
