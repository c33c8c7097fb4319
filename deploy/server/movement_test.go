package server

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"specrun/remote"
)

func TestMovement(t *testing.T) {
	begin := time.Unix(1000, 0)
	looks := func(step time.Duration, uses ...Used) (m Movement, last time.Time) {
		now := begin
		for i := range uses {
			now = now.Add(step)
			m.See(State{Used: &uses[i]}, now)
		}
		return m, m.Last(begin)
	}
	one := func(u Used) []Used {
		u.Processes = 1
		return []Used{{Processes: 1, GPUMiB: 100}, {Processes: 1, CPU: u.CPU, Read: u.Read, Disk: u.Disk, Written: u.Written, GPUMiB: 100 + u.GPUMiB}}
	}
	for _, c := range []struct {
		name  string
		use   Used
		moves bool
		says  string
	}{
		{"nothing", Used{}, false, "do nothing"},
		{"a watchdog that wakes up", Used{CPU: 40 * time.Millisecond, Read: 20_000}, false, "do nothing"},
		{"computes", Used{CPU: 8 * time.Second}, true, "0.8 cores busy"},
		{"reads a cached file", Used{Read: 12 << 30, CPU: time.Second}, true, "reads 1.29 GB/s"},
		{"reads a mapped file", Used{Disk: 1 << 30}, true, "reads 107 MB/s"},
		{"compiles into a cache", Used{Written: 4 << 20}, true, "writes 419 kB/s"},
		{"fills the GPU", Used{GPUMiB: 2048}, true, "GPU memory +2.0 GiB"},
		{"a process has ended", Used{CPU: -time.Second}, true, ""},
	} {
		m, last := looks(10*time.Second, one(c.use)...)
		if moved := last.Equal(begin.Add(20 * time.Second)); moved != c.moves || !strings.Contains(m.Doing(), c.says) {
			t.Errorf("%s: moved %v (want %v), %q (want %q)", c.name, moved, c.moves, m.Doing(), c.says)
		}
	}
	// What is too little between two looks is too little in the sum.
	var slow []Used
	for i := range 100 {
		slow = append(slow, Used{Processes: 1, CPU: time.Duration(i/10) * 10 * time.Millisecond})
	}
	if _, last := looks(time.Second, slow...); !last.Equal(begin.Add(time.Second)) {
		t.Errorf("0.1 %% of a core counts as work, %v after the beginning", last.Sub(begin))
	}
	m := Movement{}
	m.See(State{}, begin)
	if m.Doing() != "no process of it is seen" {
		t.Errorf("%q", m.Doing())
	}
}

func TestProgress_String(t *testing.T) {
	for want, p := range map[string]Progress{
		"weights loaded": {Milestone: "weights loaded"},
		"loading weights; log silent for 3m0s, reads 1.2 GB/s": {Milestone: "loading weights", Silent: 3*time.Minute + 200*time.Millisecond, Doing: "reads 1.2 GB/s"},
		"log silent for 2s, its processes do nothing":          {Silent: 2 * time.Second, Doing: "its processes do nothing"},
		"its log was cut": {Milestone: "loading", Note: "its log was cut"},
	} {
		if got := p.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Work without a word is no stall: it is seen in CPU time and bytes.
func TestWaitReady_SilentWorkIsNoStall(t *testing.T) {
	b := newBench(t)
	port := freePort(t)
	enough, stall := filepath.Join(t.TempDir(), "enough"), time.Second
	st := b.start(b.launch("works", port, "--work", enough))
	told := false
	var seen []string
	_, err := WaitReady(t.Context(), b.h, st, port, &plain{}, ReadyOptions{Timeout: time.Minute, Stall: stall, Poll: 10 * time.Millisecond,
		OnProgress: func(p Progress) {
			seen = append(seen, p.String())
			told = told || p.Silent > stall && strings.Contains(p.String(), "log silent for") && strings.Contains(p.Doing, "busy") && strings.Contains(p.Doing, "reads ")
			if told {
				must(t, writeFile(enough, ""))
			}
		}})
	if err != nil || !told {
		t.Fatalf("err = %v; %q", err, seen)
	}
}

// suspecting is a Readiness that knows a line which may be the cause of an end.
type suspecting struct {
	plain
	text string
}

func (s *suspecting) Observe(chunk []byte) Observation {
	s.text += string(chunk)
	return s.plain.Observe(chunk)
}

func (s *suspecting) Suspect() *Crash {
	if strings.Contains(s.text, "no memory") {
		return &Crash{Kind: "cuda_oom", Evidence: "no memory"}
	}
	return nil
}

// The cause is what its log said, not that nothing came behind it.
func TestWaitReady_SuspectThatHangsIsTheCause(t *testing.T) {
	b := newBench(t)
	port := freePort(t)
	st := b.start(b.launch("suspect", port, "--say", "no memory", "--silent"))
	_, err := WaitReady(t.Context(), b.h, st, port, &suspecting{}, ReadyOptions{Timeout: time.Minute, Stall: time.Second, Poll: 10 * time.Millisecond})
	var crash *CrashError
	if !errors.As(err, &crash) || crash.Crash.Kind != "cuda_oom" {
		t.Fatalf("err = %#v", err)
	}
}

// A server whose log comes in blocks generates before its marker is to be seen.
func TestWaitReady_BlockBufferedLogNeedsNoMarker(t *testing.T) {
	b := newBench(t)
	port := freePort(t)
	st := b.start(b.launch("block", port, "--no-marker"))
	ready, err := WaitReady(t.Context(), b.h, st, port, &plain{}, ReadyOptions{Timeout: time.Minute, Stall: 3 * time.Second, Poll: 10 * time.Millisecond})
	if err != nil || !ready.Unmarked || ready.Listener.PID != st.Identity.PID {
		t.Fatalf("%+v, %v", ready, err)
	}
}

func TestLookClosely_NamesListenersAndEndedChildren(t *testing.T) {
	b := newBench(t)
	apps := fakeSMI(t, b)
	port := freePort(t)
	st := b.start(b.launch("close", port, "--zombie"))
	if _, err := b.waitReady(st, port); err != nil {
		t.Fatal(err)
	}
	must(t, writeFile(apps, strings.Join([]string{itoa(st.Identity.PID) + ", GPU-a, 700, python", "1, GPU-a, 50, other", ""}, "\n")))
	got, err := LookClosely(t.Context(), b.h, b.state, st.Launch, port, true)
	if err != nil {
		t.Fatal(err)
	}
	if got.Used == nil || got.Used.Processes != 1 || got.Used.CPU <= 0 || got.Used.Read <= 0 || got.Used.GPUMiB != 700 {
		t.Errorf("used %+v", got.Used)
	}
	if len(got.Ended) != 1 || !strings.Contains(got.Ended[0].Name, "python") {
		t.Errorf("ended %+v", got.Ended)
	}
	if got.Listener == nil || got.Listener.PID != st.Identity.PID || got.Listener.Socket == "" || !got.Listens(got.Listener.Socket) || got.Listens("1") {
		t.Errorf("listener %+v", got.Listener)
	}
	if got.LogFile == "" || got.LogFile == "-" {
		t.Errorf("log file %q", got.LogFile)
	}
	// Without being asked it costs nothing.
	if plainly := b.look("close"); plainly.Used != nil || plainly.Listener != nil || plainly.LogFile != got.LogFile {
		t.Errorf("a plain look: %+v", plainly)
	}
}

// The scripts count alike under every shell and with every awk there is.
func TestScripts_UsedUnderEveryShell(t *testing.T) {
	b := newBench(t)
	st := b.start(b.launch("shells", freePort(t)))
	for _, shell := range shells(t) {
		h := remote.Local(remote.LocalConfig{Shell: []string{shell}, Dir: t.TempDir()})
		got, err := LookClosely(t.Context(), h, b.state, st.Launch, 0, true)
		if err != nil || got.Used == nil || got.Used.Processes != 1 || got.Used.Read <= 0 {
			t.Errorf("%s: %+v, %v", shell, got.Used, err)
		}
		if d, err := Autopsy(t.Context(), h, b.state, st.Launch); err != nil || d.Stopped || d.Rebooted || d.OutOfMemory != "" {
			t.Errorf("%s: %+v, %v", shell, d, err)
		}
		h.Close()
	}
}
