package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"specrun/remote"
)

func TestLaunch_StartReadyStop(t *testing.T) {
	b := newBench(t)
	port := freePort(t)
	if st := b.look("l1"); st.Phase != Absent {
		t.Fatalf("before start: %v", st.Phase)
	}
	l := b.launch("l1", port)
	st := b.start(l)
	if st.Phase != Running || st.Identity.PID == 0 || st.Identity.SID != st.Identity.PID {
		t.Fatalf("after start: %+v", st)
	}
	again, err := Start(t.Context(), b.h, l)
	if err != nil || again != st.Identity {
		t.Fatalf("second start = %+v, %v; want the first one's %+v", again, err, st.Identity)
	}
	var seen []string
	ready, err := WaitReady(t.Context(), b.h, st, port, &plain{}, ReadyOptions{Timeout: 20 * time.Second, Poll: 10 * time.Millisecond,
		OnProgress: func(p Progress) { seen = append(seen, p.Milestone) }})
	if err != nil {
		t.Fatal(err)
	}
	if ready.Listener.PID != st.Identity.PID || ready.BaseURL != fmt.Sprintf("http://127.0.0.1:%d", port) {
		t.Errorf("ready = %+v, server is pid %d", ready, st.Identity.PID)
	}
	if len(seen) != 1 || seen[0] != "loading" {
		t.Errorf("milestones = %q", seen)
	}
	holder, err := PortHolder(t.Context(), b.h, port)
	if err != nil || holder == nil || holder.PID != st.Identity.PID || !strings.Contains(holder.Command, "standin.py") {
		t.Errorf("port holder = %+v, %v", holder, err)
	}
	proof, err := b.stop("l1", StopOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !proof.Terminated || len(proof.Killed) != 0 || proof.Signal != int(syscall.SIGTERM) || proof.Other != nil || proof.Port != port {
		t.Errorf("proof = %+v", proof)
	}
	if living(st.Identity.PID) {
		t.Error("the server lives on")
	}
	if st := b.look("l1"); st.Phase != Exited || st.Signal != int(syscall.SIGTERM) || !st.Stopped {
		t.Errorf("after stop: %+v", st)
	}
	if proof, err := b.stop("l1", StopOptions{}); err != nil || proof.Terminated {
		t.Errorf("second stop = %+v, %v", proof, err)
	}
}

func TestStart_StoppedLaunchNeverStarts(t *testing.T) {
	b := newBench(t)
	l := b.launch("never", freePort(t))
	if _, err := b.stopID(l.ID, StopOptions{}); err != nil {
		t.Fatal(err)
	}
	var stopped *StoppedError
	if _, err := Start(t.Context(), b.h, l); !errors.As(err, &stopped) {
		t.Fatalf("start after stop: %v", err)
	}
	if st := b.lookID(l.ID); st.Phase != Absent {
		t.Errorf("phase %v", st.Phase)
	}
}

func TestStart_ConcurrentCallsStartOneProcess(t *testing.T) {
	b := newBench(t)
	l := b.launch("race", freePort(t))
	l.Port = 0 // each call would else refuse the other's listener
	type answer struct {
		id  Identity
		err error
	}
	answers := make(chan answer)
	const calls = 6
	for range calls {
		go func() {
			id, err := Start(t.Context(), b.h, l)
			answers <- answer{id, err}
		}()
	}
	var first Identity
	for range calls {
		a := <-answers
		if a.err != nil {
			t.Error(a.err)
			continue
		}
		if first == (Identity{}) {
			first = a.id
		}
		if a.id != first {
			t.Errorf("identities %+v and %+v", a.id, first)
		}
	}
	// A launcher that came too late has the run id until it has seen that.
	eventually(t, "one process has the run id", func() bool { return len(withRunID(t, l.ID)) == 1 })
	// A launcher holds the environment, secrets included.
	eventually(t, "no launcher is left", func() bool {
		left, err := filepath.Glob(filepath.Join(b.state, "runs", l.ID, "launch.*.sh"))
		if err != nil {
			t.Fatal(err)
		}
		return len(left) == 0
	})
}

func TestStart_RefusesAndStartsNothing(t *testing.T) {
	b := newBench(t)
	envFile := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(envFile, []byte("A=1\n# note\nno assignment\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Launch){
		"cwd":      func(l *Launch) { l.Cwd = "/no/such/folder" },
		"program":  func(l *Launch) { l.Argv[0] = "/no/such/python" },
		"env_file": func(l *Launch) { l.EnvFile = envFile },
	} {
		t.Run(name, func(t *testing.T) {
			l := b.launch("refused-"+name, freePort(t))
			change(&l)
			var refused *RefusedError
			if _, err := Start(t.Context(), b.h, l); !errors.As(err, &refused) || refused.Reason != name {
				t.Fatalf("start: %v", err)
			}
			if name == "env_file" && !strings.Contains(refused.Detail, "line 3") {
				t.Errorf("detail %q names no line", refused.Detail)
			}
			if st := b.lookID(l.ID); st.Phase != Absent {
				t.Errorf("phase %v", st.Phase)
			}
		})
	}
}

func TestStart_PortHeldByStrangerIsNamedAndLeftAlone(t *testing.T) {
	b := newBench(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	var held *PortError
	if _, err := Start(t.Context(), b.h, b.launch("late", port)); !errors.As(err, &held) {
		t.Fatalf("start: %v", err)
	}
	if held.Holder.PID != os.Getpid() || held.Holder.UID != os.Getuid() || held.Holder.Address != "127.0.0.1" {
		t.Errorf("holder = %+v, want this process", held.Holder)
	}
	proof, err := b.stop("late", StopOptions{})
	if err != nil || proof.Terminated || len(proof.Killed) > 0 {
		t.Errorf("stop = %+v, %v", proof, err)
	}
}

// The scripts themselves, not only the launcher, under each shell.
func TestLaunch_UnderEachShell(t *testing.T) {
	for _, shell := range shells(t) {
		t.Run(filepath.Base(filepath.Dir(shell)), func(t *testing.T) {
			b := newBench(t)
			home := filepath.Dir(b.state)
			h := remote.Local(remote.LocalConfig{Env: []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}, Dir: home, Shell: []string{shell}})
			defer h.Close()
			b.h, b.shell = h, shell
			b.state = filepath.Join(home, "it's a \"state\" folder")
			port := freePort(t)
			owner := Owner{Launch: b.id("s1"), Controller: "test"}
			names := []string{PortLease(port), "gpu-all"}
			if err := AcquireLease(t.Context(), h, b.state, names, owner, time.Minute); err != nil {
				t.Fatal(err)
			}
			var held *HeldError
			if err := AcquireLease(t.Context(), h, b.state, []string{"gpu-0"}, Owner{Launch: "s2"}, time.Minute); !errors.As(err, &held) {
				t.Errorf("lease of a card of ours: %v", err)
			}
			st := b.start(b.launch("s1", port, "--double-fork"))
			ready, err := b.waitReady(st, port)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := Acquire(t.Context(), h, b.state, auto("s2", port, 100)); err != nil || got.Port <= port {
				t.Errorf("free port %d, %v", got.Port, err)
			}
			share := func(id string, port int) LeaseRequest {
				return sweep(id, true, []string{PortLease(port)}, SharedPatchesLease("f00d", "s1", id))
			}
			one, err := b.acquire(share("one", 7))
			if err != nil || one.Ticket == "" {
				t.Errorf("a share: %+v, %v", one, err)
			}
			if two, err := b.acquire(share("two", 9)); err != nil || len(two.Sharers) != 1 {
				t.Errorf("a second share: %+v, %v", two, err)
			}
			for i, id := range []string{"one", "two"} {
				if other, err := LastHolder(t.Context(), h, b.state, []string{PatchesLease("f00d")}, Owner{Launch: id}, time.Minute); err != nil || (other == nil) != (i == 1) {
					t.Errorf("%s is the last: %+v, %v", id, other, err)
				}
				if err := ReleaseLaunch(t.Context(), h, b.state, id); err != nil {
					t.Error(err)
				}
			}
			if marks, err := Marks(t.Context(), h, b.state); err != nil || len(marks) > 0 {
				t.Errorf("marks: %v, %v", marks, err)
			}
			if env, err := Environ(t.Context(), h, st.Identity); err != nil || env["SPECRUN_RUN_ID"] != b.id("s1") {
				t.Errorf("environment: %v", err)
			}
			if _, err := LoginEnv(t.Context(), h); err != nil {
				t.Error(err)
			}
			proof, err := b.stop("s1", StopOptions{Grace: 100 * time.Millisecond})
			if err != nil || len(proof.Killed) != 1 || living(ready.Listener.PID) || proof.Other != nil {
				t.Errorf("proof = %+v, %v", proof, err)
			}
			if err := ReleaseLease(t.Context(), h, b.state, names, owner); err != nil {
				t.Error(err)
			}
		})
	}
}
