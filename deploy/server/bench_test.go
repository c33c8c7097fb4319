package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"specrun/internal/tier"
	"specrun/remote"
)

var _ Host = (*remote.Host)(nil)

const readyMarker = "The server is fired up and ready to roll!"

// The tests mostly wait for processes.
func TestMain(m *testing.M) { os.Exit(tier.Main(m, 3)) }

// bench is one host of a test with its own state folder and home.
type bench struct {
	t      *testing.T
	h      Host
	state  string
	python string
	script string
	shell  string
	cards  string // of fakeSMI
	unique string // ends every launch id: a run id is searched on the whole machine

	proved map[string]bool // launches whose stop was proved
}

func (b *bench) id(name string) string { return name + b.unique }

// newBench returns this machine as a host whose scripts run in a bare
// environment. The test then runs in parallel with others: it mostly waits.
func newBench(t *testing.T) *bench {
	t.Helper()
	t.Parallel()
	home := t.TempDir()
	h := remote.Local(remote.LocalConfig{Env: []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "SESSION=1"}, Dir: home})
	t.Cleanup(func() { h.Close() })
	return &bench{t: t, h: h, state: filepath.Join(home, "state"), python: findPython(t), script: standin(t),
		unique: fmt.Sprintf("-%d-%x", os.Getpid(), rand.Uint64()), proved: map[string]bool{}}
}

// findPython prefers the system's: version managers put slow scripts in front.
func findPython(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat("/usr/bin/python3"); err == nil {
		return "/usr/bin/python3"
	}
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal("these tests need python3: ", err)
	}
	return path
}

func standin(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("testdata/standin.py")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// freePort returns a port that was free a moment ago.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// launch describes a stand-in with switches; its stop is part of the test's end.
func (b *bench) launch(name string, port int, switches ...string) Launch {
	id := b.id(name)
	b.t.Cleanup(func() {
		if b.proved[id] {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		// Not through b.h, which may be closed by now.
		h := remote.Local(remote.LocalConfig{})
		defer h.Close()
		if _, err := Stop(ctx, h, b.state, id, StopOptions{Grace: 10 * time.Millisecond}); err != nil {
			b.t.Errorf("clean up launch %s: %v", id, err)
		}
	})
	return Launch{ID: id, Argv: append([]string{b.python, b.script, strconv.Itoa(port)}, switches...), Python: b.python,
		StateDir: b.state, Port: port, Shell: b.shell}
}

func (b *bench) start(l Launch) State {
	b.t.Helper()
	if _, err := Start(b.t.Context(), b.h, l); err != nil {
		b.t.Fatal(err)
	}
	return b.lookID(l.ID)
}

func (b *bench) stop(name string, o StopOptions) (Proof, error) { return b.stopID(b.id(name), o) }

func (b *bench) stopID(id string, o StopOptions) (Proof, error) {
	proof, err := Stop(b.t.Context(), b.h, b.state, id, o)
	b.proved[id] = err == nil // the last one counts
	return proof, err
}

func (b *bench) look(name string) State {
	b.t.Helper()
	return b.lookID(b.id(name))
}

func (b *bench) lookID(id string) State {
	b.t.Helper()
	st, err := Look(b.t.Context(), b.h, b.state, id)
	if err != nil {
		b.t.Fatal(err)
	}
	return st
}

func (b *bench) waitReady(st State, port int) (Ready, error) {
	return WaitReady(b.t.Context(), b.h, st, port, &plain{}, ReadyOptions{Timeout: 20 * time.Second, Stall: 20 * time.Second, Poll: 10 * time.Millisecond})
}

// sees waits until a launch's process has a variable: it has its identity a moment
// before it becomes the server.
func (b *bench) sees(name, variable, value string) {
	b.t.Helper()
	id := b.look(name).Identity
	eventually(b.t, fmt.Sprintf("%s=%s in the environment", variable, value), func() bool {
		env, err := Environ(b.t.Context(), b.h, id)
		return err == nil && env[variable] == value
	})
}

// eventually polls a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatal("never: ", what)
}

// living tells whether a process runs; a zombie does not.
func living(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(raw[strings.LastIndexByte(string(raw), ')'):]), " ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// plain is a Readiness for the stand-in.
type plain struct{ text string }

func (p *plain) Observe(chunk []byte) Observation {
	var o Observation
	p.text += string(chunk)
	for {
		line, rest, ok := strings.Cut(p.text, "\n")
		if !ok {
			return o
		}
		p.text = rest
		switch {
		case line == "loading":
			o.Milestones = append(o.Milestones, "loading")
		case line == readyMarker:
			o.Ready = true
		case strings.HasPrefix(line, "CRASH"):
			o.Crash = &Crash{Kind: "cuda_oom", Evidence: line, Final: true}
		}
	}
}

func (p *plain) Probe(ctx context.Context, client *http.Client, base string) error {
	req, err := http.NewRequestWithContext(ctx, "POST", base+"/generate", strings.NewReader(`{"sampling_params":{"max_new_tokens":16}}`))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if !strings.Contains(string(body), `"completion_tokens": 16`) {
		return errors.New("no 16 tokens")
	}
	return nil
}

// withRunID lists living processes with a launch's id in their environment.
func withRunID(t *testing.T, id string) []int {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, dir := range dirs {
		raw, err := os.ReadFile(dir + "/environ")
		if err != nil || !strings.Contains("\x00"+string(raw), "\x00SPECRUN_RUN_ID="+id+"\x00") {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err == nil && living(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}
