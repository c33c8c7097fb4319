package experiments

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"specrun/experiments/bench"
	"specrun/experiments/metrics"
	"specrun/experiments/record"
	"specrun/experiments/trust"
)

func check(t *testing.T, d record.RunData, name string) record.TrustCheck {
	t.Helper()
	i := slices.IndexFunc(d.Checks, func(c record.TrustCheck) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no check %s", name)
	}
	return d.Checks[i]
}

// put writes lines at the beginning of a window's log.
func put(r *bench.Report, w *Window, lines string) {
	w.Log = append([]byte(lines), w.Log...)
	r.LogEnd += int64(len(lines))
}

// empty takes all rows out of a window's log.
func empty(r *bench.Report, w *Window) { w.Log, r.LogEnd = nil, w.LogStart }

// chunks are n+1 arrivals that are ms apart, the k-th gap longer by more ms.
func chunks(n int, ms float64, k int, more float64) []int64 {
	out := make([]int64, n+1)
	for i := range n {
		out[i+1] = out[i] + int64(1000*ms)
		if i == k {
			out[i+1] += int64(1000 * more)
		}
	}
	return out
}

func asBaseline(w *Window) {
	w.Cell.Baseline, w.Cell.Server.Flags, w.Cell.Server.Patches, w.Patches = true, nil, nil, PatchState{}
}

const (
	storyDecode  = "[2026-11-29 10:00:00] Decode batch, #running-req: 1, #token: 9, token usage: 0.00, accept len: %.2f, cuda graph: True, gen throughput (token/s): %.2f, #queue-req: 0\n"
	storyPrefill = "[2026-11-29 10:00:00] Prefill batch, #new-seq: 1, #new-token: %d, #cached-token: %d, token usage: 0.00, #running-req: 0, #queue-req: 0\n"
)

// Each way in which a run may mislead, as it looks in what the run leaves
// behind.
func TestCollect_DoctoredRuns(t *testing.T) {
	t.Parallel()
	swapped := strings.Replace(profileRow(100.1, "0123456789ab", 45), `"version":"1"`, `"version":"2"`, 1)
	for _, c := range []struct {
		name  string
		edit  func(*bench.Report, *Window)
		label string // that must be there; "-x": must not
		part  string // of its reason
		check string
		want  record.Outcome
	}{
		{"nothing", func(*bench.Report, *Window) {}, "-noisy", "", trust.CheckPatch, record.Pass},
		{"a patch exchanged meanwhile", func(r *bench.Report, w *Window) { put(r, w, swapped) }, "config-mismatch", "0123456789ab", trust.CheckOneProfiler, record.Fail},
		{"a patch that prints no row", func(r *bench.Report, w *Window) {
			empty(r, w)
			w.Patches.Patches[0].Prints = true
			r.Requests[0].ChunkUs = chunks(100, 20, -1, 0)
		}, "patch-unverified", "profiling-v4", trust.CheckPatch, record.Fail},
		{"a benchmark too short for a row", func(r *bench.Report, w *Window) {
			empty(r, w)
			w.Patches.Patches[0].Prints = true
			r.Requests[0].ChunkUs = chunks(99, 20, -1, 0)
		}, "patch-unverified", "", trust.CheckPatch, record.NotCheckable},
		{"a patch that has nothing to print", func(r *bench.Report, w *Window) {
			empty(r, w)
			r.Requests[0].ChunkUs = chunks(100, 20, -1, 0)
		}, "patch-unverified", "", trust.CheckPatch, record.NotCheckable},
		{"a patch that spoke up before", func(r *bench.Report, w *Window) {
			empty(r, w)
			w.Announced = announced("x\nspecrun-profiler: profiling-v4 1 " + w.Patches.Patches[0].SHA256[:12] + " active in /x.py\n")
		}, "-patch-unverified", "", trust.CheckPatch, record.Pass},
		{"another patch of that name spoke up", func(r *bench.Report, w *Window) {
			empty(r, w)
			w.Announced = announced("specrun-profiler: profiling-v4 1 0123456789ab active in /x.py\n")
		}, "patch-unverified", "", trust.CheckPatch, record.NotCheckable},
		{"a file edited by hand", func(_ *bench.Report, w *Window) {
			w.Patches.Files = []PatchedFile{{Path: "/x/eagle_worker.py", Verdict: "edited"}}
		}, "config-mismatch", "/x/eagle_worker.py is edited", trust.CheckConfig, record.Fail},
		{"files that are not sound", func(_ *bench.Report, w *Window) { w.Patches.Unsound = "an open transaction" }, "config-mismatch", "an open transaction", trust.CheckConfig, record.Fail},
		{"another patch in the files", func(_ *bench.Report, w *Window) { w.Patches.Patches = []PatchRef{{Name: "mine", SHA256: "ff"}} }, "config-mismatch", "the files have mine", trust.CheckConfig, record.Fail},

		{"a baseline that says it speculates", func(r *bench.Report, w *Window) {
			empty(r, w)
			asBaseline(w)
			w.Checked.Effective["speculative_algorithm"] = "EAGLE3"
		}, "config-mismatch", "speculative_algorithm is EAGLE3", trust.CheckSpeculation, record.Fail},
		{"a baseline whose log tells", func(r *bench.Report, w *Window) {
			empty(r, w)
			asBaseline(w)
			w.Checked.Effective["speculative_algorithm"] = "null"
			put(r, w, fmt.Sprintf(storyDecode, 1.9, 90.)+fmt.Sprintf(storyDecode, 1.9, 90.))
		}, "config-mismatch", "accept length of 1.90", trust.CheckSpeculation, record.Fail},
		{"a baseline whose counters tell", func(r *bench.Report, w *Window) {
			empty(r, w)
			asBaseline(w)
			r.ServerCounters = map[string]float64{"spec_verify_calls": 55}
		}, "config-mismatch", "55 verify steps", trust.CheckSpeculation, record.Fail},
		{"a baseline whose responses tell", func(r *bench.Report, w *Window) {
			empty(r, w)
			asBaseline(w)
			r.Requests[0].VerifyCalls = 90
		}, "config-mismatch", "90 verify steps", trust.CheckSpeculation, record.Fail},
		{"a baseline with a profiler's rows", func(_ *bench.Report, w *Window) { asBaseline(w) }, "config-mismatch", "100 speculative cycles", trust.CheckSpeculation, record.Fail},
		{"a baseline as it should be", func(r *bench.Report, w *Window) {
			empty(r, w)
			asBaseline(w)
			w.Checked.Effective["speculative_algorithm"] = "null"
		}, "-config-mismatch", "", trust.CheckSpeculation, record.Pass},
		{"steps left to the server", func(_ *bench.Report, w *Window) {
			w.Cell.Server.Flags = []ServerFlag{{Name: specAlgorithm, Kind: flagValue, Values: []string{"EAGLE3"}}}
			w.Checked.Effective["speculative_num_steps"] = "2"
			w.Checked.Effective["speculative_algorithm"] = "EAGLE3"
		}, "-config-mismatch", "", trust.CheckSpeculation, record.Pass},

		{"a cache that the log tells of", func(r *bench.Report, w *Window) {
			r.Requests[0].CachedTokens = -1
			put(r, w, fmt.Sprintf(storyPrefill, 5, 15))
		}, "cache-warm", "15 of 20 prompt tokens cached, by the server log", trust.CheckCache, record.Fail},
		{"kernels in the log", func(r *bench.Report, w *Window) {
			put(r, w, "2026-11-29 10:00:00,123 - INFO - flashinfer.jit: Loading JIT ops: batch_decode\n")
		}, "jit", "Loading JIT ops: batch_decode", trust.CheckCompile, record.Fail},
		{"kernels in a prompt", func(r *bench.Report, w *Window) {
			put(r, w, "[2026-11-29 10:00:00] Receive: obj=GenerateReqInput(text='what is Loading JIT ops: x')\n")
		}, "-jit", "", trust.CheckCompile, record.Pass},
		{"kernels in a folder", func(r *bench.Report, _ *Window) {
			r.Caches = []bench.Cache{{Path: "~/.cache/flashinfer", Before: bench.CacheState{Files: 3}, After: bench.CacheState{Files: 5}}}
		}, "jit", "files came to ~/.cache/flashinfer", trust.CheckCompile, record.Fail},
		{"a card held back", func(r *bench.Report, _ *Window) {
			r.GPU = []bench.GPUSample{{Reasons: []string{"power"}}, {}, {}}
		}, "throttled", "in 1 of 3 readings: power 33%", trust.CheckClocks, record.Fail},
		{"somebody else", func(r *bench.Report, _ *Window) {
			r.Neighbours = []bench.GPUProcess{{PID: 7, User: "anna", Name: "python", MiB: 900}}
		}, "shared-host", "anna's python, 900 MiB (pid 7)", trust.CheckAlone, record.Fail},
		{"nobody else", func(r *bench.Report, _ *Window) { r.UsersRead = true }, "-shared-host", "", trust.CheckAlone, record.Pass},
		{"who else cannot be told", func(*bench.Report, *Window) {}, "-shared-host", "", trust.CheckAlone, record.NotCheckable},
		{"counters that went back", func(r *bench.Report, _ *Window) { r.Restarted = true }, "-shared-host", "", trust.CheckAlive, record.Fail},
		{"a warm-up that did not settle", func(_ *bench.Report, w *Window) { w.Warmup = &bench.Warmup{Auto: true, Sent: 5, Spread: 0.04} }, "noisy", "4.0 % apart", trust.CheckAlive, record.Pass},
		{"a server frozen for three seconds", func(r *bench.Report, _ *Window) {
			for k := range 3 {
				q := r.Requests[0]
				q.Index, q.ChunkUs = k, chunks(100, 20, 50, 3000*float64(k%2))
				r.Requests = append(r.Requests, q)
			}
			r.Requests = r.Requests[1:]
		}, "noisy", "request 1 got nothing for 3.0 s", trust.CheckAlive, record.Pass},
		{"a longer request, slower with its context", func(r *bench.Report, _ *Window) {
			q := r.Requests[0]
			q.Index = 1
			q.ChunkUs = append(chunks(100, 20, -1, 0), chunks(100, 30, -1, 0)...)
			for i := 101; i < len(q.ChunkUs); i++ {
				q.ChunkUs[i] += q.ChunkUs[100] + 30_000
			}
			r.Requests[0].ChunkUs = chunks(100, 20.1, -1, 0)
			r.Requests = append(r.Requests, q)
		}, "-noisy", "", trust.CheckAlive, record.Pass},
		{"traffic of somebody else", func(r *bench.Report, _ *Window) {
			r.ServerCounters = map[string]float64{"generation_tokens": 400}
		}, "disagree", trust.CheckTokens, trust.CheckTokens, record.Fail},
		{"all tokens are ours", func(r *bench.Report, _ *Window) {
			r.ServerCounters = map[string]float64{"generation_tokens": 181}
		}, "-disagree", "", trust.CheckTokens, record.Pass},
		{"a batch that drains", func(_ *bench.Report, w *Window) {
			w.Log = []byte(strings.Replace(string(w.Log), `"batch_min":1,"batch_max":1`, `"batch_min":2,"batch_max":2`, 4))
		}, "mixed-batch", "25.0 % of 100 cycles", trust.CheckCycles, record.Pass},
		{"a row of two sizes", func(_ *bench.Report, w *Window) {
			w.Log = []byte(strings.Replace(string(w.Log), `"batch_min":1,"batch_max":1`, `"batch_min":1,"batch_max":2`, 2))
		}, "mixed-batch", "25.0 % of 100 cycles", trust.CheckCycles, record.Pass},
		{"other text", func(_ *bench.Report, w *Window) { w.OutputsSHA = "other" }, "output-changed", "", trust.CheckOutputs, record.Fail},
		{"other text of several at once", func(_ *bench.Report, w *Window) { w.OutputsSHA, w.Cell.Bench.Concurrency = "other", 4 }, "-output-changed", "", trust.CheckOutputs, record.NotCheckable},
		{"other text of several at once, where batches do not matter", func(_ *bench.Report, w *Window) {
			w.OutputsSHA, w.Cell.Bench.Concurrency = "other", 4
			w.Cell.Server.Flags = append(w.Cell.Server.Flags, ServerFlag{Name: "enable-deterministic-inference", Kind: flagBare})
		}, "output-changed", "", trust.CheckOutputs, record.Fail},
		{"other text of several at once, where the server says that batches do not matter", func(_ *bench.Report, w *Window) {
			w.OutputsSHA, w.Cell.Bench.Concurrency = "other", 4
			w.Checked.Effective["enable_deterministic_inference"] = "true"
		}, "output-changed", "", trust.CheckOutputs, record.Fail},
		{"other text, but sampled", func(_ *bench.Report, w *Window) { w.OutputsSHA, w.Cell.Bench.Temperature = "other", 0.7 }, "-output-changed", "", trust.CheckOutputs, record.NotCheckable},
		{"other text, but drawn", func(_ *bench.Report, w *Window) {
			w.OutputsSHA = "other"
			w.Checked.simulates(map[string]string{"SGLANG_SIMULATE_ACC_LEN": "2.3"})
		}, "-output-changed", "", trust.CheckOutputs, record.NotCheckable},
		{"other text than the baseline's", func(r *bench.Report, w *Window) {
			r.Requests[0].Output, r.Requests[0].OutputSHA = "one two three", "a"
			q := r.Requests[0]
			q.Output, q.OutputSHA = "one two four", "b"
			w.BaselineRequests = []bench.Request{q}
		}, "-output-changed", "", trust.CheckBaseline, record.NotCheckable},
		{"the baseline's text", func(r *bench.Report, w *Window) { w.BaselineRequests = slices.Clone(r.Requests) }, "-output-changed", "", trust.CheckBaseline, record.Pass},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, names := labels(t, window(t, func(r *bench.Report, w *Window) {
				w.Cell.Bench.Temperature = 0
				c.edit(r, w)
			}))
			if name, not := strings.CutPrefix(c.label, "-"); not {
				if slices.Contains(strings.Fields(names), name) {
					t.Errorf("labels: %+v", d.Labels)
				}
			} else if !slices.ContainsFunc(d.Labels, func(l record.Label) bool { return l.Name == name && strings.Contains(l.Reason, c.part) }) {
				t.Errorf("no %s with %q: %+v", name, c.part, d.Labels)
			}
			if got := check(t, d, c.check); got.Outcome != c.want {
				t.Errorf("%s: %s: %s", got.Name, got.Outcome, got.Explanation)
			}
		})
	}
}

func TestCollect_NamesTheFirstDifferenceFromTheBaseline(t *testing.T) {
	t.Parallel()
	d, _ := labels(t, window(t, func(r *bench.Report, w *Window) {
		w.Cell.Bench.Temperature = 0
		r.Requests[0].Output, r.Requests[0].OutputSHA = "one two three", "a"
		q := r.Requests[0]
		q.Output, q.OutputSHA = "one two four", "b"
		w.BaselineRequests = []bench.Request{q}
	}))
	if c := check(t, d, trust.CheckBaseline); c.Left != 0 || c.Right != 8 {
		t.Errorf("%+v", c)
	}
}

// The profiler of the story, whose rows say that they leave out the bonus token.
func TestCollect_SplitsTheStorysGap(t *testing.T) {
	t.Parallel()
	d, names := labels(t, window(t, func(r *bench.Report, w *Window) {
		log := ""
		for line := range strings.Lines(string(w.Log)) {
			line = strings.Replace(line, `"tokens":45`, `"tokens":20`, 1)
			log += strings.Replace(line, `"steps":2`, `"bonus":false,"steps":2`, 1)
		}
		r.LogEnd += int64(len(log) - len(w.Log))
		w.Log = []byte(log)
		r.Requests[0].VerifyCalls = 100
	}))
	for name, want := range map[string]float64{"gap_ratio": 2.261, "gap_acceptance": 2.25, "gap_cycle": 1.005, "gap_rest": 1} {
		if got := metric(d, name, "derived"); math.Abs(got-want) > 0.001 {
			t.Errorf("%s %.4f, want %.4f", name, got, want)
		}
	}
	if c := check(t, d, trust.CheckClaim); c.Outcome != record.Fail || !strings.Contains(c.Explanation, "does not count the bonus token") || !strings.Contains(names, "disagree") {
		t.Errorf("%+v; labels %s", c, names)
	}
	if got := metric(d, "accept_len", "profiler"); got != 1.8 {
		t.Errorf("accept_len %v", got)
	}
}

// Rows and lines of the same part of a log are compared, whatever else is in it.
func TestSameSpan(t *testing.T) {
	t.Parallel()
	log := fmt.Sprintf(storyPrefill, 9, 0) + profileRow(90, "h", 25)
	log += fmt.Sprintf(storyDecode, 1.8, 9.) // after a prefill: its time holds more than cycles
	for i := range 4 {
		log += profileRow(100+float64(i), "h", 45) + fmt.Sprintf(storyDecode, 1.8, 90.)
	}
	log += profileRow(110, "h", 25)
	read := func(log string) ([]metrics.ProfilerRow, []metrics.DecodeLine) {
		f := metrics.NewFollower()
		f.Write([]byte(log))
		f.Close()
		return f.Rows(), f.Decode()
	}
	rows, decode := read(log)
	s := sameSpan(rows, decode, metrics.Window{})
	if s == nil || math.Abs(s.Profiler-90) > 1e-9 || math.Abs(s.Server-90) > 1e-9 || s.Lines != 4 || s.RequestCycles != 100 || s.AcceptLen != 1.8 {
		t.Errorf("%+v", s)
	}
	few, lines := read(log[:strings.LastIndex(log, "[2026")])
	if s := sameSpan(few, lines, metrics.Window{}); s != nil {
		t.Errorf("of too few cycles: %+v", s)
	}
	two, lines := read(strings.Replace(log, "10:00:00] Decode", "10:00:00 DP1] Decode", 1))
	if s := sameSpan(two, lines, metrics.Window{}); s != nil {
		t.Errorf("of two ranks: %+v", s)
	}
}

// A sweep over the load sends other prompts, which are no fault.
func TestFirsts_PromptsAreThoseOfOneLoad(t *testing.T) {
	t.Parallel()
	cell := func(requests, concurrency int, seed int64) Cell {
		return Cell{Bench: BenchPlan{Prompts: bench.BuiltinChat, Requests: requests, Concurrency: concurrency, Seed: seed}}
	}
	f := firsts{}
	f.note(cell(8, 1, 1), BenchReport{PromptsSHA: "eight"})
	f.recall(cell(16, 1, 1), []record.Fact{{Group: "workload", Key: promptsKey, Value: "sixteen"}})
	f.note(cell(8, 1, 1), BenchReport{PromptsSHA: "others"})
	for _, c := range []struct {
		cell Cell
		want string
	}{{cell(8, 1, 1), "eight"}, {cell(8, 4, 1), "eight"}, {cell(16, 1, 1), "sixteen"}, {cell(8, 1, 2), ""}} {
		w := Window{Cell: c.cell}
		if f.fill(&w); w.PromptsSHA != c.want {
			t.Errorf("%+v: %q, want %q", c.cell.Bench, w.PromptsSHA, c.want)
		}
	}
}

func TestFirsts_KeepTheFirstBaselinesText(t *testing.T) {
	t.Parallel()
	raw := func(text string) BenchReport {
		return BenchReport{PromptsSHA: "p", OutputsSHA: text, Raw: []byte(`{"requests":[{"index":0,"output":"` + text + `"}]}`)}
	}
	base := Cell{Baseline: true}
	f := firsts{}
	f.note(Cell{}, raw("fast"))
	f.note(base, raw("first"))
	f.note(base, raw("second"))
	w := Window{Cell: Cell{}}
	f.fill(&w)
	if len(w.BaselineRequests) != 1 || w.BaselineRequests[0].Output != "first" || w.PromptsSHA != "p" || w.OutputsSHA != "fast" {
		t.Errorf("%+v", w)
	}
	w = Window{Cell: base}
	if f.fill(&w); w.BaselineRequests != nil {
		t.Error("a baseline is compared with itself")
	}
	sampled := firsts{}
	sampled.note(Cell{Baseline: true, Bench: BenchPlan{Temperature: 1}}, raw("x"))
	if sampled.baseline != nil {
		t.Error("sampled text is kept")
	}
}
