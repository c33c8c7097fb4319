//go:build integration

package remote_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"specrun/remote"
	"specrun/remote/remotetest"
)

// inPodman opens the inside of a container on this machine.
func inPodman(t *testing.T, p *remotetest.Podman, name string) (*remote.Host, error) {
	t.Helper()
	base := remote.Local(remote.LocalConfig{Name: "gpu-01", Env: append(os.Environ(), p.Env...)})
	h, err := base.Container(t.Context(), remote.Container{Engine: "podman", Name: name})
	t.Cleanup(func() {
		if h != nil {
			h.Close()
		}
		base.Close()
	})
	return h, err
}

// Podman looks for its detach keys in what goes in, and every byte may be in a
// file.
func TestContainer_PayloadHasEveryByte(t *testing.T) {
	p := remotetest.StartPodman(t)
	h, err := inPodman(t, p, p.Start("--network", "none"))
	if err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat([]byte{0x10, 0x11}, 1000)
	for a := range 256 {
		for b := range 256 {
			data = append(data, byte(a), byte(b))
		}
	}
	if _, err := h.PutVerified(t.Context(), remote.File{Path: "/tmp/all", Data: data}); err != nil {
		t.Fatal(err)
	}
	var back bytes.Buffer
	if _, _, err := h.Get(t.Context(), "/tmp/all", &back); err != nil || !bytes.Equal(back.Bytes(), data) {
		t.Errorf("%d bytes came back of %d, %v", back.Len(), len(data), err)
	}
}

// A server on the container's loopback is reached from outside whatever the
// container has to forward it with.
func TestContainer_ReachesItsOwnPorts(t *testing.T) {
	p := remotetest.StartPodman(t)
	serve := func(t *testing.T, h *remote.Host, command string) {
		t.Helper()
		if _, err := h.Run(t.Context(), remote.Script{Name: "serve", Text: "main() { setsid " + command + " </dev/null >/dev/null 2>&1 & }"}); err != nil {
			t.Fatal(err)
		}
	}
	get := func(t *testing.T, h *remote.Host) {
		t.Helper()
		client := &http.Client{Transport: &http.Transport{DialContext: h.DialContext, DisableKeepAlives: true}, Timeout: 20 * time.Second}
		var err error
		for range 100 { // until it listens
			var res *http.Response
			if res, err = client.Get("http://127.0.0.1:8077/hello"); err == nil {
				body, readErr := io.ReadAll(res.Body)
				res.Body.Close()
				if readErr != nil || len(body) != 300_000 {
					t.Fatalf("%d bytes, %v", len(body), readErr)
				}
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Fatal(err)
	}
	const file = "head -c 300000 /dev/zero >/tmp/hello; cd /tmp && exec "
	for _, c := range []struct {
		name  string
		args  []string
		serve string
		hide  string // what the relay shall not find
	}{
		{"python on loopback", []string{"--network", "none"}, `sh -c '` + file + `python3 -m http.server -b 127.0.0.1 8077'`, ""},
		{"bash on loopback", []string{"--network", "none", "-v", "/bin/false:/usr/local/sbin/python3:ro"}, `sh -c '` + file + `/usr/bin/python3 -m http.server -b 127.0.0.1 8077'`, "python3"},
		{"busybox alone", []string{"--network", "none", remotetest.BusyboxImage}, `sh -c '` + file + `httpd -f -p 127.0.0.1:8077'`, ""},
		{"network of the host", []string{"--network", "host"}, `sh -c '` + file + `python3 -m http.server -b 127.0.0.1 8077'`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			name := ""
			if c.hide != "" {
				// A folder in front of PATH whose python3 does not work.
				dir := t.TempDir()
				for _, n := range []string{"python3", "python"} {
					if err := os.WriteFile(dir+"/"+n, []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
						t.Fatal(err)
					}
				}
				name = p.Start("--network", "none", "-v", dir+":/opt:ro", "-e", "PATH=/opt:/usr/bin:/bin")
			} else {
				name = p.Start(c.args...)
			}
			h, err := inPodman(t, p, name)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := h.DialContext(t.Context(), "tcp", "127.0.0.1:8077"); err == nil {
				t.Fatal("connected to nobody")
			}
			serve(t, h, c.serve)
			get(t, h)
			get(t, h)
		})
	}
}

// What the container is known by is said once; afterwards another one of the same
// name is another one.
func TestContainer_IsPinned(t *testing.T) {
	p := remotetest.StartPodman(t)
	name := p.Start("--network", "none")
	h, err := inPodman(t, p, name)
	if err != nil {
		t.Fatal(err)
	}
	ask := func() error {
		_, err := h.Run(context.Background(), remote.Script{Name: "ask", Text: "main() { :; }"})
		return err
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	if in, ok := h.Inside(); !ok || in.HostNetwork || in.PID == 0 {
		t.Errorf("inside %+v", in)
	}
	p.Run("stop", "-t", "0", name)
	wantReason(t, ask(), remote.ContainerStopped)
	p.Run("start", name)
	if err := ask(); err != nil {
		t.Errorf("started again: %v", err)
	}
	p.Run("rm", "-f", "-t", "0", name)
	wantReason(t, ask(), remote.ContainerAbsent)
	p.StartAs(name, "--network", "none")
	wantReason(t, ask(), remote.ContainerReplaced)
	_, err = inPodman(t, p, "nobody")
	wantReason(t, err, remote.ContainerAbsent)
}

func wantReason(t *testing.T, err error, want remote.ContainerReason) {
	t.Helper()
	var c *remote.ContainerError
	if !errors.As(err, &c) || c.Reason != want || !c.Gone() || c.Hint() == "" {
		t.Errorf("error %v, want reason %s", err, want)
	}
}

// The identity that scripts write changes with a restart, since every pid does.
func TestContainer_BootsWhenItStarts(t *testing.T) {
	p := remotetest.StartPodman(t)
	name := p.Start("--network", "none")
	h, err := inPodman(t, p, name)
	if err != nil {
		t.Fatal(err)
	}
	identity := func() string {
		t.Helper()
		res, err := h.Run(t.Context(), remote.Script{Name: "identity", Text: remote.HostLib() + "main() { host_identity; echo \"$host_id $boot_id\"; }"})
		if err != nil {
			t.Fatal(err)
		}
		return string(res.Stdout)
	}
	before := identity()
	in, _ := h.Inside()
	if !strings.HasPrefix(before, "container/"+in.ID+" ") || identity() != before {
		t.Errorf("identity %q", before)
	}
	p.Run("restart", "-t", "0", name)
	if after := identity(); after == before || !strings.HasPrefix(after, "container/"+in.ID+" ") {
		t.Errorf("identity %q after a restart, %q before", after, before)
	}
}
