//go:build integration || soak

package server

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"specrun/internal/tier"
	"specrun/remote/remotetest"
)

func TestSSHD_ServerOutlivesItsConnectionAndIsStoppedThroughAnother(t *testing.T) {
	s := remotetest.StartSSHD(t, remotetest.Options{})
	b := &bench{t: t, h: s.Dial(t), state: filepath.Join(t.TempDir(), "state"), python: findPython(t), script: standin(t),
		unique: fmt.Sprintf("-%d-%x", os.Getpid(), rand.Uint64()), proved: map[string]bool{}}
	port := freePort(t)
	l := b.launch("detached", port, "--double-fork")
	l.Env = map[string]string{"ODD": "a 'quote'\nand a line"}
	begun := time.Now()
	id, err := Start(t.Context(), b.h, l)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("start took %v", time.Since(begun))
	s.CutConnections()

	second := s.Dial(t)
	b.h = second
	st := b.lookID(l.ID)
	if st.Phase != Running || st.Identity != id {
		t.Fatalf("after the connection was cut: %+v", st)
	}
	ready, err := b.waitReady(st, port)
	if err != nil {
		t.Fatal(err)
	}
	client := Client(second)
	defer client.CloseIdleConnections()
	resp, err := client.Post(ready.BaseURL+"/generate", "application/json", bytes.NewReader([]byte(`{"sampling_params":{"max_new_tokens":3}}`)))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("request through the connection: %v", err)
	}
	resp.Body.Close()
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}

	b.h = s.Dial(t)
	env, err := Environ(t.Context(), b.h, id)
	if err != nil || env["ODD"] != l.Env["ODD"] {
		t.Errorf("environment after two connections: %q, %v", env["ODD"], err)
	}
	begun = time.Now()
	proof, err := b.stopID(l.ID, StopOptions{Grace: 500 * time.Millisecond})
	if err != nil || !proof.Terminated || living(id.PID) || living(ready.Listener.PID) || len(withRunID(t, l.ID)) > 0 {
		t.Fatalf("proof = %+v, %v", proof, err)
	}
	t.Logf("stop took %v", time.Since(begun))
}

func TestSSHD_StopGoesOnWhenTheConnectionIsCut(t *testing.T) {
	s := remotetest.StartSSHD(t, remotetest.Options{})
	b := &bench{t: t, h: s.Dial(t), state: filepath.Join(t.TempDir(), "state"), python: findPython(t), script: standin(t),
		unique: fmt.Sprintf("-%d-%x", os.Getpid(), rand.Uint64()), proved: map[string]bool{}}
	port := freePort(t)
	st := b.start(b.launch("cut", port, "--ignore-term"))
	if _, err := b.waitReady(st, port); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		_, err := b.stop("cut", StopOptions{Grace: 2 * time.Second})
		answer <- err
	}()
	mark := filepath.Join(b.state, "runs", b.id("cut"), "stopped")
	eventually(t, "the stop begins", func() bool { _, err := os.Stat(mark); return err == nil })
	s.CutConnections()
	if err := <-answer; err == nil {
		t.Fatal("the stop was answered through a connection that was cut")
	}
	b.h = s.Dial(t)
	eventually(t, "the server is gone", func() bool { return !living(st.Identity.PID) })
	if proof, err := b.stop("cut", StopOptions{}); err != nil {
		t.Errorf("second stop: %+v, %v", proof, err)
	}
}

// killAt writes a file for BASH_ENV that kills the shell which runs who (start,
// keep, launch or stop) right before its n-th command.
func killAt(t *testing.T, dir, who string, n int) string {
	t.Helper()
	path := filepath.Join(dir, fmt.Sprintf("kill-%s-%d", who, n))
	// $1 is the launcher's part; scripts that come on standard input have none,
	// and are told by the functions they define.
	text := fmt.Sprintf(`
kill_count=0
kill_who() {
	case ${1-} in keep|launch) echo "$1"; return ;; esac
	if command -v check_env_file >/dev/null; then echo start; fi
	if command -v end_processes >/dev/null; then echo stop; fi
}
kill_step() {
	[ "${kill_me-}" ] || kill_me=$(kill_who "$@")
	[ "$kill_me" = %s ] || return 0
	kill_count=$((kill_count + 1))
	[ "$kill_count" != %d ] || { : >%s.hit; kill -9 $$; }
}
set -T
trap 'kill_step "$@"' DEBUG
`, who, n, path)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Whatever command of a script is the last one before it is killed: the next
// start has exactly one process, and the next stop leaves none.
func TestKilledScripts_OneProcessThenNone(t *testing.T) {
	for _, who := range []string{"start", "keep", "launch", "stop"} {
		t.Run(who, func(t *testing.T) {
			b := newBench(t)
			home := filepath.Dir(b.state)
			plainHost := b.h
			points := 0
			stride := tier.Stride(10)
			for n := 1 + rand.IntN(stride); ; n += stride {
				name := fmt.Sprintf("kill-%s-%d", who, n)
				id := b.id(name)
				file := killAt(t, home, who, n)
				b.h, b.shell = bashHost(t, home, "BASH_ENV="+file), "/bin/bash"
				l := Launch{ID: id, Argv: []string{b.python, b.script, "0", "--silent"}, Python: b.python, StateDir: b.state, Shell: b.shell}
				_, err := Start(t.Context(), b.h, l)
				if err == nil && who == "stop" {
					b.stopID(id, StopOptions{}) // its answer is that it was killed
				}
				_, hit := os.Stat(file + ".hit")
				b.h = plainHost
				if who != "stop" {
					first, err := Start(t.Context(), b.h, l)
					if err != nil {
						t.Fatalf("point %d: start again: %v", n, err)
					}
					st := b.lookID(id)
					if st.Identity != first {
						t.Fatalf("point %d: identity %+v and %+v", n, st.Identity, first)
					}
					eventually(t, "no second process", func() bool { return len(withRunID(t, id)) <= 1 })
				} else {
					var stopped *StoppedError
					if _, err := Start(t.Context(), b.h, l); err != nil && !errors.As(err, &stopped) {
						t.Fatalf("point %d: start after the stop began: %v", n, err)
					}
				}
				if _, err := b.stopID(id, StopOptions{Grace: time.Second}); err != nil {
					t.Fatalf("point %d: stop: %v", n, err)
				}
				if left := withRunID(t, id); len(left) > 0 {
					t.Fatalf("point %d: left: %v", n, left)
				}
				if hit != nil {
					break // the script ended before its n-th command
				}
				points++
			}
			t.Logf("%d points, every %d.", points, stride)
			if points*stride < 25 {
				t.Errorf("only %d points were killed", points)
			}
		})
	}
}

func bashHost(t *testing.T, home string, env ...string) Host {
	t.Helper()
	return localShell(t, home, []string{"/bin/bash"}, env...)
}
