//go:build integration

package experiments_test

import (
	"cmp"
	"context"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"specrun/experiments"
	"specrun/experiments/lab"
	"specrun/experiments/record"
	"specrun/experiments/trust"
)

// runsOf are what the runs of a sweep on a practice host gave, in the order in
// which they were made.
func runsOf(t *testing.T, l *lab.Lab, edit func(*experiments.Spec), args ...string) []record.RunData {
	t.Helper()
	return runsWith(t, l, func(experiments.Boundary, record.Event) {}, edit, args...)
}

// runsWith calls hook at each event on the way.
func runsWith(t *testing.T, l *lab.Lab, hook func(experiments.Boundary, record.Event), edit func(*experiments.Spec), args ...string) []record.RunData {
	t.Helper()
	p := planFor(t, l.Host(), edit, args...)
	db := openStore(t, filepath.Join(t.TempDir(), "results.db"))
	defer db.Close()
	with := deps(l.Host(), db)
	with.Hook = hook
	sum, err := experiments.Execute(context.Background(), with, p, nil)
	if err != nil || sum.State != record.SweepDone {
		t.Fatalf("%+v, %v", sum, err)
	}
	v := settled(t, l, db, p)
	slices.SortFunc(v.Runs, func(a, b record.Run) int { return cmp.Compare(a.StartUs, b.StartUs) })
	var out []record.RunData
	for _, r := range v.Runs {
		d := v.Data[r.ID]
		t.Log(r.SlotID)
		for _, c := range d.Checks {
			t.Logf("%s: %s: %s", c.Outcome, c.Name, c.Explanation)
		}
		for _, label := range d.Labels {
			t.Logf("%s: %s", label.Name, label.Reason)
		}
		out = append(out, d)
	}
	return out
}

// oneRun is what the only run of a sweep gave.
func oneRun(t *testing.T, l *lab.Lab, edit func(*experiments.Spec), args ...string) record.RunData {
	t.Helper()
	all := runsOf(t, l, edit, args...)
	if len(all) != 1 {
		t.Fatalf("%d runs, want one", len(all))
	}
	return all[0]
}

func hasLabel(d record.RunData, name, reason string) bool {
	return slices.ContainsFunc(d.Labels, func(l record.Label) bool { return l.Name == name && strings.Contains(l.Reason, reason) })
}

func checkOf(t *testing.T, d record.RunData, name string) record.TrustCheck {
	t.Helper()
	for _, c := range d.Checks {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no check %s", name)
	return record.TrustCheck{}
}

func metricOf(t *testing.T, d record.RunData, name, source string) float64 {
	t.Helper()
	for _, m := range d.Metrics {
		if m.Name == name && m.Source == source {
			return m.Value
		}
	}
	t.Errorf("no %s of %s", name, source)
	return math.NaN()
}

// punctual keeps the mean cycle right where more runs than the machine has cores
// for.
func punctual(s *lab.Settings) { s.Behind = 2000 }

// one gives a cell with a patch set, without a baseline.
func one(patches ...string) func(*experiments.Spec) {
	return func(s *experiments.Spec) { s.Baseline, s.Patches = nil, patches }
}

// The story of the wrong profiler: what it prints, what specrun says of it, and
// how much of the gap is counting and how much the patch's own cost.
func TestLab_TheStorysGapIsSplit(t *testing.T) {
	t.Parallel()
	s, err := lab.DefaultSettings()
	if err != nil {
		t.Fatal(err)
	}
	accept := s.AcceptLength(2)
	with, without := s.Cycle(2, true, 2), s.Cycle(2, true, 0)
	l := startLab(t, 1, punctual)
	story, plain := oneRun(t, l, one("story-v3"), "steps=2"), oneRun(t, l, one(), "steps=2")

	within := func(what string, got, want float64) {
		t.Helper()
		t.Logf("%s %.3f, by the lab's model %.3f", what, got, want)
		if !(math.Abs(got/want-1) <= 0.05) {
			t.Errorf("%s: %.3f is not within 5 %% of %.3f", what, got, want)
		}
	}
	within("claimed tok/s", metricOf(t, story, "claimed_throughput", "profiler"), 1000*(accept-1)/with)
	within("claimed accept length", metricOf(t, story, "claimed_accept_len", "profiler"), accept-1)
	within("accept length", metricOf(t, story, "accept_len", "profiler"), accept)
	within("gap_ratio", metricOf(t, story, "gap_ratio", "derived"), accept/(accept-1))
	within("gap_acceptance", metricOf(t, story, "gap_acceptance", "derived"), accept/(accept-1))
	within("gap_cycle", metricOf(t, story, "gap_cycle", "derived"), 1)
	within("gap_rest", metricOf(t, story, "gap_rest", "derived"), 1)
	if !hasLabel(story, trust.Disagree, trust.CheckClaim) || !hasLabel(story, trust.SyncProbe, "story-v3") {
		t.Errorf("labels: %+v", story.Labels)
	}
	if c := checkOf(t, story, trust.CheckClaim); c.Outcome != record.Fail || !strings.Contains(c.Explanation, "does not count the bonus token") {
		t.Errorf("%+v", c)
	}

	claim, okClaim := trust.ClaimOf(story.Metrics)
	truthWith, okWith := trust.TruthOf(story.Metrics)
	truthWithout, okWithout := trust.TruthOf(plain.Metrics)
	gap, ok := trust.SplitGapAcross(claim, truthWith, truthWithout)
	if !okClaim || !okWith || !okWithout || !ok {
		t.Fatalf("%+v (%v), %+v (%v), %+v (%v)", claim, okClaim, truthWith, okWith, truthWithout, okWithout)
	}
	t.Log(gap.Explanation)
	within("gap to the run without the patch", gap.Ratio, accept/(accept-1)*with/without)
	within("counting", gap.Acceptance, accept/(accept-1))
	within("the patch's cost", gap.Probe, with/without)
	within("cycle", gap.Cycle, 1)
	within("rest", gap.Rest, 1)
	if hasLabel(plain, trust.Disagree, "") {
		t.Errorf("the run without the patch: %+v", plain.Labels)
	}
}

// failing makes servers go wrong in a way.
func failing(f lab.Failure) func(*lab.Settings) {
	return func(s *lab.Settings) {
		punctual(s)
		s.Failures = []lab.Failure{f}
	}
}

// plainOnly asks for no speculation at all: a baseline by itself.
func plainOnly(s *experiments.Spec) {
	s.Baseline, s.Patches, s.Params, s.Where = nil, nil, nil, nil
	s.Server.Flags = slices.DeleteFunc(s.Server.Flags, func(f experiments.Flag) bool { return strings.HasPrefix(f.Name, "speculative-") })
}

// Each way in which a server or a load misleads is seen in a real run; the last
// run of the sweep is the one in question.
func TestLab_WhatMisleadsIsLabelled(t *testing.T) {
	t.Parallel()
	l := startLab(t, 0.5, nil)
	before, err := l.Settings()
	if err != nil {
		t.Fatal(err)
	}
	two := 2
	v4 := one("profiling-v4")
	for _, c := range []struct {
		name        string
		lab         func(*lab.Settings)
		spec        func(*experiments.Spec)
		args        string
		label, part string
		check       string
		want        record.Outcome
		text        string // of the check's explanation
		not         string // a label that must not be there
	}{
		{name: "a patch that the process did not load", lab: failing(lab.Failure{Kind: lab.StaleCode}), spec: v4, args: "steps=2 bench.requests=3",
			label: trust.PatchUnverified, part: "profiling-v4", check: trust.CheckPatch, want: record.Fail, text: "no row of profiling-v4"},
		{name: "a flag without effect", lab: failing(lab.Failure{Kind: lab.FlagIgnored, Flag: "speculative-attention-mode"}), spec: v4, args: "steps=2 mode=decode",
			label: trust.ConfigMismatch, part: "speculative-attention-mode: asked decode, is prefill", check: trust.CheckConfig, want: record.Fail},
		{name: "a baseline that speculates", lab: failing(lab.Failure{Kind: lab.StillSpeculates}), spec: plainOnly,
			label: trust.ConfigMismatch, part: "the baseline speculates", check: trust.CheckSpeculation, want: record.Fail, text: "speculative_algorithm is"},
		{name: "a baseline that speculates and denies it", lab: failing(lab.Failure{Kind: lab.StillSpeculates, Lies: true}), spec: plainOnly,
			label: trust.ConfigMismatch, part: "the baseline speculates", check: trust.CheckSpeculation, want: record.Fail, text: "verify steps"},
		{name: "a baseline as it should be", lab: punctual, spec: plainOnly,
			label: trust.Simulated, check: trust.CheckSpeculation, want: record.Pass, not: trust.ConfigMismatch},
		{name: "kernels compiled in between", lab: failing(lab.Failure{Kind: lab.JIT, AfterTokens: 60}), spec: v4, args: "steps=2",
			label: trust.JIT, part: "files came to", check: trust.CheckCompile, want: record.Fail, text: "Loading JIT ops"},
		{name: "a card held back", lab: func(s *lab.Settings) { punctual(s); s.Cards, s.Throttle, s.ThrottleSlower = 1, 100, 20 }, spec: v4, args: "steps=2",
			label: trust.Throttled, check: trust.CheckClocks, want: record.Fail},
		{name: "a warm cache", lab: func(s *lab.Settings) { punctual(s); s.PrefixCache = true }, spec: func(s *experiments.Spec) { v4(s); s.Repeats = 2 }, args: "steps=2",
			label: trust.CacheWarm, part: "prompt tokens cached", check: trust.CheckCache, want: record.Fail},
		{name: "a batch that drains", lab: punctual, spec: v4, args: "steps=2 bench.requests=3 bench.concurrency=2 bench.where=controller",
			label: trust.MixedBatch, check: trust.CheckAlive, want: record.Pass, not: trust.Disagree},
		{name: "other text than the baseline", lab: failing(lab.Failure{Kind: lab.OtherOutput, Steps: &two, From: 20}), spec: func(s *experiments.Spec) { s.Patches = []string{"profiling-v4"} }, args: "steps=2",
			label: trust.Indicative, check: trust.CheckBaseline, want: record.NotCheckable, text: "differs from the baseline's from character", not: trust.OutputChanged},
		{name: "nothing", lab: punctual, spec: func(s *experiments.Spec) {
			s.Patches = []string{"profiling-v4"}
			s.Server.Flags = append(s.Server.Flags, experiments.Flag{Name: "enable-metrics", Value: experiments.Value{Scalar: experiments.ParseScalar("true")}})
		}, args: "steps=2",
			label: trust.Indicative, check: trust.CheckTokens, want: record.Pass, not: trust.Disagree},
	} {
		t.Run(c.name, func(t *testing.T) {
			settings := before
			c.lab(&settings)
			if err := l.SetSettings(settings); err != nil {
				t.Fatal(err)
			}
			all := runsOf(t, l, c.spec, strings.Fields(c.args)...)
			d := all[len(all)-1]
			if !hasLabel(d, c.label, c.part) {
				t.Errorf("no label %s with %q", c.label, c.part)
			}
			if got := checkOf(t, d, c.check); got.Outcome != c.want || !strings.Contains(got.Explanation, c.text) {
				t.Errorf("%s: %s: %s", got.Name, got.Outcome, got.Explanation)
			}
			if c.not != "" && hasLabel(d, c.not, "") {
				t.Errorf("label %s", c.not)
			}
		})
	}
}

// Prefills stop the other requests, and batches cost more than one request: an
// honest server under several requests at once is neither noisy nor contradicted.
func TestLab_SeveralAtOnceAreBelieved(t *testing.T) {
	t.Parallel()
	l := startLab(t, 1, func(s *lab.Settings) {
		punctual(s)
		s.Prefill, s.BatchRequest = 30, 0.3
	})
	d := oneRun(t, l, one("profiling-v4"), "steps=2", "bench.concurrency=4", "bench.requests=20", "bench.max_tokens=160")
	for _, name := range []string{trust.Disagree, trust.Noisy} {
		if hasLabel(d, name, "") {
			t.Errorf("label %s: %+v", name, d.Labels)
		}
	}
	for _, name := range []string{trust.CheckSteady, trust.CheckClaim} {
		if c := checkOf(t, d, name); c.Outcome != record.Pass {
			t.Errorf("%+v", c)
		}
	}
	if all, alone := metricOf(t, d, "tpot", "client"), metricOf(t, d, "tpot_undisturbed", "client"); alone >= all {
		t.Errorf("%.2f ms a token, without prefills %.2f: this is no test", all, alone)
	}
}

// The model says something else from the second launch on, with the same
// speculative flags.
func TestLab_ChangedTextIsLabelled(t *testing.T) {
	t.Parallel()
	l := startLab(t, 1, punctual)
	measured := 0
	all := runsWith(t, l, func(b experiments.Boundary, e record.Event) {
		if b != experiments.AfterEvent || e.Step != "run" || e.Kind != record.EventDone {
			return
		}
		if measured++; measured != 1 {
			return
		}
		s, err := l.Settings()
		if err == nil {
			s.Failures = []lab.Failure{{Kind: lab.OtherOutput, From: 20}}
			err = l.SetSettings(s)
		}
		if err != nil {
			t.Error(err)
		}
	}, func(s *experiments.Spec) { one("profiling-v4")(s); s.Rounds = 2 }, "steps=2")
	if len(all) != 2 {
		t.Fatalf("%d runs", len(all))
	}
	if hasLabel(all[0], trust.OutputChanged, "") || !hasLabel(all[1], trust.OutputChanged, "") {
		t.Errorf("labels: %+v, %+v", all[0].Labels, all[1].Labels)
	}
	if c := checkOf(t, all[1], trust.CheckOutputs); c.Outcome != record.Fail {
		t.Errorf("%+v", c)
	}
}
