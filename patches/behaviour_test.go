package patches_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"specrun/patches"
)

// The profilers are Python, so their behaviour is tested in Python: a worker's
// outer body runs with timed phases (testdata/behaviour/main.py) under a clock
// that only the phases move, and what the profiler prints is compared with what
// happened. The rules of what counts are written down a second time in counted.

// op is one step of a plan: n calls of the worker of one kind, or an event.
type op struct {
	Op     string   `json:"op"` // prefill, decode, idle, pause, raise, flush
	Rids   []string `json:"rids"`
	N      int      `json:"n,omitempty"`
	Finish []string `json:"finish,omitempty"` // requests that end in the last call
	S      float64  `json:"s,omitempty"`      // seconds of a pause
}

type behaviour struct {
	File              string                `json:"file"`
	Module            string                `json:"module"`
	Worker            string                `json:"worker"` // v1, v2
	Seed              uint64                `json:"seed"`
	Steps             int                   `json:"steps"`
	Plan              []op                  `json:"plan"`
	Phases            map[string][2]float64 `json:"phases"` // milliseconds, from and to
	Ranks             []int                 `json:"ranks,omitempty"`
	DPSize            int                   `json:"dp_size,omitempty"` // DP attention over four ranks
	Fault             string                `json:"fault,omitempty"`
	SyncMs            float64               `json:"sync_ms,omitempty"`
	OnPublish         bool                  `json:"on_publish,omitempty"`
	Renamed           []string              `json:"renamed,omitempty"`
	VerifyParts       int                   `json:"verify_parts"`
	TargetExtendParts int                   `json:"target_extend_parts"`
	WithReqs          bool                  `json:"with_reqs"`
	Lab               bool                  `json:"lab,omitempty"` // as on the practice host
	Truth             string                `json:"truth"`

	patch string // "" = profiling-v4
	every int    // 0 = 50
	off   bool   // EAGLE3_PROFILE not set
}

// worked is one call of the worker as it really was.
type worked struct {
	Event     string             `json:"event"`
	Kind      string             `json:"kind"`
	Rids      []string           `json:"rids"`
	Finish    []string           `json:"finish"`
	Accepted  []int              `json:"accepted"`
	Phases    map[string]float64 `json:"phases"`
	Start     float64            `json:"start"`
	Call      float64            `json:"call"`
	Context   float64            `json:"context"`
	Batch     int                `json:"batch"`
	Published bool               `json:"published"`
	Returned  *int               `json:"returned"`
	Names     []string           `json:"names"`
	Syncs     int                `json:"syncs"`
	Threads   []string           `json:"threads"`
	Writes    []int              `json:"writes"` // bytes of each write to standard output

	interval float64
}

// printed is one row as the profiler printed it: its JSON line and the block before it.
type printed struct {
	Profiler      string             `json:"profiler"`
	Version       string             `json:"version"`
	Hash          string             `json:"hash"`
	Worker        string             `json:"worker"`
	Rank          int                `json:"rank"`
	DPRank        *int               `json:"dp_rank"`
	Cycles        int                `json:"cycles"`
	TStart        float64            `json:"t_start"`
	TEnd          float64            `json:"t_end"`
	WallMs        float64            `json:"wall_ms"`
	CallMs        float64            `json:"call_ms"`
	Phases        string             `json:"phases"`
	PhasesMs      map[string]float64 `json:"phases_ms"`
	BatchSum      int                `json:"batch_sum"`
	BatchMin      int                `json:"batch_min"`
	BatchMax      int                `json:"batch_max"`
	Tokens        *int               `json:"tokens"`
	Accepted      *int               `json:"accepted"`
	Proposed      int                `json:"proposed"`
	Steps         int                `json:"steps"`
	RequestCycles int                `json:"request_cycles"`
	Context       *float64           `json:"context"`
	Skipped       map[string]int     `json:"skipped"`
	Partial       bool               `json:"partial"`

	block map[string]float64 // row name -> value; NaN for n/a
}

type observed struct {
	out   string
	calls []worked
	end   worked // the last line: threads, synchronizes
	names []string
	rows  []printed
}

// run applies the patch to src and lets the worker work.
func (b behaviour) run(t testing.TB, src []byte) observed {
	t.Helper()
	name := b.patch
	if name == "" {
		name = "profiling-v4"
	}
	p, err := patches.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	target := slices.IndexFunc(p.Targets, func(t patches.Target) bool {
		return strings.HasSuffix(t.Module, "_v2") == (b.Worker == "v2")
	})
	patched, err := patches.Apply(p, p.Targets[target], src)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	b.Module = p.Targets[target].Module
	b.File = filepath.Join(dir, "worker.py")
	b.Truth = filepath.Join(dir, "truth.jsonl")
	if err := os.WriteFile(b.File, patched, 0o644); err != nil {
		t.Fatal(err)
	}
	config, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	every := b.every
	if every == 0 {
		every = 50
	}
	// Standard output is a file, so that main.py can see what was printed.
	stdout, err := os.Create(filepath.Join(dir, "stdout"))
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.Close()
	var stderr bytes.Buffer
	cmd := exec.Command("python3", filepath.Join("testdata", "behaviour", "main.py"), string(config))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "PYTHONDONTWRITEBYTECODE=1", "EAGLE3_PROFILE_EVERY=" + strconv.Itoa(every)}
	if !b.off {
		cmd.Env = append(cmd.Env, "EAGLE3_PROFILE=1")
	}
	cmd.Stdout, cmd.Stderr = stdout, &stderr
	runErr := cmd.Run()
	out, err := os.ReadFile(stdout.Name())
	if err != nil {
		t.Fatal(err)
	}
	if runErr != nil {
		t.Fatalf("seed %d: %v\n%s\n%s", b.Seed, runErr, out, stderr.String())
	}
	o := observed{out: string(out), rows: parseRows(t, string(out))}
	lines, err := os.ReadFile(b.Truth)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(lines) {
		var w worked
		if err := json.Unmarshal(line, &w); err != nil {
			t.Fatal(err)
		}
		switch w.Event {
		case "wrapped":
			o.names = w.Names
		case "end":
			o.end = w
		default:
			o.calls = append(o.calls, w)
		}
	}
	return o
}

var blockRow = regexp.MustCompile(`^  ([A-Za-z][A-Za-z /-]*):\s+(\S+)(?: (?:ms/cyc|tok/s)(?:  \((?:launch| ?[ \d.]+%)\))?)?$`)

// parseRows reads blocks and JSON lines strictly: a line that is neither, nor
// one of the profiler's own messages, fails the test.
func parseRows(t testing.TB, out string) []printed {
	t.Helper()
	var rows []printed
	var block map[string]float64
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "specrun-profiler: "):
		case strings.HasPrefix(line, "[specrun "):
			block = map[string]float64{}
		case strings.HasPrefix(line, "{"):
			if len(line) >= 4096 {
				t.Errorf("a row of %d bytes", len(line))
			}
			r := printed{block: block}
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatalf("%v in %s", err, line)
			}
			if block == nil {
				t.Errorf("a JSON line without its block: %s", line)
			}
			rows, block = append(rows, r), nil
		default:
			m := blockRow.FindStringSubmatch(line)
			if m == nil || block == nil {
				t.Fatalf("unexpected line %q in\n%s", line, out)
			}
			v, err := strconv.ParseFloat(m[2], 64)
			if m[2] == "n/a" {
				v, err = math.NaN(), nil
			}
			if err != nil {
				t.Fatal(err)
			}
			block[m[1]] = v
		}
	}
	return rows
}

// counted gives the calls whose interval counts, by the rules of README.md in
// library: both decode, the same requests, none ended, not among the first 8 at
// the batch size, no pause.
func counted(calls []worked) []worked {
	var out []worked
	warm := map[int]int{}
	for i := 0; i+1 < len(calls); i++ {
		a, b := calls[i], calls[i+1]
		a.interval = b.Start - a.Start
		ra, rb := slices.Sorted(slices.Values(a.Rids)), slices.Sorted(slices.Values(b.Rids))
		if a.Kind != "decode" || b.Kind != "decode" || !slices.Equal(ra, rb) || len(a.Finish) > 0 || a.interval > 1000 {
			continue
		}
		if warm[a.Batch]++; warm[a.Batch] > 8 {
			out = append(out, a)
		}
	}
	return out
}

// compare says where the printed rows differ from what happened: the sums of
// the JSON lines by more than rounding, the numbers of the blocks by over 2 %.
func (b behaviour) compare(o observed) error {
	left := counted(o.calls)
	if len(left) == 0 {
		return fmt.Errorf("the plan has no cycle that counts")
	}
	for i, r := range o.rows {
		fail := func(what string, got, want any) error {
			return fmt.Errorf("row %d (%d cycles): %s is %v, want %v", i+1, r.Cycles, what, got, want)
		}
		if r.Cycles == 0 || r.Cycles > len(left) {
			return fail("cycles", r.Cycles, fmt.Sprintf("1 to %d", len(left)))
		}
		mine := left[:r.Cycles]
		left = left[r.Cycles:]
		var wall, call, context float64
		var tokens, requests int
		phases := map[string]float64{}
		for _, c := range mine {
			if !slices.Equal(c.Rids, mine[0].Rids) {
				return fail("set of requests", c.Rids, mine[0].Rids)
			}
			wall += c.interval
			call += c.Call
			context += c.Context
			requests += c.Batch
			tokens += c.Batch
			for _, n := range c.Accepted {
				tokens += n
			}
			for name, ms := range c.Phases {
				phases[name] += ms
			}
		}
		n := float64(r.Cycles)
		if d := math.Abs(r.WallMs - wall); d > 0.001*n {
			return fail("wall_ms", r.WallMs, wall)
		}
		if d := math.Abs(r.CallMs - call); d > 0.001*n {
			return fail("call_ms", r.CallMs, call)
		}
		if r.RequestCycles != requests || r.BatchSum != requests {
			return fail("request_cycles", r.RequestCycles, requests)
		}
		if r.Tokens == nil || *r.Tokens != tokens || *r.Accepted != tokens-requests {
			return fail("tokens", deref(r.Tokens), tokens)
		}
		if r.Proposed != b.Steps*requests || r.Steps != b.Steps {
			return fail("proposed", r.Proposed, b.Steps*requests)
		}
		if want := context / float64(requests); r.Context == nil || math.Abs(*r.Context-want) > 3*float64(b.Steps+1) {
			return fail("context", r.Context, want)
		}
		if len(r.PhasesMs) != len(phases) {
			return fail("phases", r.PhasesMs, phases)
		}
		shown := map[string]string{"draft": "draft steps", "verify": "target verify", "extend": "draft re-extend"}
		other := wall
		for name, ms := range phases {
			other -= ms
			ms += b.SyncMs * n // the second synchronize of a phase lies inside it
			if math.Abs(r.PhasesMs[name]-ms) > 0.001*n {
				return fail(name, r.PhasesMs[name], ms)
			}
			if !near(r.block[shown[name]], ms/n) {
				return fail("printed "+shown[name], r.block[shown[name]], ms/n)
			}
		}
		if !near(r.block["TOTAL"], wall/n) {
			return fail("printed TOTAL", r.block["TOTAL"], wall/n)
		}
		if b.SyncMs == 0 && !near(r.block["other"], other/n) {
			return fail("printed other", r.block["other"], other/n)
		}
		if !near(r.block["accept length"], float64(tokens)/float64(requests)) {
			return fail("printed accept length", r.block["accept length"], float64(tokens)/float64(requests))
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("%d cycles that count are in no row", len(left))
	}
	return nil
}

// near is within 2 % or within the rounding of two decimals.
func near(got, want float64) bool {
	return math.Abs(got-want) <= math.Max(0.02*math.Abs(want), 0.0051)
}

func deref(p *int) any {
	if p == nil {
		return nil
	}
	return *p
}

// newBehaviour is a plan with everything in it: a warm-up, a prefill of a second
// request while the first decodes, batches that change, ends, idle batches.
func newBehaviour(t testing.TB, worker string) behaviour {
	seed := rand.Uint64() >> 12
	t.Logf("seed %d", seed)
	b := behaviour{
		Worker: worker, Seed: seed, Steps: 1 + int(seed%4), VerifyParts: 3, TargetExtendParts: 4, WithReqs: true,
		Phases: map[string][2]float64{"draft": {1, 3}, "verify": {10, 16}, "extend": {0.5, 1}, "rest": {0.3, 0.9}},
		Plan: []op{
			{Op: "prefill", Rids: []string{"warm"}},
			{Op: "decode", Rids: []string{"warm"}, N: 5, Finish: []string{"warm"}},
			{Op: "prefill", Rids: []string{"a"}},
			{Op: "decode", Rids: []string{"a"}, N: 70},
			{Op: "prefill", Rids: []string{"b"}},
			{Op: "decode", Rids: []string{"a", "b"}, N: 40, Finish: []string{"b"}},
			{Op: "decode", Rids: []string{"a"}, N: 30, Finish: []string{"a"}},
			{Op: "idle", N: 2},
			{Op: "prefill", Rids: []string{"c"}},
			{Op: "decode", Rids: []string{"c"}, N: 20},
			{Op: "idle"},
			{Op: "decode", Rids: []string{"c"}, N: 25, Finish: []string{"c"}},
			{Op: "prefill", Rids: []string{"last"}},
			{Op: "decode", Rids: []string{"last"}, Finish: []string{"last"}},
		},
	}
	if worker == "v2" {
		// A v2 call only queues work; and a request's end is seen one call later.
		b.Phases = map[string][2]float64{"draft": {0.08, 0.12}, "verify": {0.12, 0.16}, "extend": {0.03, 0.05}, "rest": {18, 21}}
		b.Plan[1].Finish, b.Plan[6].Finish, b.Plan[11].Finish = nil, nil, nil
		b.Plan[5].Finish = nil
	}
	return b
}

func standIn(t testing.TB, worker string) []byte {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("testdata", "behaviour", worker+"_worker.py"))
	if err != nil {
		t.Fatal(err)
	}
	return src
}
