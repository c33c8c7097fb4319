//go:build integration

package experiments_test

import (
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

// measured is what one run of a cell gave on a practice host.
func measured(t *testing.T, l *lab.Lab, edit func(*experiments.Spec), args ...string) record.RunData {
	t.Helper()
	p := planFor(t, l.Host(), edit, args...)
	db := openStore(t, filepath.Join(t.TempDir(), "results.db"))
	defer db.Close()
	sum, err := experiments.Execute(context.Background(), deps(l.Host(), db), p, nil)
	if err != nil || sum.State != record.SweepDone {
		t.Fatalf("%+v, %v", sum, err)
	}
	v := settled(t, l, db, p)
	if len(v.Runs) != 1 {
		t.Fatalf("%d runs, want one", len(v.Runs))
	}
	d := v.Data[v.Runs[0].ID]
	for _, c := range d.Checks {
		t.Logf("%s: %s: %s", c.Outcome, c.Name, c.Explanation)
	}
	for _, label := range d.Labels {
		t.Logf("%s: %s", label.Name, label.Reason)
	}
	return d
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
	s, err := lab.DefaultSettings()
	if err != nil {
		t.Fatal(err)
	}
	accept := s.AcceptLength(2)
	with, without := s.Cycle(2, true, 2), s.Cycle(2, true, 0)
	l := startLab(t, 1, punctual)
	story, plain := measured(t, l, one("story-v3"), "steps=2"), measured(t, l, one(), "steps=2")

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
