package remote_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"specrun/remote"
	"specrun/remote/remotetest"
)

const fakeID = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

// fakeEngine puts an engine into PATH whose one container is this machine: exec
// runs what it is given. The client is no parent of it that a signal could reach.
func fakeEngine(t *testing.T, engine, shell string) *remote.Host {
	t.Helper()
	dir := t.TempDir()
	script := `#!/bin/sh
case $1 in
container)
	[ ! -e ` + dir + `/gone ] || { echo "no such container" >&2; exit 1; }
	printf 'id %s\nstate %s\npid 1\nnetwork host\n' ` + fakeID + ` "$(cat ` + dir + `/state)" ;;
ps) [ ! -e ` + dir + `/silent ] || { echo "permission denied" >&2; exit 1; } ;;
exec)
	shift
	while :; do case $1 in
	-i | --detach-keys=) shift ;;
	-e) export "$2"; shift 2 ;;
	*) break ;;
	esac; done
	[ "$1" = ` + fakeID + ` ] && [ "$(cat ` + dir + `/state)" = running ] && [ ! -e ` + dir + `/gone ] || { echo "container is not running" >&2; exit 1; }
	[ "$2" = /bin/sh ] || exit 126
	shift 2
	exec 3<&0
	setsid ` + shell + ` "$@" <&3 3<&- &
	while kill -0 $! 2>/dev/null; do
		[ "$(cat ` + dir + `/state)" = running ] && [ ! -e ` + dir + `/gone ] || kill -s KILL -- -$!
		sleep 0.02
	done
	wait $! ;;
esac
`
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(engine, script)
	write("state", "running")
	env := append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "FAKE="+dir)
	base := remote.Local(remote.LocalConfig{Name: "gpu-01", Env: env})
	t.Cleanup(func() { base.Close() })
	return base
}

func enter(t *testing.T, base *remote.Host, engine string) *remote.Host {
	t.Helper()
	h, err := base.Container(t.Context(), remote.Container{Engine: engine, Name: "sglang"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// The contract of every Host, through an engine that adds nothing of its own.
func TestContainer_KeepsTheContract(t *testing.T) {
	remotetest.Run(t, func(t *testing.T) *remote.Host { return enter(t, fakeEngine(t, "docker", "/bin/sh"), "docker") })
}

func TestContainer_SaysWhyItCannotBeEntered(t *testing.T) {
	base := fakeEngine(t, "podman", "/bin/sh")
	h := enter(t, base, "podman")
	if in, ok := h.Inside(); !ok || in.ID != fakeID || !in.HostNetwork || in.String() != "podman:sglang" {
		t.Errorf("inside %+v", in)
	}
	if _, ok := base.Inside(); ok {
		t.Error("the host is in no container")
	}
	dir := strings.TrimSpace(string(run(t, base, `printf '%s' "$FAKE"`)))
	set := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(c remote.Container) error {
		_, err := base.Container(t.Context(), c)
		return err
	}
	inside := func() error {
		_, err := h.Run(t.Context(), remote.Script{Name: "ask", Text: "main() { :; }"})
		return err
	}
	set("state", "exited")
	refused := []error{ask(remote.Container{Engine: "podman", Name: "sglang"})}
	for range 20 { // whether the client ends before it is written to is a matter of luck
		refused = append(refused, inside())
	}
	for _, err := range refused {
		wantContainer(t, err, remote.ContainerStopped, "gpu-01: container sglang does not run (exited)")
	}
	set("gone", "")
	wantContainer(t, inside(), remote.ContainerAbsent, "gpu-01: container sglang does not exist in podman")
	set("silent", "")
	wantContainer(t, inside(), remote.ContainerRefused, "gpu-01: podman does not answer: no such container")
	if _, err := os.Stat("/usr/bin/docker"); err != nil {
		// Only where there is none, of course.
		if err := ask(remote.Container{Engine: "docker", Name: "sglang"}); err == nil {
			t.Error("entered a container without an engine")
		}
	}
	for _, bad := range []remote.Container{{Engine: "lxc", Name: "x"}, {Engine: "docker", Name: "-v"}, {Engine: "docker", Name: "a b"}, {Engine: "docker"}} {
		if err := ask(bad); err == nil {
			t.Errorf("%v was taken", bad)
		}
	}
	if _, err := h.Container(t.Context(), remote.Container{Engine: "docker", Name: "x"}); err == nil {
		t.Error("a container within a container")
	}
}

func run(t *testing.T, h *remote.Host, command string) []byte {
	t.Helper()
	res, err := h.Run(t.Context(), remote.Script{Name: "test", Text: "main() { " + command + "; }"})
	if err != nil {
		t.Fatal(err)
	}
	return res.Stdout
}

func wantContainer(t *testing.T, err error, reason remote.ContainerReason, text string) {
	t.Helper()
	var c *remote.ContainerError
	if !errors.As(err, &c) || c.Reason != reason || c.Hint() == "" || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, want reason %s, %q", err, reason, text)
	}
}

func TestParseContainer(t *testing.T) {
	for text, want := range map[string]string{"sglang": "docker:sglang", "docker:a_b": "docker:a_b", "podman:x.1": "podman:x.1", "lxc:x": "", "docker:": "", "": "", "a/b": ""} {
		c, err := remote.ParseContainer(text)
		if got := fmt.Sprint(c); err == nil && got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %v, %v; want %q", text, got, err, want)
		}
	}
}
