package trust

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"specrun/experiments/record"
)

func metric(name, source string, v float64) record.Metric {
	return record.Metric{Name: name, Source: source, Value: v, N: 1}
}

// good is a run of two steps that nothing is wrong with: the numbers of the
// practice host's model.
func good() Input {
	return Input{
		Concurrency: 1, Steps: 2,
		Metrics: []record.Metric{
			metric("cycle_total", "profiler", 20.1), metric("accept_len", "profiler", 1.874), {Name: "accept_len", Source: "server_log", Value: 1.88, N: 50},
			metric("tpot_mean", "client", 10.73), {Name: "gen_throughput", Source: "server_log", Value: 93.0, N: 50},
			metric("cycle_draft", "profiler", 1.4), metric("cycle_verify", "profiler", 18.0), metric("cycle_extend", "profiler", 0.7),
			metric("completed", "client", 3), metric("failed", "client", 0),
			metric("steady_throughput", "client", 93.2), {Name: "accept_len", Source: "per_request", Value: 1.872, N: 534}, metric("claimed_accept_len", "profiler", 1.874),
		},
		Cycles: &Cycles{Counted: 100, Mixed: 5, MeanBatch: 1}, CyclesExpected: true,
		Requests: []Request{{MsPerChunk: 10.0, PromptTokens: 100, CachedTokens: 1}, {MsPerChunk: 10.1, PromptTokens: 100, CachedTokens: 1}, {MsPerChunk: 10.3, PromptTokens: 100, CachedTokens: 1}},
		Patches:  []string{"profiling-v5"}, PatchLive: Yes, Probe: ProbeEvents,
		SpeculationSigns: []string{"speculative_algorithm is EAGLE3"}, Profilers: []string{"profiling-v5 1 (content abc)"},
		Warmup: &Warmup{Judged: true, Settled: true, Sent: 3, Spread: 0.02}, Baseline: &Difference{Same: true},
		ConfigRead: true, ServerAlive: Yes, CompiledInWindow: No,
		PromptsSHA: "p", SweepPromptsSHA: "p", OutputsSHA: "o", ShapeOutputsSHA: "o",
		ClientTokens: 1000, ServerTokens: 1000, GPUSamples: 100, ThrottledSamples: 5, NeighboursRead: true, ClientWatched: true, ClientMs: 30_000, RunningMost: 1, PromptSent: 300, LoggedPrompt: 300,
		Sums: &Sums{LogLines: 3, LogDrafted: 400, LogAccepted: 200, CountedDrafted: 400, CountedAccepted: 200},
	}
}

// with sets a metric's value; NaN takes it away.
func with(in Input, name, source string, v float64) Input {
	ms := slices.DeleteFunc(slices.Clone(in.Metrics), func(m record.Metric) bool { return m.Name == name && m.Source == source })
	if !math.IsNaN(v) {
		m := metric(name, source, v)
		m.N = 50
		ms = append(ms, m)
	}
	in.Metrics = ms
	return in
}

// four is the run with four requests at once: what the client received in all of
// the steady part has the prefills of those that joined in it.
func four(in Input) Input {
	in.Concurrency = 4
	in.Cycles.MeanBatch, in.Cycles.Counted = 4, 300
	in = with(with(in, "max_concurrency", "client", 4), "batch_mean", "profiler", 4)
	in = with(with(in, "steady_throughput", "client", 4*80), "tpot", "client", 1000/80.)
	return with(in, "tpot_undisturbed", "client", 10.72)
}

// baseline is a run without speculation.
func baseline(in Input) Input {
	in.Steps, in.SpeculationSigns, in.Cycles, in.Profilers, in.Patches, in.Probe, in.Baseline = 0, nil, nil, nil, nil, "", nil
	for _, name := range []string{"cycle_total", "cycle_draft", "cycle_verify", "cycle_extend", "claimed_accept_len"} {
		in = with(in, name, "profiler", math.NaN())
	}
	for _, source := range []string{"profiler", "server_log", "per_request"} {
		in = with(in, "accept_len", source, math.NaN())
	}
	return in
}

func names(ls []record.Label) []string {
	var out []string
	for _, l := range ls {
		out = append(out, l.Name)
	}
	return out
}

func TestAssess_GoodRunHasNoLabelAndPassesAll(t *testing.T) {
	labels, checks := Assess(good())
	if len(labels) != 0 {
		t.Errorf("labels: %+v", labels)
	}
	for _, c := range checks {
		if c.Outcome != record.Pass {
			t.Errorf("%s: %s: %s", c.Name, c.Outcome, c.Explanation)
		}
	}
}

// Each rule at its limit: the good run lies on the good side of every one.
func TestAssess_Labels(t *testing.T) {
	nan := math.NaN()
	for _, tc := range []struct {
		name   string
		change func(*Input)
		want   []string
		reason string // a part of the first label's
	}{
		{"sync", func(in *Input) { in.Probe = ProbeSync }, []string{SyncProbe}, "profiling-v5"},
		{"light", func(in *Input) { in.Probe = ProbeLight }, []string{Indicative}, "profiling-v5"},
		{"light without phases", func(in *Input) {
			in.Probe = ProbeLight
			for _, p := range []string{"cycle_draft", "cycle_verify", "cycle_extend"} {
				*in = with(*in, p, "profiler", nan)
			}
		}, nil, ""},
		{"requests disagree", func(in *Input) { in.Requests[2].MsPerChunk = 10.31 }, []string{Noisy}, "3.1 %"},
		{"a failed request's time does not count", func(in *Input) { in.Requests[2].MsPerChunk = 99; in.Requests[2].Failed = true }, nil, ""},
		{"more requests do not disagree more", func(in *Input) {
			in.Requests = nil
			for i := range 64 { // a spread of 1 %, 4 % from end to end
				in.Requests = append(in.Requests, Request{MsPerChunk: 10 * (1 + 0.01*math.Sqrt2*math.Erfinv(2*(float64(i)+0.5)/64-1)), CachedTokens: -1})
			}
		}, nil, ""},
		{"many requests that disagree", func(in *Input) {
			in.Requests = nil
			for i := range 64 {
				in.Requests = append(in.Requests, Request{MsPerChunk: 10 + 0.4*float64(i%2), CachedTokens: -1})
			}
		}, []string{Noisy}, "3.3 % between the slowest and the fastest of three requests"},
		{"one request cannot disagree", func(in *Input) { in.Requests = in.Requests[:1] }, nil, ""},
		{"a silence of over a second", func(in *Input) { in.Requests[1].MsSilent, in.Requests[1].MsUsual = 1001, 20 }, []string{Noisy}, "request 1 got nothing for 1.0 s"},
		{"a silence of a second", func(in *Input) { in.Requests[1].MsSilent, in.Requests[1].MsUsual = 1000, 20 }, nil, ""},
		{"a silence usual there", func(in *Input) { in.Requests[1].MsSilent, in.Requests[1].MsUsual = 2000, 100 }, nil, ""},
		{"no warm-up settled", func(in *Input) { in.Warmup = &Warmup{Judged: true, Sent: 5, Spread: 0.031} }, []string{Noisy}, "did not settle in 5 requests: the last two are 3.1 % apart"},
		{"a warm-up that was not judged", func(in *Input) { in.Warmup = &Warmup{Sent: 1, Spread: -1} }, nil, ""},
		{"99 cycles", func(in *Input) { in.Cycles.Counted, in.Cycles.Mixed = 99, 0 }, []string{Short}, "99 cycles"},
		{"6 of 100 cycles mixed", func(in *Input) { in.Cycles.Mixed = 6 }, []string{MixedBatch}, "6.0 %"},
		{"a quarter of the benchmark is ramp or drain", func(in *Input) { in.Cycles.WholeCounted, in.Cycles.WholeMixed = 200, 50 }, nil, ""},
		{"more than a quarter is", func(in *Input) { in.Cycles.WholeCounted, in.Cycles.WholeMixed = 200, 51 }, []string{MixedBatch}, "25.5 % of the benchmark's 200 cycles"},
		{"a failure by the client's count", func(in *Input) { *in = with(*in, "failed", "client", 1) }, []string{Partial}, "1 of 4"},
		{"a failure by the requests", func(in *Input) {
			*in = with(*in, "failed", "client", nan)
			in.Requests[0].Failed = true
		}, []string{Partial}, "1 of 3"},
		{"4 of 300 tokens cached", func(in *Input) { in.Requests[0].CachedTokens = 2 }, []string{CacheWarm}, "4 of 300"},
		{"cache unknown", func(in *Input) {
			for i := range in.Requests {
				in.Requests[i].CachedTokens = -1
			}
		}, nil, ""},
		{"cached by the log", func(in *Input) {
			for i := range in.Requests {
				in.Requests[i].CachedTokens = -1
			}
			in.LogCached, in.LogPrompt = 4, 300
		}, []string{CacheWarm}, "4 of 300 prompt tokens cached, by the server log"},
		{"compiled", func(in *Input) { in.CompiledInWindow, in.CompileEvidence = Yes, "files came to ~/.cache/x" }, []string{JIT}, "~/.cache/x"},
		{"a baseline that speculates", func(in *Input) { *in = baseline(*in); in.SpeculationSigns = []string{"accept length 1.87"} }, []string{ConfigMismatch}, "the baseline speculates: accept length 1.87"},
		{"other text", func(in *Input) { in.OutputsSHA = "q" }, []string{OutputChanged}, ""},
		{"a server of somebody else", func(in *Input) { in.Attached = true }, []string{Attached}, ""},
		{"other text on the practice host", func(in *Input) { in.OutputsSHA, in.SimulatedBecause = "q", "practice host" }, []string{OutputChanged, Simulated}, ""},
		{"other text where acceptance is drawn", func(in *Input) { in.OutputsSHA, in.AcceptanceSimulated = "q", true }, nil, ""},
		{"two measurements differ", func(in *Input) { *in = with(*in, "gen_throughput", "server_log", 80) }, []string{Disagree}, CheckThroughput},
		{"a claim that the benchmark contradicts", func(in *Input) { *in = with(*in, "claimed_accept_len", "profiler", 0.874) }, []string{Disagree}, CheckClaim},
		{"a check of one thing fails", func(in *Input) { in.ServerAlive = No }, nil, ""},
		{"mismatch", func(in *Input) { in.Mismatches = []Mismatch{{"tp-size", "8", "4"}, {"a", "1", "2"}} }, []string{ConfigMismatch}, "tp-size: asked 8, is 4; a: asked 1, is 2"},
		{"patch not seen", func(in *Input) { in.PatchLive = Unknown }, []string{PatchUnverified}, "profiling-v5"},
		{"patch not there", func(in *Input) { in.PatchLive = No }, []string{PatchUnverified}, "profiling-v5"},
		{"no patch to see", func(in *Input) { in.Patches, in.PatchLive, in.Probe = nil, Unknown, "" }, nil, ""},
		{"6 of 100 samples throttled", func(in *Input) { in.ThrottledSamples = 6 }, []string{Throttled}, "6 of 100"},
		{"tunnel", func(in *Input) { in.OnController = true }, []string{Tunnel}, ""},
		{"neighbours", func(in *Input) { in.Neighbours = []string{"pid 7 of anna"} }, []string{SharedHost}, "pid 7 of anna"},
		{"no TOTAL", func(in *Input) { *in = with(*in, "cycle_total", "profiler", nan) }, []string{TotalUnknown}, "was to count cycles"},
		{"no TOTAL where nobody was to count", func(in *Input) {
			*in = with(*in, "cycle_total", "profiler", nan)
			in.CyclesExpected, in.Cycles, in.Profilers, in.Patches, in.Probe = false, nil, nil, nil, ""
		}, nil, ""},
		{"a TOTAL of unknown span", func(in *Input) { in.TotalUnstated = "text blocks" }, []string{TotalUnknown}, "text blocks"},
		{"no TOTAL in a log that would not say", func(in *Input) {
			*in = with(*in, "cycle_total", "profiler", nan)
			in.TotalUnstated, in.CyclesExpected = "text blocks", false
		}, nil, ""},
		{"no TOTAL without speculation", func(in *Input) { *in = baseline(*in) }, nil, ""},
		{"TOTAL printed as NaN", func(in *Input) { in.Metrics[0].Value = nan }, []string{TotalUnknown}, ""},
		{"pre-edited", func(in *Input) { in.PreEdited = []string{"/x/eagle_worker.py"} }, []string{PreEdited}, "/x/eagle_worker.py"},
		{"several, in the order of the table", func(in *Input) {
			in.SimulatedBecause, in.Imported, in.Cycles.Counted, in.Probe = "practice host", true, 50, ProbeSync
		}, []string{SyncProbe, Short, MixedBatch, Imported, Simulated}, ""},
	} {
		in := good()
		tc.change(&in)
		labels, _ := Assess(in)
		if diff := cmp.Diff(tc.want, names(labels)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		} else if len(labels) > 0 && !strings.Contains(labels[0].Reason, tc.reason) {
			t.Errorf("%s: reason %q does not contain %q", tc.name, labels[0].Reason, tc.reason)
		}
	}
}

func TestAssessCell(t *testing.T) {
	for _, tc := range []struct {
		runs, launches int
		want           []string
	}{{0, 0, nil}, {1, 1, []string{Single}}, {3, 1, nil}, {2, 2, []string{FewRounds}}, {5, 5, []string{FewRounds}}, {6, 6, nil}, {12, 6, nil}, {15, 5, []string{FewRounds}}} {
		if diff := cmp.Diff(tc.want, names(AssessCell(record.CellFacts{Runs: tc.runs, Launches: tc.launches}))); diff != "" {
			t.Errorf("%d runs, %d launches (-want +got):\n%s", tc.runs, tc.launches, diff)
		}
	}
}

func TestAssess_Checks(t *testing.T) {
	nan := math.NaN()
	set := func(name, source string, v float64) func(*Input) {
		return func(in *Input) { *in = with(*in, name, source, v) }
	}
	for _, tc := range []struct {
		check  string
		name   string
		change func(*Input)
		want   record.Outcome
		part   string // of the explanation
	}{
		{CheckTPOT, "3 % off passes", set("tpot_mean", "client", 20.1/1.874*1.0299), record.Pass, "3.0 % apart"},
		{CheckTPOT, "more fails", set("tpot_mean", "client", 20.1/1.874*1.0301), record.Fail, "over 3.0 % apart, limit 3.0 %"},
		{CheckTPOT, "an unknown number at a time", func(in *Input) { in.Concurrency = 0 }, record.NotCheckable, "how many there were is unknown"},
		{CheckTPOT, "two at a time", func(in *Input) { in.Concurrency = 2 }, record.NotCheckable, "one request"},
		{CheckTPOT, "batch above 1", func(in *Input) { in.Cycles.MeanBatch = 1.5 }, record.NotCheckable, "1.50"},
		{CheckTPOT, "baseline", func(in *Input) { in.Steps = 0 }, record.NotCheckable, "no speculation"},
		{CheckTPOT, "no TPOT", set("tpot_mean", "client", nan), record.NotCheckable, "no tpot"},
		{CheckTPOT, "the ratio of sums goes first", set("tpot", "client", 12), record.Fail, "12.00 ms"},
		{CheckTPOT, "no accept length", func(in *Input) {
			for _, source := range []string{"profiler", "server_log", "per_request"} {
				*in = with(*in, "accept_len", source, nan)
			}
		}, record.NotCheckable, "no accept_len"},
		{CheckThroughput, "four at a time", func(in *Input) {
			in.Concurrency, in.Cycles.MeanBatch = 4, 4
			in.Span = &Span{Profiler: 372, Server: 370, AcceptLen: 1.874, Lines: 40, RequestCycles: 1500}
		}, record.Pass, "server log 370.0"},
		{CheckThroughput, "four at a time, in no common span", func(in *Input) { in.Concurrency, in.Cycles.MeanBatch = 4, 4 }, record.NotCheckable, "one batch size"},
		{CheckThroughput, "half", set("gen_throughput", "server_log", 46), record.Fail, ""},
		{CheckThroughput, "no profiler", func(in *Input) { in.Cycles = nil }, record.NotCheckable, ""},
		// The story: drafts counted without the bonus.
		{CheckAcceptSources, "bonus", set("accept_len", "profiler", 0.88), record.Fail, "does not count the bonus token"},
		{CheckAcceptSources, "other", func(in *Input) { in.Cycles.Counted = 530; *in = with(*in, "accept_len", "profiler", 1.78) }, record.Fail, "5.3 % apart, limit 5.0 %"},
		{CheckAcceptSources, "other, of 100 cycles of 534", set("accept_len", "profiler", 1.5), record.Fail, "limit 9.5 %"},
		{CheckAcceptSources, "one source", func(in *Input) {
			*in = with(with(*in, "accept_len", "server_log", nan), "accept_len", "per_request", nan)
		}, record.NotCheckable, "only the profiler"},
		{CheckAcceptSources, "requests instead", set("accept_len", "server_log", nan), record.Pass, "requests 1.87"},
		{CheckAcceptSources, "the log is the odd one", set("accept_len", "server_log", 1.7), record.Fail, "server log 1.70"},
		{CheckAcceptSources, "the requests are the odd one", set("accept_len", "per_request", 1.7), record.Fail, "server log 1.88, requests 1.70"},
		{CheckAcceptSources, "a few lines of the log may differ", func(in *Input) {
			in.Metrics = append(with(*in, "accept_len", "server_log", nan).Metrics, record.Metric{Name: "accept_len", Source: "server_log", Value: 1.7, N: 2})
		}, record.Pass, "limit 11.6 %"},
		{CheckAcceptSources, "but not by a token", func(in *Input) {
			in.Metrics = append(with(*in, "accept_len", "server_log", nan).Metrics, record.Metric{Name: "accept_len", Source: "server_log", Value: 2.874, N: 2})
		}, record.Fail, "does not count the bonus token"},
		{CheckThroughput, "over one span", func(in *Input) {
			in.Span = &Span{Profiler: 80, Server: 81, AcceptLen: 1.874, Lines: 40, RequestCycles: 1500}
		}, record.Pass, "profiler 80.0 tok/s, server log 81.0"},
		{CheckThroughput, "over one span, apart", func(in *Input) {
			in.Span = &Span{Profiler: 80, Server: 93, AcceptLen: 1.874, Lines: 40, RequestCycles: 1500}
		}, record.Fail, ""},
		{CheckSteady, "5 % off passes", set("steady_throughput", "client", 93.2*0.9505), record.Pass, "5.0 %"},
		{CheckSteady, "more fails", set("steady_throughput", "client", 93.2*0.945), record.Fail, "profiler 93.2"},
		{CheckSteady, "four at once, with prefills between", func(in *Input) { *in = four(*in) }, record.Pass, "client 373.1 tok/s without ramp, drain and prefills, profiler 372.9"},
		{CheckSteady, "four at once, slower by 6 %", func(in *Input) { *in = with(four(*in), "tpot_undisturbed", "client", 1.06*10.72) }, record.Fail, "5.6 % apart"},
		{CheckSteady, "four at once, in ramp and drain", func(in *Input) { *in = four(*in); in.Ramp = true }, record.NotCheckable, "ramp and drain"},
		{CheckSteady, "four at once, prefills all the time", func(in *Input) { *in = with(four(*in), "tpot_undisturbed", "client", nan) }, record.NotCheckable, "without a prefill"},
		{CheckClaim, "four at once, with prefills between", func(in *Input) { *in = four(*in) }, record.Pass, "profiler 372.9 tok/s at accept length 1.87, benchmark 373.1"},
		{CheckClaim, "four at once, a cycle of other length", func(in *Input) { *in = with(four(*in), "tpot_undisturbed", "client", 1.1*10.72) }, record.Fail, "cycle 20.1 ms by the profiler, 22.1 by the benchmark"},
		{CheckClaim, "four at once, in ramp and drain", func(in *Input) { *in = four(*in); in.Ramp = true }, record.Pass, "accept length of the profiler 1.87, requests 1.87"},
		{CheckClaim, "four at once, in ramp and drain, the bonus left out", func(in *Input) {
			*in = with(four(*in), "claimed_accept_len", "profiler", 0.874)
			in.Ramp = true
		}, record.Fail, "accept length of the profiler 0.87, requests 1.87"},
		{CheckSteady, "none", set("steady_throughput", "client", nan), record.NotCheckable, "no steady"},
		{CheckSteady, "a baseline by the log", func(in *Input) { *in = baseline(*in) }, record.Pass, "server log 93.0"},
		{CheckSteady, "a baseline by too little of the log", func(in *Input) {
			*in = with(baseline(*in), "gen_throughput", "server_log", nan)
			in.Metrics = append(in.Metrics, record.Metric{Name: "gen_throughput", Source: "server_log", Value: 93, N: 4})
		}, record.NotCheckable, "only 4 lines"},
		{CheckSteady, "a batch without a profiler", func(in *Input) { in.Cycles, in.Concurrency = nil, 4 }, record.NotCheckable, "no profiler"},
		{CheckClaim, "the story", func(in *Input) {
			*in = with(with(*in, "claimed_accept_len", "profiler", 0.874), "claimed_throughput", "profiler", 43.5)
		}, record.Fail, "43.5 -> 93.2 tok/s: x2.14 = x2.14 (accept length 0.874 does not count the bonus token: 1.872)"},
		{CheckClaim, "5 % off passes", set("claimed_throughput", "profiler", 93.2*0.955), record.Pass, "profiler 89.0 tok/s"},
		{CheckClaim, "a slow claim at the right accept length", set("claimed_throughput", "profiler", 80), record.Fail, "not explained"},
		{CheckClaim, "no claim", set("claimed_accept_len", "profiler", nan), record.NotCheckable, "states no speed"},
		{CheckClaim, "no benchmark", set("tpot_mean", "client", nan), record.NotCheckable, "benchmark"},
		{CheckSpeculation, "a baseline without a sign", func(in *Input) { *in = baseline(*in) }, record.Pass, "none asked"},
		{CheckSpeculation, "a baseline that speculates", func(in *Input) { *in = baseline(*in); in.SpeculationSigns = []string{"x"} }, record.Fail, "asked for none, but: x"},
		{CheckSpeculation, "a silent baseline", func(in *Input) { *in = baseline(*in); in.ConfigRead = false }, record.NotCheckable, ""},
		{CheckSpeculation, "no sign where it was asked for", func(in *Input) { in.SpeculationSigns = nil }, record.NotCheckable, ""},
		{CheckOneProfiler, "two", func(in *Input) { in.Profilers = append(in.Profilers, "profiling-v5 2 (content def)") }, record.Fail, "content def"},
		{CheckOneProfiler, "none", func(in *Input) { in.Profilers = nil }, record.NotCheckable, "no profiler"},
		{CheckClocks, "6 of 100", func(in *Input) { in.ThrottledSamples, in.ThrottleReasons = 6, "power 6%" }, record.Fail, "6 of 100 readings: power 6%"},
		{CheckClocks, "5 of 100", func(*Input) {}, record.Pass, "5 of 100"},
		{CheckClocks, "no readings", func(in *Input) { in.GPUSamples = 0 }, record.NotCheckable, ""},
		{CheckAlone, "somebody", func(in *Input) { in.Neighbours = []string{"anna's python"} }, record.Fail, "anna's python"},
		{CheckAlone, "not read", func(in *Input) { in.NeighboursRead = false }, record.NotCheckable, "could not be read"},
		{CheckCompile, "compiled", func(in *Input) { in.CompiledInWindow, in.CompileEvidence = Yes, "nvcc ran" }, record.Fail, "nvcc ran"},
		{CheckCompile, "unknown", func(in *Input) { in.CompiledInWindow = Unknown }, record.NotCheckable, ""},
		{CheckBaseline, "parts", func(in *Input) { in.Baseline = &Difference{Request: 2, At: 812} }, record.NotCheckable, "request 2 differs from the baseline's from character 812"},
		{CheckBaseline, "none", func(in *Input) { in.Baseline = nil }, record.NotCheckable, "no greedy outputs"},
		{CheckBaseline, "itself", func(in *Input) { *in = baseline(*in) }, record.NotCheckable, "this is a baseline"},
		{CheckAcceptRange, "below 1 by the log", set("accept_len", "server_log", 0.98), record.Fail, "0.98 of the server log"},
		{CheckAcceptRange, "below 1", set("accept_len", "profiler", 0.98), record.Fail, "bonus token is not counted"},
		{CheckAcceptRange, "nothing accepted", set("accept_len", "profiler", 1), record.Pass, ""},
		{CheckAcceptRange, "all accepted", set("accept_len", "profiler", 3), record.Pass, ""},
		{CheckAcceptRange, "more than possible", set("accept_len", "profiler", 3.01), record.Fail, "1 to 3"},
		{CheckPhases, "more than TOTAL", set("cycle_verify", "profiler", 26), record.Fail, "140 %"},
		{CheckPhases, "no phases", func(in *Input) {
			in.Metrics = []record.Metric{metric("cycle_total", "profiler", 20)}
		}, record.NotCheckable, "no phases"},
		{CheckTokens, "1 % off passes", func(in *Input) { in.ServerTokens = 1010 }, record.Pass, "server 1010"},
		{CheckTokens, "foreign traffic", func(in *Input) { in.ServerTokens = 2000 }, record.Fail, "50.0 %"},
		{CheckTokens, "after a failure", func(in *Input) { in.ServerTokens = 2000; *in = with(*in, "failed", "client", 1) }, record.NotCheckable, "failed requests"},
		{CheckTokens, "unknown", func(in *Input) { in.ServerTokens = 0 }, record.NotCheckable, "no tokens of the server"},
		{CheckRequests, "one failed", set("failed", "client", 1), record.Fail, "3 of 4"},
		{CheckRequests, "failures, but not of how many", func(in *Input) {
			*in = with(with(*in, "failed", "client", 2), "completed", "client", nan)
		}, record.Fail, "2 requests failed"},
		{CheckRequests, "nothing known", func(in *Input) { in.Metrics, in.Requests = nil, nil }, record.NotCheckable, ""},
		{CheckCycles, "too few", func(in *Input) { in.Cycles.Counted = 99 }, record.Fail, "99"},
		{CheckCycles, "no profiler", func(in *Input) { in.Cycles = nil }, record.NotCheckable, ""},
		{CheckCache, "warm", func(in *Input) { in.Requests[1].CachedTokens = 90 }, record.Fail, "92 of 300"},
		{CheckCache, "silent server", func(in *Input) { in.Requests = nil }, record.NotCheckable, ""},
		{CheckConfig, "differs", func(in *Input) { in.Mismatches = []Mismatch{{"tp-size", "8", "4"}} }, record.Fail, "asked 8, is 4"},
		{CheckConfig, "unread", func(in *Input) { in.ConfigRead = false }, record.NotCheckable, ""},
		{CheckPatch, "unknown", func(in *Input) { in.PatchLive = Unknown }, record.NotCheckable, "profiling-v5"},
		{CheckPatch, "not loaded", func(in *Input) { in.PatchLive = No }, record.Fail, "without profiling-v5"},
		{CheckPatch, "none", func(in *Input) { in.Patches = nil }, record.NotCheckable, "no patches"},
		{CheckAlive, "ended", func(in *Input) { in.ServerAlive = No }, record.Fail, "ended"},
		{CheckAlive, "unknown", func(in *Input) { in.ServerAlive = Unknown }, record.NotCheckable, ""},
		{CheckPrompts, "others", func(in *Input) { in.PromptsSHA = "q" }, record.Fail, "other prompts"},
		{CheckPrompts, "first run", func(in *Input) { in.SweepPromptsSHA = "" }, record.NotCheckable, ""},
		{CheckOutputs, "others", func(in *Input) { in.OutputsSHA = "q" }, record.Fail, "other greedy outputs"},
		{CheckOutputs, "of several at once", func(in *Input) { in.OutputsSHA = "q"; in.Concurrency = 2 }, record.NotCheckable, "depends on the batch"},
		{CheckOutputs, "of several at once, deterministic", func(in *Input) { in.OutputsSHA, in.Deterministic = "q", true; in.Concurrency = 2 }, record.Fail, "other greedy outputs"},
		{CheckOutputs, "acceptance drawn", func(in *Input) { in.OutputsSHA, in.AcceptanceSimulated = "q", true }, record.NotCheckable, "simulates"},
		{CheckOutputs, "on the practice host", func(in *Input) { in.OutputsSHA, in.SimulatedBecause = "q", "practice host" }, record.Fail, "other greedy outputs"},
	} {
		in := good()
		tc.change(&in)
		_, checks := Assess(in)
		i := slices.IndexFunc(checks, func(c record.TrustCheck) bool { return c.Name == tc.check })
		if i < 0 {
			t.Errorf("%s, %s: not among the checks", tc.check, tc.name)
			continue
		}
		if c := checks[i]; c.Outcome != tc.want || !strings.Contains(c.Explanation, tc.part) {
			t.Errorf("%s, %s: %s: %q; want %s with %q", tc.check, tc.name, c.Outcome, c.Explanation, tc.want, tc.part)
		}
	}
}

// With nothing known nothing passes and nothing fails, and every check is there.
func TestAssess_NothingKnown(t *testing.T) {
	_, all := Assess(good())
	labels, checks := Assess(Input{})
	if len(labels) != 0 || len(checks) != len(all) {
		t.Errorf("labels %+v, %d checks of %d", labels, len(checks), len(all))
	}
	for _, c := range checks {
		if c.Outcome != record.NotCheckable || c.Explanation == "" || strings.Contains(c.Explanation, "\n") || !math.IsNaN(c.Left) {
			t.Errorf("%+v", c)
		}
	}
}

func TestAssessCell_ABaselineThatMovedIsDrift(t *testing.T) {
	got := AssessCell(record.CellFacts{Runs: 12, Launches: 12, BaselineMoved: "from 88.8 to 82.0"})
	if want := []record.Label{{Name: Drift, Reason: "from 88.8 to 82.0"}}; !cmp.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestLabels_TableIsWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range Labels() {
		if seen[l.Name] || l.Meaning == "" || l.Rule == "" || l.Advice == "" || l.Advice != Advice(l.Name) {
			t.Errorf("row %+v", l)
		}
		seen[l.Name] = true
	}
	if len(seen) != 25 || Advice("no such label") != "" {
		t.Errorf("%d labels", len(seen))
	}
}
