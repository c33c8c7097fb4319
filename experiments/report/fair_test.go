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
