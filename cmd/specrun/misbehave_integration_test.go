//go:build integration || soak

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"specrun/experiments/lab"
)

// misbehaviour is one way in which a server goes wrong, and what has to be said
// of it.
type misbehaviour struct {
	name   string
	how    []lab.Failure
	set    func(*lab.Settings)
	spec   []string // replacements in the practice spec
	beside func(u *user, port int) (undo func())

	code   int      // of specrun run
	class  string   // of its run; "" when it is done
	reason []string // expressions that the run's reason has to match
	labels []string
	said   []string // expressions that stderr has to match
}

// Starts and stops of these are quick: what takes long is what is tested.
const (
	quickReady = "ready: { timeout: 20s, stall: 10s }"
	quickStall = "stall: 5s"
)

func misbehaviours() []misbehaviour {
	ready := func(timeout, stall string) []string {
		return []string{quickReady, fmt.Sprintf("ready: { timeout: %s, stall: %s }\n  stop: { grace: 1s }", timeout, stall)}
	}
	usual := ready("20s", "10s")
	tokens := 208 // of a run of the practice spec
	return []misbehaviour{
		{name: "ignores TERM", how: []lab.Failure{{Kind: lab.IgnoreTerm}}, spec: usual,
			said: []string{`did not end within 1s of SIGTERM and was killed`}},
		{name: "300-second drain", how: []lab.Failure{{Kind: lab.SlowDrain, Millis: 300_000}}, spec: usual,
			said: []string{`did not end within 1s of SIGTERM and was killed`}},
		{name: "double-forked worker keeps port and GPU", how: []lab.Failure{{Kind: lab.Orphan}}, spec: usual},
		{name: "health says 200 while dead", how: []lab.Failure{{Kind: lab.DeadHealth, AfterTokens: 60}}, spec: append(usual, quickStall, "stall: 30s"),
			code: 1, class: "server_died", reason: []string{`no token came for [1-9].*its process \d+ \(.*\) has ended`}},
		{name: "ready marker before bind fails", how: []lab.Failure{{Kind: lab.MarkerFirst}}, set: slowLoad, spec: usual, beside: stealPort,
			code: 1, class: "port_in_use", reason: []string{fmt.Sprintf(`held by pid %d of user`, os.Getpid())}},
		{name: "old server answers", set: slowLoad, spec: usual, beside: oldServer,
			code: 1, class: "port_in_use", reason: []string{fmt.Sprintf(`held by pid %d of user`, os.Getpid())}},
		{name: "exits 1 after 2 s", how: []lab.Failure{{Kind: lab.Exit}}, spec: usual,
			code: 1, class: "exited", reason: []string{`exited with status 1`, `nothing will come of this`}},
		{name: "never ready and silent", how: []lab.Failure{{Kind: lab.NeverReady}}, spec: ready("60s", "2s"),
			code: 1, class: "start_stalled", reason: []string{`nothing was seen of it for 2s: no log, no CPU time`, `loading weights|weights loaded`}},
		{name: "silent but loading for long", how: []lab.Failure{{Kind: lab.SlowLoad, Millis: 5000}}, spec: ready("60s", "2s")},
		{name: "out of memory while loading, alive", how: []lab.Failure{{Kind: lab.OOM}}, spec: ready("60s", "20s"),
			code: 1, class: "oom_loading", reason: []string{`CUDA out of memory. Tried to allocate 2.00 GiB`, `next: `}},
		{name: "out of memory while serving, alive", how: []lab.Failure{{Kind: lab.OOM, AfterTokens: 205}}, set: slowly, spec: append(usual, quickStall, "stall: 30s"),
			code: 1, class: "oom_running", reason: []string{`CUDA out of memory. Tried to allocate 2.00 GiB`, `still lives`}},
		{name: "crash after the last response", how: []lab.Failure{{Kind: lab.LateCrash, AfterTokens: tokens}}, spec: usual,
			labels: []string{"died-after"}, said: []string{`SIGSEGV`}},
		{name: "log truncated under it", how: []lab.Failure{{Kind: lab.CutLog, AfterTokens: 100}}, spec: usual,
			labels: []string{"log-cut"}},
		{name: "block-buffered output", how: []lab.Failure{{Kind: lab.Buffered}}, spec: ready("60s", "4s"),
			labels: []string{"log-cut"}},
		{name: "restarted in its place", how: []lab.Failure{{Kind: lab.Restarts, AfterTokens: 60}}, spec: usual,
			code: 1, class: "server_restarted", reason: []string{`started anew in its place: pid \d+`}},
		{name: "killed from outside", how: []lab.Failure{{Kind: lab.Stall, AfterTokens: 60}}, spec: append(usual, quickStall, "stall: 30s"), beside: killServer,
			code: 1, class: "killed_sigkill", reason: []string{`SIGKILL`, `next: the kernel counted no kill for want of memory`}},
	}
}

// TestMisbehaviours lets a server go wrong in every way that the practice host
// knows. Each time specrun says what it was, and leaves nothing behind.
func TestMisbehaviours(t *testing.T) {
	t.Parallel()
	bin := buildSpecrun(t)
	for _, m := range misbehaviours() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel() // they mostly wait, each on a practice host of its own
			m.test(newUser(t, bin))
		})
	}
	t.Run("pid reused", func(t *testing.T) {
		t.Parallel()
		testReusedPID(newUser(t, bin))
	})
}

func (m misbehaviour) test(u *user) {
	t := u.t
	h := u.startLab(func(s *lab.Settings) {
		fast(s)
		s.Failures = m.how
		if m.set != nil {
			m.set(s)
		}
	})
	spec, port := u.practiceSpec(m.spec...)
	u.removeStore("results.db")
	begin := time.Now()
	r := u.start("run", "-f", spec, "--rounds", "1", "--host", "lab", "--store", "results.db")
	undo := func() {}
	if m.beside != nil {
		undo = m.beside(u, port)
	}
	a := r.end()
	took := time.Since(begin)
	undo()
	if a.code != m.code {
		t.Errorf("want exit %d of %s", m.code, a)
	}
	runs := u.does(0, "list", "--runs", "--json", "--store", "results.db").lines(t, "run")
	if len(runs) != 1 {
		t.Fatalf("%d runs: %v", len(runs), runs)
	}
	class, _ := runs[0]["class"].(string)
	reason, _ := runs[0]["reason"].(string)
	t.Logf("%v: %v %s %v: %s", took.Round(100*time.Millisecond), runs[0]["state"], class, runs[0]["labels"], reason)
	if state := map[bool]string{true: "done", false: "failed"}[m.class == ""]; runs[0]["state"] != state || class != m.class {
		t.Errorf("the run is %v %q, want %s %q\n%s", runs[0]["state"], class, state, m.class, a)
	}
	for _, re := range m.reason {
		if !regexp.MustCompile(re).MatchString(reason) {
			t.Errorf("no %q in the reason: %s", re, reason)
		}
	}
	for _, re := range m.said {
		if !regexp.MustCompile(re).MatchString(a.stderr) {
			t.Errorf("no %q in %s", re, a)
		}
	}
	labels := fmt.Sprint(runs[0]["labels"])
	for _, l := range m.labels {
		if !strings.Contains(labels, l) {
			t.Errorf("no label %s: %s\n%s", l, labels, a)
		}
	}
	for _, l := range []string{"died-after", "log-cut"} {
		if !slices.Contains(m.labels, l) && strings.Contains(labels, l) {
			t.Errorf("label %s for nothing", l)
		}
	}
	u.leftAlone(h, port)
	if apps := cards(u, h); apps != "" {
		t.Errorf("memory of a card is held: %s", apps)
	}
}

// slowly: what the server says of a request comes well before what is wrong.
func slowly(s *lab.Settings) { s.Scale = 1 }

func slowLoad(s *lab.Settings) { s.Load = 40_000 } // of a fast one: 2 s

// cards are the processes that hold memory of the practice host's cards.
func cards(u *user, h lab.Host) string {
	u.t.Helper()
	cmd := exec.Command(filepath.Join(u.labDir(), "bin", "nvidia-smi"), "--query-compute-apps=pid,used_memory", "--format=csv,noheader")
	out, err := cmd.CombinedOutput()
	if err != nil {
		u.t.Fatalf("nvidia-smi: %v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// serverOf waits for the server that the practice host has started, and for text
// in its log.
func serverOf(u *user, text string) (pid int) {
	u.t.Helper()
	state := filepath.Join(u.labDir(), "state", "runs")
	look := func() bool {
		files, err := filepath.Glob(filepath.Join(state, "*", "identity"))
		must(u.t, err)
		for _, f := range files {
			raw, err := os.ReadFile(f)
			fields := strings.Fields(string(raw))
			if err != nil || len(fields) != 5 || argvOf("/proc/"+fields[2]) == nil {
				continue
			}
			log, err := os.ReadFile(filepath.Join(filepath.Dir(f), "server.log"))
			if err == nil && strings.Contains(string(log), text) {
				pid, err = strconv.Atoi(fields[2])
				return err == nil
			}
		}
		return false
	}
	for end := time.Now().Add(time.Minute); !look(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			u.t.Fatalf("no server said %q", text)
		}
	}
	return pid
}

// stealPort takes the server's port while it loads.
func stealPort(u *user, port int) func() {
	serverOf(u, "Load weight begin")
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	must(u.t, err)
	return func() { must(u.t, l.Close()) }
}

// oldServer is one that answers everything well, on the port of the server that
// loads.
func oldServer(u *user, port int) func() {
	serverOf(u, "Load weight begin")
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	must(u.t, err)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := json.NewEncoder(w).Encode(map[string]any{"text": "w", "meta_info": map[string]int{"completion_tokens": 16}})
		if err != nil {
			u.t.Logf("old server: %v", err)
		}
	}))
	s.Listener.Close()
	s.Listener = l
	s.Start()
	return s.Close
}

// killServer ends the server by SIGKILL once it answers a request.
func killServer(u *user, port int) func() {
	must(u.t, syscall.Kill(serverOf(u, "POST /v1/chat"), syscall.SIGKILL))
	return func() {}
}

// testReusedPID: a stranger has the number of a server that has ended. It is
// never taken for the server, and never signalled.
func testReusedPID(u *user) {
	t := u.t
	h := u.startLab(func(s *lab.Settings) {
		fast(s)
		s.Failures = []lab.Failure{{Kind: lab.Stall, AfterTokens: 60}}
	})
	spec, port := u.practiceSpec(quickStall, "stall: 60s")
	u.removeStore("results.db")
	r := u.start("run", "-f", spec, "--rounds", "1", "--host", "lab", "--store", "results.db")
	pid := serverOf(u, "POST /v1/chat")
	must(t, r.Process.Kill())
	r.end()
	for _, p := range u.launched() { // the server, its child and the benchmark's client
		n, err := strconv.Atoi(strings.Fields(p)[0])
		must(t, err)
		if err := syscall.Kill(n, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
			t.Fatal(err)
		}
	}
	stranger := exec.Command("sleep", "300")
	stranger.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	must(t, stranger.Start())
	defer func() {
		must(t, stranger.Process.Kill())
		stranger.Wait() // it was killed, which it says
	}()
	files, err := filepath.Glob(filepath.Join(h.StateDir, "runs", "*", "identity"))
	must(t, err)
	changed := 0
	for _, f := range files {
		raw, err := os.ReadFile(f)
		must(t, err)
		fields := strings.Fields(string(raw))
		if fields[2] != strconv.Itoa(pid) {
			continue
		}
		changed++
		fields[2], fields[4] = strconv.Itoa(stranger.Process.Pid), strconv.Itoa(stranger.Process.Pid)
		must(t, os.WriteFile(f, []byte(strings.Join(fields, " ")+"\n"), 0o600))
	}
	if changed != 1 {
		t.Fatalf("%d identities of pid %d", changed, pid)
	}
	if servers := u.does(0, "server", "status", "--host", "lab", "--json").lines(t, "server"); len(servers) != 0 {
		t.Errorf("the stranger is taken for a server: %v", servers)
	}
	u.startLab(fast)
	u.does(0, "resume", "--store", "results.db")
	if argvOf("/proc/"+strconv.Itoa(stranger.Process.Pid)) == nil {
		t.Error("the stranger was ended")
	}
	u.leftAlone(h, port)
}
