//go:build integration

package server

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"specrun/internal/tier"
)

// script writes a program of the test's user.
func (b *bench) program(name, text string) string {
	b.t.Helper()
	path := filepath.Join(b.t.TempDir(), name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// briefly is how long one that leaves no server behind is waited for.
const briefly = 50 * time.Millisecond

func (b *bench) byCommand(name string, port int, c Commands, switches ...string) Launch {
	l := b.launch(name, port, switches...)
	l.Commands = &c
	return l
}

// A start command that stays is the server, or its parent.
func TestCommand_ThatStays(t *testing.T) {
	for _, shell := range shells(t)[:tier.Size(1, 3)] {
		t.Run(filepath.Base(filepath.Dir(shell)), func(t *testing.T) {
			b := newBench(t)
			b.shell = shell
			port := freePort(t)
			record, said := filepath.Join(t.TempDir(), "record"), filepath.Join(t.TempDir(), "said")
			start := b.program("start", `printf '%s\n' "$SPECRUN_RUN_ID" "$SPECRUN_PORT" "$SPECRUN_LOG" "$CUDA_VISIBLE_DEVICES" "$LAYER" "$(pwd)" "$1" >`+said+`
printf '%s' "$SPECRUN_ARGV" >`+said+`.argv
shift
"$@" # a child of the command, as srun or make would have it`)
			l := b.byCommand("l1", port, Commands{Start: []string{start, "port=${port}", ArgvWord}}, "--record", record, "--", "two words", "$HOME", "")
			l.Cwd, l.GPUs = t.TempDir(), []string{"1"}
			l.Env, l.HostEnv = map[string]string{"LAYER": "env"}, map[string]string{"LAYER": "host"}
			st := b.start(l)
			ready, err := b.waitReady(st, port)
			if err != nil {
				t.Fatal(err)
			}
			if ready.Listener.PID == st.Identity.PID {
				t.Errorf("the listener %+v is the command itself", ready.Listener)
			}
			want := strings.Join([]string{l.ID, itoa(port), st.LogPath, "1", "env", l.Cwd, "port=" + itoa(port)}, "\n") + "\n"
			if got, err := os.ReadFile(said); err != nil || string(got) != want {
				t.Errorf("the command saw %q, %v; want %q", got, err, want)
			}
			if got, err := os.ReadFile(said + ".argv"); err != nil || string(got) != strings.Join(l.Argv, "\n") {
				t.Errorf("SPECRUN_ARGV %q, %v", got, err)
			}
			if got := readRecorded(t, record); !slices.Equal(got.Argv, l.Argv[1:]) {
				t.Errorf("argv %q", got.Argv)
			}
			proof, err := b.stop("l1", StopOptions{Grace: 5 * time.Second})
			if err != nil || !proof.Terminated || living(ready.Listener.PID) || living(st.Identity.PID) {
				t.Errorf("proof %+v, %v", proof, err)
			}
		})
	}
}

// A start command that ends well has left the server behind.
func TestCommand_ThatLeavesAServer(t *testing.T) {
	for name, text := range map[string]string{
		// As a daemon does: the run id in its environment shows it.
		"environment": `setsid "$@" </dev/null >>"$SPECRUN_LOG" 2>&1 &
sleep 0.2`,
		// As a supervisor does, whose children have its own environment.
		"printed pid": `env -u SPECRUN_RUN_ID setsid "$@" </dev/null >>"$SPECRUN_LOG" 2>&1 &
echo "server started"
echo $!`,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			port := freePort(t)
			l := b.byCommand("l1", port, Commands{Start: []string{b.program("start", text), ArgvWord}})
			st := b.start(l)
			ready, err := b.waitReady(st, port)
			if err != nil {
				t.Fatal(err)
			}
			var now State // until the command has ended, that is the launch's process
			eventually(t, "the server is the launch's process", func() bool {
				now = b.look("l1")
				return now.Phase == Running && now.Identity.PID == ready.Listener.PID
			})
			if again, err := Start(t.Context(), b.h, l); err != nil || again != now.Identity {
				t.Errorf("second start %+v, %v", again, err)
			}
			proof, err := b.stop("l1", StopOptions{})
			if err != nil || !proof.Terminated || living(ready.Listener.PID) {
				t.Errorf("proof %+v, %v", proof, err)
			}
		})
	}
}

func TestCommand_ThatLeavesNothingOrFails(t *testing.T) {
	b := newBench(t)
	for name, c := range map[string]struct {
		text string
		code int
		tail string
	}{
		"nothing": {"echo done", 0, "no line of its output is alone the pid of one"},
		"fails":   {"echo no node is free >&2; exit 7", 7, "no node is free"},
	} {
		port := freePort(t)
		l := b.byCommand(name, port, Commands{Start: []string{b.program("start", c.text)}})
		l.adopt = briefly
		st := b.start(l)
		_, err := b.waitReady(st, port)
		var exited *ExitedError
		if !errors.As(err, &exited) || exited.Code != c.code || !strings.Contains(exited.Tail, c.tail) {
			t.Errorf("%s: %v", name, err)
		} else if exited.Start = true; !strings.Contains(err.Error(), "the start command (server.commands.start) ended with status "+itoa(c.code)) {
			t.Errorf("%s: not said of the command: %v", name, err)
		}
		if _, err := b.stop(name, StopOptions{}); err != nil {
			t.Error(err)
		}
	}
}

// A number alone on a line may be anything: a process that ran before is nobody's
// server, and the stop leaves it alone.
func TestCommand_PrintsThePidOfAStranger(t *testing.T) {
	b := newBench(t)
	stranger, began := sleeper(t), time.Now()
	// The kernel tells the start of a process in hundredths of a second.
	eventually(t, "it is older", func() bool { return time.Since(began) > 20*time.Millisecond })
	port := freePort(t)
	l := b.byCommand("l1", port, Commands{Start: []string{b.program("start", "echo "+itoa(stranger))}})
	l.adopt = briefly
	st := b.start(l)
	var exited *ExitedError
	if _, err := b.waitReady(st, port); !errors.As(err, &exited) {
		t.Errorf("ready: %v", err)
	}
	if now := b.look("l1"); now.Phase != Exited || now.Identity.PID == stranger {
		t.Errorf("state %+v", now)
	}
	if _, err := b.stop("l1", StopOptions{Grace: 100 * time.Millisecond}); err != nil || !living(stranger) {
		t.Errorf("stop: %v; the stranger lives: %v", err, living(stranger))
	}
}

// The user's stop ends what signals would not, and what it leaves is ended too.
func TestCommand_Stop(t *testing.T) {
	b := newBench(t)
	port := freePort(t)
	told := filepath.Join(t.TempDir(), "told")
	stop := b.program("stop", `echo "$SPECRUN_RUN_ID $SPECRUN_PID $SECRET" >`+told+`; kill -s KILL "$SPECRUN_PID"`)
	l := b.byCommand("l1", port, Commands{Start: []string{ArgvWord}, Stop: []string{stop}}, "--ignore-term")
	l.Env, l.HostEnv = map[string]string{"SECRET": "sesame"}, map[string]string{"HOST": "1"}
	st := b.start(l)
	if _, err := b.waitReady(st, port); err != nil {
		t.Fatal(err)
	}
	if kept, err := os.ReadFile(st.Dir + "/commands"); err != nil || strings.Contains(string(kept), "sesame") {
		t.Errorf("kept for the stop: %q, %v", kept, err)
	}
	proof, err := b.stop("l1", StopOptions{Grace: 30 * time.Second})
	if err != nil || len(proof.Killed) > 0 || proof.Signal != 9 || len(proof.Notes) > 0 {
		t.Errorf("proof %+v, %v", proof, err)
	}
	if _, err := os.Stat(st.Dir + "/commands"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the host's environment is kept for ever: %v", err)
	}
	if got, err := os.ReadFile(told); err != nil || string(got) != l.ID+" "+itoa(st.Identity.PID)+" \n" {
		t.Errorf("the stop command saw %q, %v", got, err)
	}
}

// A stop command that does nothing, one that fails, and one that never ends.
func TestCommand_StopThatDoesNotStop(t *testing.T) {
	for name, text := range map[string]string{"lazy": ":", "fails": "exit 3", "hangs": "sleep 600"} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			port := freePort(t)
			st := b.start(b.byCommand(name, port, Commands{Start: []string{ArgvWord}, Stop: []string{b.program("stop", text)}}, "--ignore-term"))
			if _, err := b.waitReady(st, port); err != nil {
				t.Fatal(err)
			}
			proof, err := b.stop(name, StopOptions{Grace: 200 * time.Millisecond})
			if err != nil || len(proof.Killed) == 0 || living(st.Identity.PID) || (len(proof.Notes) > 0) != (name != "lazy") {
				t.Errorf("proof %+v, %v", proof, err)
			}
			if left := withRunID(t, b.id(name)); len(left) > 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

// Status is asked where specrun cannot know: before anything was started, and when
// nothing of ours is left.
func TestCommand_Status(t *testing.T) {
	b := newBench(t)
	running := filepath.Join(t.TempDir(), "running")
	status := b.program("status", "test -e "+running)
	c := Commands{Start: []string{ArgvWord}, Status: []string{status}}
	must(t, writeFile(running, ""))
	var refused *RefusedError
	if _, err := Start(t.Context(), b.h, b.byCommand("before", freePort(t), c)); !errors.As(err, &refused) || refused.Reason != "running" {
		t.Errorf("a server that runs already: %v", err)
	}
	must(t, os.Remove(running))
	b.start(b.byCommand("l1", freePort(t), c))
	must(t, writeFile(running, ""))
	if proof, err := b.stop("l1", StopOptions{}); err != nil || len(proof.Notes) != 1 || !strings.Contains(proof.Notes[0], "still runs") {
		t.Errorf("proof %+v, %v", proof, err)
	}
}
