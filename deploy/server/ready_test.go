package server

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestWaitReady_ProcessThatExitsFailsAtOnce(t *testing.T) {
	b := newBench(t)
	port := freePort(t)
	_, err := b.waitReady(b.start(b.launch("exit1", port, "--exit", "1")), port)
	var exited *ExitedError
	if !errors.As(err, &exited) || exited.Code != 1 || exited.Signal != 0 {
		t.Fatalf("err = %#v", err)
	}
	if !strings.Contains(exited.Tail, "something was wrong") || !strings.Contains(err.Error(), "something was wrong") {
		t.Errorf("error %q, tail %q", err, exited.Tail)
	}
}

func TestWaitReady_ProcessEndedBySignal(t *testing.T) {
	b := newBench(t)
	port := freePort(t)
	_, err := b.waitReady(b.start(b.launch("kill9", port, "--kill", "9")), port)
	var exited *ExitedError
	if !errors.As(err, &exited) || exited.Signal != 9 || exited.Code != -1 {
		t.Fatalf("err = %#v", err)
	}
}

func TestWaitReady_CrashSignFailsThoughTheProcessLives(t *testing.T) {
	b := newBench(t)
	port := freePort(t)
	st := b.start(b.launch("crash", port, "--crash"))
	_, err := b.waitReady(st, port)
	var crash *CrashError
	if !errors.As(err, &crash) || crash.Crash.Kind != "cuda_oom" || crash.Crash.Evidence != "CRASH: no memory" {
		t.Fatalf("err = %#v", err)
	}
	if !living(st.Identity.PID) {
		t.Error("waiting ended the process")
	}
}

func TestWaitReady_SilentServerStalls(t *testing.T) {
	b := newBench(t)
	port := freePort(t)
	st := b.start(b.launch("silent", port, "--silent"))
	_, err := WaitReady(t.Context(), b.h, st, port, &plain{}, ReadyOptions{Timeout: time.Minute, Stall: 200 * time.Millisecond, Poll: 10 * time.Millisecond})
	var stalled *StalledError
	if !errors.As(err, &stalled) || strings.Contains(err.Error(), "probe") {
		t.Fatalf("err = %#v", err)
	}
	stalled.Probe = errors.New("/v1/completions answers 503: no")
	if !strings.HasSuffix(err.Error(), "; the last probe: /v1/completions answers 503: no") {
		t.Errorf("what it answers is not said: %v", err)
	}
}

func TestWaitReady_BusyServerTimesOut(t *testing.T) {
	b := newBench(t)
	port := freePort(t)
	st := b.start(b.launch("chatty", port, "--chatty"))
	_, err := WaitReady(t.Context(), b.h, st, port, &plain{}, ReadyOptions{Timeout: 500 * time.Millisecond, Poll: 10 * time.Millisecond})
	var late *NotReadyError
	if !errors.As(err, &late) || late.Milestone != "loading" {
		t.Fatalf("err = %#v", err)
	}
}

// A marker without a listener of ours is not readiness.
func TestWaitReady_MarkerWithoutListener(t *testing.T) {
	b := newBench(t)
	port := freePort(t)
	st := b.start(b.launch("early", port, "--early-marker"))
	_, err := WaitReady(t.Context(), b.h, st, port, &plain{}, ReadyOptions{Timeout: 700 * time.Millisecond, Poll: 10 * time.Millisecond})
	var late *NotReadyError
	if !errors.As(err, &late) {
		t.Fatalf("err = %#v", err)
	}
}

// The old server answers every probe well; only the owner of the socket shows
// that it is not ours.
func TestWaitReady_OldServerOnThePortIsNotOurs(t *testing.T) {
	b := newBench(t)
	port := freePort(t)
	old := b.start(b.launch("old", port))
	if _, err := b.waitReady(old, port); err != nil {
		t.Fatal(err)
	}
	l := b.launch("new", port, "--early-marker")
	l.Port = 0 // past the check at the start, as if it had come up in between
	_, err := b.waitReady(b.start(l), port)
	var held *PortError
	if !errors.As(err, &held) || held.Holder.PID != old.Identity.PID {
		t.Fatalf("err = %v, old server is pid %d", err, old.Identity.PID)
	}
	if _, err := b.stop("new", StopOptions{Grace: 5 * time.Second}); err != nil {
		t.Fatal(err)
	}
	if !living(old.Identity.PID) {
		t.Error("the stranger was ended")
	}
}

func TestWaitReady_MarkerBeforeAFailedBind(t *testing.T) {
	b := newBench(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	launch := b.launch("bind", port, "--bind-fails")
	launch.Port = 0
	_, err = b.waitReady(b.start(launch), port)
	var held *PortError
	var exited *ExitedError
	switch {
	case errors.As(err, &held) && held.Holder.PID == os.Getpid():
	case errors.As(err, &exited) && exited.Code == 1:
	default:
		t.Fatalf("err = %#v", err)
	}
}

// A health check that makes one token runs no decode cycle.
func TestWaitReady_GenerationThatIsTooShortIsNotReady(t *testing.T) {
	b := newBench(t)
	port := freePort(t)
	st := b.start(b.launch("dumb", port, "--dumb"))
	var notes []string
	_, err := WaitReady(t.Context(), b.h, st, port, &plain{}, ReadyOptions{Timeout: 1500 * time.Millisecond, Poll: 10 * time.Millisecond,
		OnProgress: func(p Progress) {
			if p.Note != "" {
				notes = append(notes, p.String())
			}
		}})
	if len(notes) != 1 || !strings.Contains(notes[0], "does not serve yet: ") || !strings.Contains(notes[0], "no 16 tokens") {
		t.Errorf("said meanwhile: %q", notes) // once, however often it is tried
	}
	var late *NotReadyError
	if !errors.As(err, &late) || late.Probe == nil || !strings.Contains(err.Error(), "no 16 tokens") {
		t.Fatalf("err = %v", err)
	}
}

func TestBaseURL(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1": "http://127.0.0.1:80", "0.0.0.0": "http://127.0.0.1:80", "::": "http://127.0.0.1:80",
		"10.0.0.5": "http://10.0.0.5:80", "::1": "http://[::1]:80",
	} {
		if got := baseURL(addr, 80); got != want {
			t.Errorf("baseURL(%q) = %q, want %q", addr, got, want)
		}
	}
}

func TestProcAddr(t *testing.T) {
	for raw, want := range map[string]string{
		"0100007F": "127.0.0.1", "00000000": "0.0.0.0",
		"00000000000000000000000001000000": "::1", "0000000000000000FFFF00000100007F": "127.0.0.1",
	} {
		if got, err := procAddr(raw); err != nil || got.String() != want {
			t.Errorf("procAddr(%s) = %v, %v; want %s", raw, got, err, want)
		}
	}
	if _, err := procAddr("01"); err == nil {
		t.Error("a short address was taken")
	}
}

// fakeSMI puts an nvidia-smi in front of PATH that prints what two files hold:
// apps, and b.cards, whose lines are "index, uuid, MiB"; -L prints the file "list"
// beside it.
func fakeSMI(t *testing.T, b *bench) (apps string) {
	t.Helper()
	dir := t.TempDir()
	apps = filepath.Join(dir, "apps")
	b.cards = filepath.Join(dir, "cards")
	if err := os.WriteFile(b.cards, []byte("0, GPU-a, 3\n1, GPU-b, 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := "#!/bin/sh\ncase $1 in\n*query-gpu*) cat " + b.cards + " ;;\n-L) cat " + dir + "/list ;;\n*) cat " + apps + " ;;\nesac\n"
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(apps, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.h = localHost(t, filepath.Dir(b.state), "PATH="+dir+":"+os.Getenv("PATH"))
	return apps
}

func TestStart_BusyGPUIsNamed(t *testing.T) {
	b := newBench(t)
	apps := fakeSMI(t, b)
	line := strconv.Itoa(os.Getpid()) + ", GPU-b, 70000, python serve, other\n"
	if err := os.WriteFile(apps, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	l := b.launch("gpu", freePort(t))
	l.GPUs = []string{"all"}
	var busy *GPUBusyError
	if _, err := Start(t.Context(), b.h, l); !errors.As(err, &busy) {
		t.Fatalf("start: %v", err)
	}
	if len(busy.Holders) != 1 || busy.Holders[0].PID != os.Getpid() || busy.Holders[0].GPU != "GPU-b" || busy.Holders[0].MiB != "70000" || busy.Holders[0].Command != "python serve, other" {
		t.Errorf("holders = %+v", busy.Holders)
	}
	l.GPUs = []string{"0"} // the other card
	b.start(l)
	b.sees("gpu", "CUDA_VISIBLE_DEVICES", "0")
}
