package report

import (
	"fmt"
	"strings"
	"testing"

	"specrun/experiments/record"
)

// A cell may have won because of what the others suffered.
func TestVerdict_HedgesForTheOtherSide(t *testing.T) {
	sweep := func(cells int, labels map[string][]int) *Summary {
		b := newBuilder(cells, 3, "interleave").rounds(3)
		for name, at := range labels {
			for _, cell := range at {
				id := fmt.Sprint("r", cell, "-1")
				d := b.v.Data[id]
				d.Labels = append(d.Labels, record.Label{Name: name, Reason: "for a while"})
				b.v.Data[id] = d
			}
		}
		return Summarize(b.v, options())
	}
	for want, labels := range map[string]map[string][]int{
		"best is steps=2 with ": nil,
		"best, but not in a fair race (throttled: baseline, steps=1; shared-host: baseline): steps=2 with ": {"throttled": {0, 1}, "shared-host": {0}},
		"best, but against others in doubt (noisy: baseline): steps=2 with ":                                {"noisy": {0}},
		"best, but throttled and not in a fair race (shared-host: steps=1): steps=2 with ":                  {"throttled": {0, 1, 2}, "shared-host": {1}},
		"best is steps=2 with 93.3": {"noisy": {1}, "indicative": {0, 1}}, // far behind beyond doubt, and of no consequence
	} {
		if s := sweep(3, labels); !strings.HasPrefix(s.Verdict, want) {
			t.Errorf("no %q: %s", want, s.Verdict)
		}
	}
}

// A failed run that is taken again was not measured in turn with the others: its
// round is no pair.
func TestSummarize_RetriedRunsAreNoPairs(t *testing.T) {
	b := newBuilder(3, 3, "interleave").rounds(3)
	b.v.Runs = append(b.v.Runs, record.Run{ID: "old", SlotID: "s2-1", Attempt: 1, State: record.RunSuperseded, Class: record.ClassExited})
	s := Summarize(b.v, options())
	if s.Cells[2].Doubt["output_throughput"].Paired || !s.Cells[1].Doubt["output_throughput"].Paired {
		t.Errorf("paired: %+v, %+v", s.Cells[2].Doubt, s.Cells[1].Doubt)
	}
	if !strings.HasPrefix(s.Verdict, "best, but retried later: steps=2") {
		t.Error(s.Verdict)
	}
	if got := joined(table(t, s)); !strings.Contains(got, "round 2 of steps=2 was retried later, not in turn with the other cells") {
		t.Error(got)
	}
}

// Four rounds down by an eighth are no proof of drift, and worth a word.
func TestTable_ABaselineThatCreepsIsTold(t *testing.T) {
	for name, tc := range map[string]struct {
		base []float64
		want bool
	}{
		"down":           {[]float64{89.0, 82.9, 78.8, 78.5}, true},
		"down and up":    {[]float64{89.0, 78.8, 82.9, 78.5}, false},
		"down by little": {[]float64{89.0, 88.5, 88.4, 87.9}, false},
		"by a step":      {[]float64{89.0, 88.9, 78.4, 78.3}, false}, // which has the label
	} {
		b := newBuilder(2, 4, "interleave").rounds(4)
		for round, v := range tc.base {
			b.set(0, round, v)
		}
		s := Summarize(b.v, options())
		if got := joined(table(t, s)); strings.Contains(got, "tok/s of the baseline moved by -11.8 % from round 1 to 4, one way all the time") != tc.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
