//go:build engines && integration

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"specrun/experiments/trust"
)

// vllmSpec has one launch for each number of tokens. The threads of torch and of
// numba, which look for n-grams, would wait for each other on few cores. Its model
// accepts some drafts and refuses others.
const vllmSpec = `version: 1
name: vllm-cpu
server:
  engine: vllm
  python: %s
  port: auto
  flags:
    model: %s
    served-model-name: tiny
    host: 127.0.0.1
    max-model-len: 1024
    max-num-seqs: 4
    enforce-eager: true
    no-enable-prefix-caching: true
    seed: 0
    speculative-config:
      method: ngram
      num_speculative_tokens: ${num_speculative_tokens}
      prompt_lookup_max: 4
      prompt_lookup_min: 2
  env:
    HF_HUB_OFFLINE: "1"
    VLLM_NO_USAGE_STATS: "1"
    VLLM_CPU_KVCACHE_SPACE: "1"
    VLLM_CPU_OMP_THREADS_BIND: nobind
    VLLM_LOG_STATS_INTERVAL: "2"
    OMP_NUM_THREADS: "1"
    OMP_WAIT_POLICY: passive
    NUMBA_NUM_THREADS: "1"
  ready: { timeout: 15m, stall: 5m }
params:
  num_speculative_tokens: { values: 1..3, default: 2 }
baseline: { flags: { speculative-config: null } }
bench: { endpoint: chat, requests: 16, max_tokens: 96, ignore_eos: true, temperature: 0, warmup: 1 }
objective: output_throughput
repeats: 1
rounds: 1
after: stop
`

// killed is the cell whose API process is killed while it is measured.
const killed = 2

// TestVLLM drives a real vLLM: a sweep in which one server's API process is
// killed, what its log, its counters and its configuration say, init from one that
// runs, and the built-in client beside vllm bench serve. "make test-engines"
// installs what it needs.
func TestVLLM(t *testing.T) {
	python, model := os.Getenv("SPECRUN_VLLM_PYTHON"), os.Getenv("SPECRUN_VLLM_MODEL")
	if python == "" || model == "" {
		t.Fatal(`no vLLM: "make test-engines" installs it, or SPECRUN_VLLM_PYTHON and SPECRUN_VLLM_MODEL name one`)
	}
	v := &vllmTest{user: newUser(t, buildSpecrun(t)), python: python, model: model, before: left(t, python)}
	v.write("vllm.yaml", fmt.Sprintf(vllmSpec, python, model))
	t.Cleanup(v.nothingLeft)
	v.sweep()
	for tokens := range 4 {
		v.checkRun(tokens)
	}
	v.sameServer()
}

type vllmTest struct {
	*user
	python, model string
	before        []string // what was there that looks like a rest of a server
	argv          []string // of the server that init described
}

// runLine is what show --json says of a run, as far as it is looked at.
type runLine struct {
	ID            string
	Params        map[string]float64
	Baseline      bool
	State         string
	Class, Reason string
	Attempt       int
	Metrics       []struct {
		Name, Unit, Source string
		Value              *float64
	}
	Labels     []struct{ Name, Reason string }
	Checks     []struct{ Name, Outcome, Explanation string }
	Provenance map[string]map[string]string
}

// sweep measures all cells, kills one server in the middle, and measures that cell
// again.
func (v *vllmTest) sweep() {
	t := v.t
	begin := time.Now()
	r := v.start("sweep", "-f", "vllm.yaml", fmt.Sprintf("num_speculative_tokens=0..%d", 3), "--host", "local", "--store", "r.db")
	api := v.measured(r, killed)
	session := children(t, api)
	if len(session) == 0 {
		t.Errorf("the API process %d has no engine process", api)
	}
	must(t, syscall.Kill(api, syscall.SIGKILL))
	a := r.end()
	if a.code != exitPartial {
		t.Fatalf("want exit %d of %s", exitPartial, a)
	}
	for _, pid := range session {
		if alive(pid) {
			t.Errorf("engine process %d outlived its API process and the sweep", pid)
		}
	}
	bad := v.runOf(killed)
	if bad.State != "failed" || bad.Class != "killed_sigkill" || !strings.Contains(bad.Reason, "SIGKILL") {
		t.Errorf("the killed server's run: %s %s: %s", bad.State, bad.Class, bad.Reason)
	}
	t.Logf("killed -9 while measured: %s: %s", bad.Class, bad.Reason)
	t.Logf("sweep of 4 cells: %.0f s\n%s", time.Since(begin).Seconds(), v.does(0, "show", "last", "--store", "r.db").stdout)

	again := v.start("resume", "last", "--retry-failed", "--store", "r.db")
	v.describe(v.measured(again, killed))
	if a := again.end(); a.code != 0 {
		t.Fatalf("want exit 0 of %s", a)
	}
	t.Logf("after resume --retry-failed:\n%s", v.does(0, "show", "last", "--store", "r.db").stdout)
}

// measured waits until the server of a cell generates for the benchmark, and gives
// its pid.
func (v *vllmTest) measured(r *running, tokens int) int {
	v.t.Helper()
	const beyond = 16 + 96 + 64 // the probe, the warm-up, and a part of what is measured
	for limit := time.Now().Add(30 * time.Minute); time.Now().Before(limit); time.Sleep(500 * time.Millisecond) {
		if r.exited() {
			v.t.Fatalf("ended early: %s", r.end())
		}
		for _, s := range v.run("server", "status", "--host", "local", "--json").lines(v.t, "server") {
			params, _ := s["params"].(map[string]any)
			pid, _ := s["pid"].(float64)
			url, _ := s["url"].(string)
			if params["num_speculative_tokens"] == float64(tokens) && pid > 0 && generated(url) > beyond {
				return int(pid)
			}
		}
	}
	v.t.Fatal("that cell was never measured")
	return 0
}

// exited says that a command has ended, without waiting for it.
func (r *running) exited() bool { return !alive(r.Process.Pid) }

// describe writes gen.yaml from the running server.
func (v *vllmTest) describe(pid int) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	must(v.t, err)
	v.argv = strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00")
	a := v.does(0, "init", "--from-pid", strconv.Itoa(pid), "--host", "local", "-o", "gen.yaml")
	if !strings.Contains(a.stdout+a.stderr, "the plan has the same command") {
		v.t.Errorf("init does not say that the plan has the same command: %s", a)
	}
	v.t.Logf("specrun init --from-pid %d:\n%s", pid, a.stdout+a.stderr)
}

// runOf gives the last run of a cell; 0 tokens is the baseline.
func (v *vllmTest) runOf(tokens int) runLine {
	v.t.Helper()
	var found []runLine
	for line := range strings.Lines(v.does(0, "export", "--format", "json", "--store", "r.db").stdout) {
		var r struct {
			Type string
			runLine
		}
		must(v.t, json.Unmarshal([]byte(line), &r))
		if r.Type == "run" && r.Baseline == (tokens == 0) && r.Params["num_speculative_tokens"] == float64(tokens) {
			found = append(found, r.runLine)
		}
	}
	if len(found) == 0 {
		v.t.Fatalf("no run of %d tokens", tokens)
	}
	return slices.MaxFunc(found, func(a, b runLine) int { return a.Attempt - b.Attempt })
}

func (r runLine) metric(name, source string) float64 {
	for _, m := range r.Metrics {
		if m.Name == name && m.Source == source && m.Value != nil {
			return *m.Value
		}
	}
	return math.NaN()
}

// checkRun looks at what is stored of one cell.
func (v *vllmTest) checkRun(tokens int) {
	t := v.t
	r := v.runOf(tokens)
	if r.State != "done" {
		t.Fatalf("%d tokens: %s %s: %s", tokens, r.State, r.Class, r.Reason)
	}
	if got := r.metric("completed", "client"); got != 16 {
		t.Errorf("%d tokens: %v requests completed", tokens, got)
	}
	asked := r.Provenance["flags"]["speculative_config"]
	for _, c := range r.Checks {
		switch {
		case c.Outcome != "fail":
		case c.Name == trust.CheckConfig || c.Name == trust.CheckSpeculation:
			t.Errorf("%d tokens: check %s: %s", tokens, c.Name, c.Explanation)
		default: // of a machine that is not quiet
			t.Logf("%d tokens: check %s: %s", tokens, c.Name, c.Explanation)
		}
	}
	if tokens == 0 {
		if asked != "null" && asked != "None" || !math.IsNaN(r.metric("draft_tokens", "server_counters")) || !math.IsNaN(r.metric("draft_tokens", "server_log")) {
			t.Errorf("the baseline speculates: %q", asked)
		}
		return
	}
	if want := fmt.Sprintf(`"num_speculative_tokens":%d`, tokens); !strings.Contains(asked, want) {
		t.Errorf("%d tokens: read back %q", tokens, asked)
	}
	log, counters := r.metric("draft_acceptance_rate", "server_log"), r.metric("draft_acceptance_rate", "server_counters")
	for from, rate := range map[string]float64{"log": log, "counters": counters} {
		if !(rate > 10 && rate < 90) {
			t.Errorf("%d tokens: %v %% accepted by the %s", tokens, rate, from)
		}
	}
	sums := slices.IndexFunc(r.Checks, func(c struct{ Name, Outcome, Explanation string }) bool { return c.Name == trust.CheckSums })
	switch {
	case sums < 0:
		t.Errorf("%d tokens: log and counters were not compared", tokens)
	case r.Checks[sums].Outcome == "fail", r.Checks[sums].Outcome != "pass" && !strings.Contains(r.Checks[sums].Explanation, "the log lacks a tail of"):
		t.Errorf("%d tokens: %s: %s", tokens, r.Checks[sums].Outcome, r.Checks[sums].Explanation)
	default:
		t.Logf("%d tokens: %s: %s", tokens, r.Checks[sums].Outcome, r.Checks[sums].Explanation)
	}
	drafted := r.metric("draft_tokens", "server_counters")
	t.Logf("%d tokens: read back %s; accept length by log %.3f, by counters %.3f; %.1f %% of %.0f drafted tokens accepted; %.1f tok/s",
		tokens, asked, r.metric("accept_len", "server_log"), r.metric("accept_len", "server_counters"), counters, drafted, r.metric("output_throughput", "client"))
}

// sameServer starts the server of the spec that init wrote, and puts the clients
// side by side on it.
func (v *vllmTest) sameServer() {
	t := v.t
	v.does(0, "server", "start", "-f", "gen.yaml", "--host", "local")
	s := v.does(0, "server", "status", "--host", "local", "--json").lines(t, "server")
	if len(s) != 1 {
		t.Fatalf("%d servers run", len(s))
	}
	pid, _ := s[0]["pid"].(float64)
	url, _ := s[0]["url"].(string)
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", int(pid)))
	must(t, err)
	if got := strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00"); !slices.Equal(got, v.argv) {
		t.Errorf("the spec of init starts another server:\n%q\nwas\n%q", got, v.argv)
	} else {
		t.Logf("the spec of init starts the same server: %q", got)
	}
	script, err := filepath.Abs("../../docs/bench/client.py")
	must(t, err)
	client := exec.Command("python3", script, "--python", v.python, "--model", v.model, "--url", url, "--served", "tiny", "--specrun", v.bin)
	out, err := client.CombinedOutput()
	t.Logf("docs/bench/client.py:\n%s", out)
	if err != nil {
		t.Errorf("the clients do not agree, or could not be told apart: %v", err)
	}
	v.does(0, "server", "stop", "--host", "local")
}

// nothingLeft says what is still there of all servers: processes, shared memory,
// leases.
func (v *vllmTest) nothingLeft() {
	t := v.t
	var now []string
	eventually(func() bool { // a killed process is a zombie until somebody asks
		now = slices.DeleteFunc(left(t, v.python), func(s string) bool { return slices.Contains(v.before, s) })
		return len(now) == 0
	})
	for _, s := range now {
		t.Errorf("left behind: %s", s)
	}
	if a := v.does(0, "server", "status", "--host", "local", "--json"); len(a.lines(t, "server")) != 0 {
		t.Errorf("left behind: %s", a)
	}
	if a := v.does(0, "lock", "status", "--host", "local"); !strings.Contains(a.stdout, "no locks") || !strings.Contains(a.stdout, "no leases") {
		t.Errorf("left behind: %s", a)
	}
}
