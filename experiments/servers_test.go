package experiments

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"specrun/deploy/server"
	"specrun/remote"
)

// machine is this machine as a host with a state folder of its own.
type machine struct {
	*remote.Host
	t     *testing.T
	dir   string
	state string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	dir := t.TempDir()
	m := &machine{t: t, dir: dir, state: filepath.Join(dir, "state"),
		Host: remote.Local(remote.LocalConfig{Name: "here", Dir: dir, Env: []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}})}
	t.Cleanup(func() { m.Close() })
	return m
}

func (m *machine) file(name, text string) string {
	m.t.Helper()
	path := filepath.Join(m.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
	return path
}

// talker starts a process that says one, waits for the file "go", says two and
// ends.
func (m *machine) talker(about string) string {
	m.t.Helper()
	id := fmt.Sprintf("talker-%d-%x", os.Getpid(), rand.Uint64())
	_, err := server.Start(m.t.Context(), m, server.Launch{ID: id, StateDir: m.state, Cwd: m.dir, About: about,
		Argv: []string{"/bin/sh", "-c", "echo one; until [ -e go ]; do sleep 0.01; done; echo two"}})
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() {
		h := remote.Local(remote.LocalConfig{})
		defer h.Close()
		if _, err := StopServer(context.Background(), h, m.state, id, 10*time.Millisecond); err != nil {
			m.t.Errorf("clean up: %v", err)
		}
	})
	return id
}

func (m *machine) servers() []RunningServer {
	m.t.Helper()
	all, err := Servers(m.t.Context(), m, m.state)
	if err != nil {
		m.t.Fatal(err)
	}
	return all
}

func TestServers_SayWhatWasStartedAndWhetherItsFilesChanged(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	patched := m.file("worker.py", "patched\n")
	id := m.talker(`{"experiment":"x","sweep":"sw1","params":{"steps":3},"patches":[{"name":"profiling-v4","version":"1","sha256":"ab"}],` +
		`"files":{"` + patched + `":"` + digest([]byte("patched\n")) + `"}}`)
	one := func() RunningServer {
		t.Helper()
		all := m.servers()
		if len(all) != 1 {
			t.Fatalf("%d servers: %+v", len(all), all)
		}
		return all[0]
	}
	s := one()
	if s.Launch != id || s.Experiment != "x" || s.Sweep != "sw1" || s.Params["steps"] != int64(3) || len(s.Patches) != 1 || s.State != ServerRunning || s.Identity.PID == 0 {
		t.Errorf("%+v", s)
	}
	if s.PatchLive == nil || !*s.PatchLive {
		t.Error("its files are as they were when it was started")
	}
	m.file("worker.py", "pristine\n")
	if s = one(); s.PatchLive == nil || *s.PatchLive {
		t.Error("its files have changed")
	}
	if err := os.Remove(patched); err != nil {
		t.Fatal(err)
	}
	if s = one(); s.PatchLive == nil || *s.PatchLive {
		t.Error("its file is gone")
	}
}

// A controller that renews the leases works with the server; one that is known
// to be dead does not, and a server whose leases were left has none.
func TestServers_WhoWorksWithIt(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	id := m.talker("")
	if s := m.servers()[0]; s.PatchLive != nil || s.Controller != "" || s.Experiment != "" {
		t.Errorf("nothing is known of it: %+v", s)
	}
	gone := deadController()
	for who, want := range map[string]string{Controller(): Controller(), gone: "", "pid 1 on another-machine [b 1 m 4]": "pid 1 on another-machine [b 1 m 4]"} {
		owner := server.Owner{Launch: id, Controller: who}
		if err := server.AcquireLease(t.Context(), m, m.state, []string{"gpu-all"}, owner, time.Minute); err != nil {
			t.Fatal(err)
		}
		if s := m.servers()[0]; s.Controller != want {
			t.Errorf("leased by %s: %q", who, s.Controller)
		}
		if err := server.LeaveLease(t.Context(), m, m.state, []string{"gpu-all"}, owner); err != nil {
			t.Fatal(err)
		}
		if s := m.servers()[0]; s.Controller != "" {
			t.Errorf("left by %s: %q", who, s.Controller)
		}
		if err := server.ReleaseLease(t.Context(), m, m.state, []string{"gpu-all"}, owner); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStopServer_GivesItsLeasesBack(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	id := m.talker("")
	for launch, name := range map[string]string{id: "gpu-0", "other": "gpu-1"} {
		if err := server.AcquireLease(t.Context(), m, m.state, []string{name}, server.Owner{Launch: launch}, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	proof, err := StopServer(t.Context(), m, m.state, id, time.Second)
	if err != nil || proof.Identity.PID == 0 || len(m.servers()) != 0 {
		t.Fatalf("%+v, %v", proof, err)
	}
	left, err := server.Leases(t.Context(), m, m.state)
	if err != nil || len(left) != 1 || left[0].Owner.Launch != "other" {
		t.Errorf("left: %+v, %v", left, err)
	}
}

func TestReleaseDeadLeases_OnlyWhatNothingStandsBehind(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	id := m.talker("")
	gone := deadController()
	for name, owner := range map[string]server.Owner{
		"gpu-0": {Launch: id, Controller: gone},                 // its server lives
		"gpu-1": {Launch: "starting", Controller: Controller()}, // no server yet
		"gpu-2": {Launch: "dead", Controller: gone},
		"gpu-3": {Launch: "left", Controller: Controller()}, // expired below
		"gpu-4": {Launch: "away", Controller: "pid 1 on another-machine [b 1 m 4]"},
	} {
		if err := server.AcquireLease(t.Context(), m, m.state, []string{name}, owner, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if err := server.LeaveLease(t.Context(), m, m.state, []string{"gpu-3"}, server.Owner{Launch: "left"}); err != nil {
		t.Fatal(err)
	}
	released, err := ReleaseDeadLeases(t.Context(), m, m.state)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, l := range released {
		names = append(names, l.Name)
	}
	left, err := server.Leases(t.Context(), m, m.state)
	if err != nil || strings.Join(names, " ") != "gpu-2 gpu-3" || len(left) != 3 {
		t.Errorf("released %v, left %+v, %v", names, left, err)
	}
}

// sink is a writer that others may look into.
type sink struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *sink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

func (s *sink) waitFor(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); s.String() != text; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the log is %q, want %q", s.String(), text)
		}
	}
}

func TestCopyLog_FollowsUntilTheServerEnds(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	id := m.talker("")
	var log sink
	ended := make(chan error, 1)
	go func() { ended <- CopyLog(t.Context(), m, m.state, id, true, &log) }()
	log.waitFor(t, "one\n")
	var now sink
	if err := CopyLog(t.Context(), m, m.state, id, false, &now); err != nil || now.String() != "one\n" {
		t.Errorf("without following: %q, %v", now.String(), err)
	}
	m.file("go", "")
	if err := <-ended; err != nil || log.String() != "one\ntwo\n" {
		t.Errorf("%q, %v", log.String(), err)
	}
	// One that has ended has its whole log still, and following it ends at once.
	var again sink
	if err := CopyLog(t.Context(), m, m.state, id, true, &again); err != nil || again.String() != "one\ntwo\n" {
		t.Errorf("%q, %v", again.String(), err)
	}
	if err := CopyLog(t.Context(), m, m.state, "never", false, &again); err == nil {
		t.Error("a launch that never was has a log")
	}
}

func TestCopyLog_AnInterruptEndsFollowing(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	id := m.talker("")
	ctx, cancel := context.WithCancel(t.Context())
	var log sink
	ended := make(chan error, 1)
	go func() { ended <- CopyLog(ctx, m, m.state, id, true, &log) }()
	log.waitFor(t, "one\n")
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("err = %v", err)
	}
}
