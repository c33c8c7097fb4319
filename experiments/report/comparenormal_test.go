package report

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"specrun/experiments/record"
)

// of gives the runs of one cell positions up to so many tokens, each token taking
// factor times as long, and the host speed by round.
func (s Side) of(cell string, tokens int, factor float64, speed ...float64) Side {
	slots := map[string]record.Slot{}
	for _, sl := range s.View.Slots {
		slots[sl.ID] = sl
	}
	for _, r := range s.View.Runs {
		if sl := slots[r.SlotID]; sl.CellID == cell {
			s.View.Data[r.ID] = positioned(s.View.Data[r.ID], tokens, factor*speed[sl.Round%len(speed)])
		}
	}
	return s
}

// The baseline of one side had outputs half as long: over whole outputs its tokens
// are faster for that alone, and the quotient would lean to that side.
func TestCompare_NormalisedOverThePositionsOfAll(t *testing.T) {
	host := []float64{1, 1.013, 0.991, 1.007}
	a := sitting("x", 2, 4, 1, 1).of("c0", 1600, 1, host...).of("c1", 1600, 0.5, host...)
	b := sitting("yy", 2, 4, 1, 1).of("c0", 800, 1.003, host...).of("c1", 1600, 0.5015, host...)
	c := mustCompare(t, a, b, CompareOptions{Normalise: true})
	l := lineOf(t, c, "steps=1 topk=1", "tpot_per_baseline")
	if math.Abs(*l.Ratio-1) > 0.002 || l.Note == "" {
		t.Errorf("%v, %q", *l.Ratio, l.Note)
	}
}

// Without turns there is no baseline of the same round.
func TestCompare_NormalisesOnlyRoundsThatTookTurns(t *testing.T) {
	grid := sitting("yy", 3, 3, 1, 1)
	grid.View.Sweep.Plan = json.RawMessage(`{"objective":"output_throughput","order":"grid","rounds":3}`)
	quote := sitting("yy", 3, 3, 1, 1)
	quote.View.Sweep.Plan = json.RawMessage(`{"objective":"output_throughput","order":"interleave","rounds":3,"quotes":[{"of":1,"cell":{"ord":2}}]}`)
	for name, tc := range map[string]struct {
		a, b Side
		said string
	}{
		"a grid":            {sitting("x", 3, 3, 1, 1), grid, "steps=1: nothing to normalise by: in yy the baseline did not run in each of its rounds"},
		"a grid on a":       {grid, sitting("x", 3, 3, 1, 1), "steps=1: nothing to normalise by: in yy the baseline did not run in each of its rounds"},
		"a quotable cell":   {sitting("x", 3, 3, 1, 1), quote, "steps=2: nothing to normalise by: in yy the baseline did not run in each of its rounds"},
		"rounds by turns":   {sitting("x", 3, 3, 1, 1), sitting("yy", 3, 3, 1, 1), ""},
		"other sources":     {sitting("x", 3, 3, 1, 1), otherSource(sitting("yy", 3, 3, 1, 1)), ""},
		"a log has no plan": {only(t, sitting("x", 3, 3, 1, 1), "steps=1"), FileSide("y.log", []record.RunData{sitting("x", 3, 3, 1, 1).View.Data["r1-0"]}), "no baseline on both sides"},
	} {
		c := mustCompare(t, tc.a, tc.b, CompareOptions{Normalise: true})
		cell, _, _ := strings.Cut(tc.said, ":")
		lines := slices.ContainsFunc(c.Lines, func(l ComparisonLine) bool {
			return strings.HasSuffix(l.Metric, "_per_baseline") && (tc.said == "" || l.Cell == cell)
		})
		if want := name == "rounds by turns"; lines != want {
			t.Errorf("%s: lines %v", name, lines)
		}
		if tc.said != "" && !slices.ContainsFunc(c.Notes, func(n string) bool { return strings.Contains(n, tc.said) }) {
			t.Errorf("%s: notes %q", name, c.Notes)
		}
	}
}

// otherSource has the baseline's numbers from elsewhere.
func otherSource(s Side) Side {
	for id, d := range s.View.Data {
		if strings.HasPrefix(id, "r0-") {
			d.Metrics = slices.Clone(d.Metrics)
			for i := range d.Metrics {
				d.Metrics[i].Source = "import"
			}
			s.View.Data[id] = d
		}
	}
	return s
}
