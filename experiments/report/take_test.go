package report

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"specrun/experiments/record"
)

// ofSpeeds is a sweep of so many rounds with these tok/s by cell, the baseline
// first; 0 is a cell without a result. Launches of a cell differ by 0.03 %.
func ofSpeeds(rounds int, speeds ...float64) *Summary {
	b := newBuilder(len(speeds), rounds, "grid")
	noise := [...]float64{1, 1.000337, 0.999711}
	for round := range rounds {
		for i, speed := range speeds {
			if speed > 0 {
				b.run(i, round, 1)
				b.v.Data[fmt.Sprint("r", i, "-", round)] = record.RunData{Metrics: []record.Metric{{Name: "output_throughput", Unit: "tok/s", Value: speed * noise[(round+i)%3], Source: "client"}}}
			}
		}
	}
	return Summarize(b.v, options())
}

func TestDecision(t *testing.T) {
	for want, s := range map[string]*Summary{
		"steps=2 best; none within 1 %: take steps=2":             ofSpeeds(3, 88, 87, 94, 90),
		"steps=3 best; steps=2 within 1 %: take steps=2":          ofSpeeds(3, 88, 87, 94, 94.5),
		"steps=2 best; steps=3 within 1 %: take steps=2":          ofSpeeds(3, 88, 87, 94.5, 94),
		"steps=3 best; steps=1..2 within 1 %: take steps=1":       ofSpeeds(3, 88, 94, 94, 94.5),
		"steps=1 best; baseline within 1 %: take baseline":        ofSpeeds(3, 94, 94.5, 60),
		"baseline best; none within 1 %: take baseline":           ofSpeeds(3, 94, 80, 60),
		"steps=3 best; steps=2, steps=4 within 1 %: take steps=2": ofSpeeds(3, 60, 60, 94, 94.5, 94),
		"": ofSpeeds(3, 94),
	} {
		if got := s.decision(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// After one launch, with 9 % between launches, nobody knows which cell to take.
func TestDecision_NotKnownAfterOneLaunch(t *testing.T) {
	for _, s := range []*Summary{ofSpeeds(1, 88, 94, 94.5), ofSpeeds(1, 60, 80, 100)} {
		d := s.decide()
		want := "steps=2 has the best number, but which cell to take is not known: after one launch, and launches differ (--rounds 3)"
		if d.Text != want || d.Best["steps"] != int64(2) || d.Take != nil {
			t.Errorf("%+v", d)
		}
		if line, err := json.Marshal(d); err != nil || !strings.Contains(string(line), `"take":null`) {
			t.Errorf("%s, %v", line, err)
		}
		if got := table(t, s); strings.Contains(got, "take steps") || !strings.Contains(got, "not known to be worse after one launch") {
			t.Errorf("%s", got)
		}
	}
}
