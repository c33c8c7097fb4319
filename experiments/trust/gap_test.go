package trust

import (
	"math"
	"slices"
	"strings"
	"testing"

	"specrun/experiments/record"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 0.005*want {
		t.Errorf("%s: %.4f, want %.4f", what, got, want)
	}
}

// The practice host's model at 2 steps: story-v3 waits for the device, which
// makes 22.8 ms of 20.1, and leaves out the bonus token.
var (
	storyClaim   = Claim{TokS: 1000 * 0.874 / 22.8, AcceptLen: 0.874, CycleMs: 22.8, Batch: 1}
	storyTruth   = Truth{TokS: 1000 * 1.874 / 22.8, AcceptLen: 1.874, CycleMs: 22.8, From: "client and server log"}
	withoutTruth = Truth{TokS: 1000 * 1.874 / 20.1, AcceptLen: 1.874, CycleMs: 20.1, From: "client and server log"}
)

func TestSplitGap_TheStoryIsCounting(t *testing.T) {
	g, ok := SplitGap(storyClaim, storyTruth)
	if !ok {
		t.Fatal("not split")
	}
	near(t, "ratio", g.Ratio, 2.144)
	near(t, "acceptance", g.Acceptance, 2.144)
	near(t, "cycle", g.Cycle, 1)
	near(t, "rest", g.Rest, 1)
	if want := "38.3 -> 82.2 tok/s: x2.14 = x2.14 (accept length 0.874 does not count the bonus token: 1.874)"; g.Explanation != want {
		t.Errorf("%q", g.Explanation)
	}
}

func TestSplitGapAcross_TellsThePatchsCostFromItsCounting(t *testing.T) {
	g, ok := SplitGapAcross(storyClaim, storyTruth, withoutTruth)
	if !ok {
		t.Fatal("not split")
	}
	near(t, "ratio", g.Ratio, 2.432)
	near(t, "acceptance", g.Acceptance, 2.144)
	near(t, "probe", g.Probe, 1.134)
	near(t, "rest", g.Rest, 1)
	want := "38.3 -> 93.2 tok/s: x2.43 = x2.14 (accept length 0.874 does not count the bonus token: 1.874) x1.13 (cycle 22.8 ms with the patch, 20.1 without)"
	if g.Explanation != want {
		t.Errorf("%q", g.Explanation)
	}
}

// Whatever the numbers, the factors make the ratio.
func TestSplitGap_TheProductIsTheRatio(t *testing.T) {
	for _, tc := range []struct {
		name  string
		claim Claim
		part  string
	}{
		{"all stated, and contradicting itself", Claim{TokS: 50, AcceptLen: 2, CycleMs: 22.8}, "not explained"},
		{"no accept length", Claim{TokS: 38.3, CycleMs: 22.8}, "bonus"},
		{"no tok/s", Claim{AcceptLen: 0.874, CycleMs: 22.8}, "bonus"},
		{"no cycle", Claim{TokS: 38.3, AcceptLen: 0.874}, "bonus"},
		{"a TOTAL of something else", Claim{AcceptLen: 1.874, CycleMs: 11.4}, "cycle 11.4 ms by the profiler, 22.8 by the benchmark"},
		{"another way of counting", Claim{AcceptLen: 1.2, CycleMs: 22.8}, "accept length 1.200, by the server log 1.874"},
		{"nothing wrong", Claim{AcceptLen: 1.874, CycleMs: 22.8}, "x1.00 = x1.00"},
		{"a batch of 4", Claim{AcceptLen: 0.874, CycleMs: 22.8, Batch: 4}, "bonus"},
	} {
		truth := storyTruth
		if tc.claim.Batch > 0 {
			truth.TokS *= tc.claim.Batch
		}
		g, ok := SplitGap(tc.claim, truth)
		if !ok || math.Abs(g.Acceptance*g.Cycle*g.Probe*g.Rest/g.Ratio-1) > 1e-9 || math.Abs(g.Measured/g.Claimed/g.Ratio-1) > 1e-9 {
			t.Errorf("%s: %+v, %v", tc.name, g, ok)
		}
		if !strings.Contains(g.Explanation, tc.part) || strings.Contains(g.Explanation, "\n") {
			t.Errorf("%s: %q does not contain %q", tc.name, g.Explanation, tc.part)
		}
	}
}

func TestSplitGap_NotOfTooLittle(t *testing.T) {
	nan := math.NaN()
	for name, tc := range map[string]struct {
		c Claim
		t Truth
	}{
		"tok/s alone":      {Claim{TokS: 38, AcceptLen: nan, CycleMs: nan}, storyTruth},
		"nothing claimed":  {Claim{CycleMs: 22.8}, storyTruth},
		"no accept length": {storyClaim, Truth{TokS: 82, CycleMs: 22.8, AcceptLen: nan}},
		"no speed":         {storyClaim, Truth{AcceptLen: 1.874, CycleMs: 22.8}},
		"infinite":         {storyClaim, Truth{TokS: math.Inf(1), AcceptLen: 1.874, CycleMs: 22.8}},
	} {
		if g, ok := SplitGap(tc.c, tc.t); ok {
			t.Errorf("%s: %+v", name, g)
		}
		if g, ok := SplitGapAcross(tc.c, tc.t, withoutTruth); ok {
			t.Errorf("%s, across: %+v", name, g)
		}
	}
}

// A run's metrics give claim and truth, at any concurrency.
func TestGap_OfARunsMetrics(t *testing.T) {
	story := []record.Metric{
		metric("cycle_total", "profiler", 22.8), metric("accept_len", "profiler", 1.874), metric("batch_mean", "profiler", 1),
		metric("claimed_accept_len", "profiler", 0.874), metric("claimed_throughput", "profiler", 38.33),
		metric("tpot", "client", 22.8/1.874), metric("max_concurrency", "client", 1), {Name: "accept_len", Source: "server_log", Value: 1.87, N: 50},
	}
	in := Input{Concurrency: 1, Steps: 2, Metrics: story}
	got := map[string]float64{}
	for _, m := range GapMetrics(in) {
		if m.Unit != "x" || m.Source != "derived" {
			t.Errorf("%+v", m)
		}
		got[m.Name] = m.Value
	}
	near(t, "gap_ratio", got["gap_ratio"], 2.144)
	near(t, "gap_acceptance", got["gap_acceptance"], 2.14)
	near(t, "gap_cycle", got["gap_cycle"], 1)
	near(t, "gap_rest", got["gap_rest"], 1)

	honest := with(with(in, "claimed_accept_len", "profiler", 1.874), "claimed_throughput", "profiler", 82.2)
	if ms := GapMetrics(honest); ms != nil {
		t.Errorf("a claim that agrees has a gap: %+v", ms)
	}

	four := with(with(with(in, "max_concurrency", "client", 4), "batch_mean", "profiler", 4), "tpot_undisturbed", "client", 1000/82.2)
	four = with(four, "tpot", "client", 1000/70.) // with the prefills of the others
	if truth, ok := TruthOf(four.Metrics); !ok || math.Abs(truth.TokS-4*82.2) > 1e-9 || math.Abs(truth.CycleMs-22.8) > 0.1 {
		t.Errorf("at concurrency 4: %+v, %v", truth, ok)
	}
	if truth, ok := TruthOf(with(four, "tpot_undisturbed", "client", math.NaN()).Metrics); ok {
		t.Errorf("with prefills in all of its time: %+v", truth)
	}
	if _, ok := TruthOf(nil); ok {
		t.Error("truth of nothing")
	}
	if c, ok := ClaimOf(with(with(in, "claimed_accept_len", "profiler", math.NaN()), "claimed_throughput", "profiler", math.NaN()).Metrics); ok {
		t.Errorf("a claim of nothing: %+v", c)
	}
}

// The story as its old log tells it: 31 tok/s and 0.98 by the profiler, 71 and
// 2.2 by the server, whose steps the log does not say.
func TestGap_OfAnOldLog(t *testing.T) {
	in := Input{Imported: true, Cycles: &Cycles{Counted: 400}, Metrics: []record.Metric{
		metric("cycle_total", "profiler", 31.5), metric("accept_len", "profiler", 0.98), metric("claimed_accept_len", "profiler", 0.98),
		{Name: "accept_len", Source: "server_log", Value: 2.2, N: 50}, {Name: "gen_throughput", Source: "server_log", Value: 71, N: 50},
	}}
	labels, checks := Assess(in)
	failed := map[string]string{}
	for _, c := range checks {
		if c.Outcome == record.Fail {
			failed[c.Name] = c.Explanation
		}
	}
	for _, name := range []string{CheckClaim, CheckAcceptSources, CheckAcceptRange} {
		if failed[name] == "" {
			t.Errorf("%s does not fail: %v", name, failed)
		}
	}
	if want := "31.1 -> 71.0 tok/s: x2.28 = x2.24 (accept length 0.980, by the server log 2.200) x1.02 (cycle 31.5 ms by the profiler, 31.0 by the benchmark)"; !strings.Contains(failed[CheckClaim], want) {
		t.Errorf("%q", failed[CheckClaim])
	}
	if got := strings.Join(names(labels), " "); got != "disagree imported" {
		t.Errorf("labels: %s", got)
	}
	in.Cycles = nil
	if _, checks := Assess(in); checks[slices.IndexFunc(checks, func(c record.TrustCheck) bool { return c.Name == CheckClaim })].Outcome != record.NotCheckable {
		t.Error("a log without a profiler has a gap")
	}
}
