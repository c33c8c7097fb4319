package server

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"specrun/remote"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func writeFile(path, text string) error { return os.WriteFile(path, []byte(text), 0o600) }

func itoa(n int) string { return strconv.Itoa(n) }

func lines(text string) []remote.Line { return remote.Lines([]byte(text)) }

func TestDeath_Cause(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		signal       int
		kind, text   string
	}{
		{"killed for memory, by the control group", "oom host 3 5\noom group 0 2\nkernel [12.5] Killed process 77 (python)\n", 9, KindHostOOM, "2 in the control group"},
		{"its child was, or anybody", "oom host 3 4\noom group - -\n", 0, KindHostOOM, "maybe one of its processes"},
		{"its child was, by the control group", "oom host 3 4\noom group 0 1\n", 0, KindHostOOM, "1 in the control group"},
		{"itself, by the machine", "oom host 3 4\noom group - -\n", 9, KindHostOOM, "1 on the machine"},
		{"somebody else was killed for memory", "oom host 3 4\noom group 1 1\nkernel Killed process 9 (other)\n", 9, KindSigkill, "SIGKILL"},
		{"this kernel does not count", "oom host - -\noom group - -\n", 9, KindSigkill, "SIGKILL"},
		{"a fault at a time when somebody was killed", "oom host 3 4\noom group - -\n", 11, KindSignal, "SIGSEGV (11)"},
		{"no room for its log", "full the folder of its log /x (file system /: 0 KiB, 12 files free)\n", 0, KindDiskFull, "/x"},
		{"stopped", "stopped 1\n", 9, KindSigkill, "by a stop"},
		{"just ended", "oom host 1 1\n", 0, "", ""},
		{"realtime signal", "", 34, KindSignal, "signal 34"},
	} {
		got := parseDeath(lines(c.answer)).Cause(c.signal)
		switch {
		case c.kind == "" && got != nil:
			t.Errorf("%s: %+v", c.name, got)
		case got != nil && got.Unsure != strings.HasPrefix(got.Evidence, "maybe"):
			t.Errorf("%s: %+v: unsure is said, and only that", c.name, got)
		case c.kind != "" && (got == nil || got.Kind != c.kind || !strings.Contains(got.Evidence, c.text)):
			t.Errorf("%s: %+v, want %s with %q", c.name, got, c.kind, c.text)
		}
	}
}

func TestCrash_With(t *testing.T) {
	oom := &Cause{Kind: KindHostOOM, Evidence: "killed"}
	maybe := &Cause{Kind: KindHostOOM, Evidence: "maybe", Unsure: true}
	for _, c := range []struct {
		crash *Crash
		cause *Cause
		want  string
	}{
		{nil, nil, ""},
		{nil, oom, KindHostOOM},
		{nil, maybe, ""}, // somebody else may have been killed
		{&Crash{Kind: "scheduler_exception", Evidence: "ValueError"}, maybe, "scheduler_exception"},
		{&Crash{Kind: KindSigkill, Evidence: "worker died with -9"}, maybe, KindHostOOM}, // that its own was, says its log
		{&Crash{Kind: "scheduler_exception", Evidence: "Killed"}, maybe, KindHostOOM},
		{&Crash{Kind: "cuda_oom"}, oom, "cuda_oom"},   // the first cause
		{&Crash{Kind: KindSigkill}, oom, KindHostOOM}, // who killed it
		{&Crash{Kind: "scheduler_exception", Evidence: "Segmentation fault (core dumped)"}, &Cause{Kind: KindSignal}, KindSignal},
		{&Crash{Kind: "scheduler_exception"}, nil, "scheduler_exception"},
		{&Crash{Kind: "scheduler_exception"}, &Cause{Kind: KindSigkill}, "scheduler_exception"}, // engines end themselves so
	} {
		got := ""
		if x := c.crash.With(c.cause); x != nil {
			got = x.Kind
		}
		if got != c.want {
			t.Errorf("%+v with %+v: %s, want %s", c.crash, c.cause, got, c.want)
		}
	}
}

// The counters of the launch are those from before it began.
func TestAutopsy_CountsFromTheStart(t *testing.T) {
	b := newBench(t)
	port := freePort(t)
	_, err := b.waitReady(b.start(b.launch("dies", port, "--kill", "9")), port)
	var exited *ExitedError
	if !errors.As(err, &exited) || exited.Kind() != KindSigkill {
		t.Fatalf("err = %#v", err)
	}
	path := filepath.Join(b.state, "runs", b.id("dies"), "oom")
	raw, err := os.ReadFile(path)
	must(t, err)
	f := strings.Fields(string(raw))
	if len(f) < 2 {
		t.Fatalf("counters %q", raw)
	}
	before, err := strconv.Atoi(f[0])
	if err != nil {
		t.Skipf("Linux before 4.13 does not count kills for want of memory: %q", raw)
	}
	must(t, writeFile(path, strconv.Itoa(before-1)+" - /nowhere\n"))
	d, err := Autopsy(t.Context(), b.h, b.state, b.id("dies"))
	if err != nil || !strings.Contains(d.OutOfMemory, "1 on the machine") {
		t.Errorf("%+v, %v", d, err)
	}
}

// A stop that names no grace waits as long as the launch asked for.
func TestStop_GraceOfTheLaunch(t *testing.T) {
	b := newBench(t)
	port := freePort(t)
	l := b.launch("short", port, "--ignore-term")
	l.Grace = 50_000_000 // ns
	if _, err := b.waitReady(b.start(l), port); err != nil {
		t.Fatal(err)
	}
	p, err := b.stop("short", StopOptions{})
	if err != nil || !p.Terminated || p.Signal != 9 {
		t.Fatalf("%+v, %v", p, err)
	}
}

func TestExitedError_LastLines(t *testing.T) {
	e := &ExitedError{Host: "h", Code: 1, Tail: "first\n\nValueError: x\r\n 10%|\r 100%|\nlast\n"}
	if got := e.Error(); got != "h: server exited with status 1 before it was ready: ValueError: x\n  100%|\n  last" {
		t.Errorf("%q", got)
	}
}
