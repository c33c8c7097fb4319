package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"specrun/experiments/stats"
)

// driftLabel is the label of cells whose baseline moved.
const driftLabel = "drift"

// driftMetric is what tells of the baseline whether the host stood still: the
// objective, unless that is about cycles, which a baseline has not.
func (s *Summary) driftMetric(base *CellRow) string {
	if len(base.launches[s.Objective]) == 0 || strings.HasPrefix(s.Objective, "cycle_") {
		return compared[0]
	}
	return s.Objective
}

// baselineMoved says how the baseline of a row moved while the row was measured,
// by more than noise, and between which rounds; "" when it did not, or that
// cannot be told.
func (s *Summary) baselineMoved(row *CellRow) string {
	base := s.baselineOf(row)
	if base == nil || len(row.nests) == 0 {
		return ""
	}
	name := s.driftMetric(base)
	first, last := s.span(row)
	var parts []string
	for _, band := range stats.DriftBands(base.launches[name], s.remembered(base, name)) {
		if last < band.From || first > band.To {
			continue
		}
		where := fmt.Sprintf("over rounds %d to %d", band.From+1, band.To+1)
		if band.To == band.From+1 {
			where = fmt.Sprintf("between rounds %d and %d", band.From+1, band.To+1)
		}
		parts = append(parts, fmt.Sprintf("by %+.1f %% %s", 100*(band.Ratio-1), where))
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("%s of the baseline moved %s", head(name), strings.Join(parts, ", "))
}

// creeping says of each baseline that it went one way from round to round and far,
// where that is not yet more than chance may do: a few rounds do not tell.
func (s *Summary) creeping() []string {
	const (
		worth = 0.05 // of the first round
		least = 3    // rounds
	)
	var out []string
	for i := range s.Cells {
		base := &s.Cells[i]
		if !base.Baseline || s.baselineMoved(base) != "" {
			continue
		}
		name := s.driftMetric(base)
		ls := slices.Clone(base.launches[name])
		slices.SortStableFunc(ls, func(a, b stats.Launch) int { return a.Round - b.Round })
		if len(ls) < least || ls[0].Round == ls[len(ls)-1].Round {
			continue
		}
		up := slices.IsSortedFunc(ls, func(a, b stats.Launch) int { return cmp.Compare(a.Value, b.Value) })
		down := slices.IsSortedFunc(ls, func(a, b stats.Launch) int { return cmp.Compare(b.Value, a.Value) })
		moved := ls[len(ls)-1].Value/ls[0].Value - 1
		if (up || down) && math.Abs(moved) >= worth {
			out = append(out, fmt.Sprintf("%s of the %s moved by %+.1f %% from round %d to %d, one way all the time: it may drift, which %d launches cannot show beyond doubt",
				head(name), base.name, 100*moved, ls[0].Round+1, ls[len(ls)-1].Round+1, len(ls)))
		}
	}
	return out
}

// span gives the first and last round in which a row has a launch.
func (s *Summary) span(row *CellRow) (first, last int) {
	first, last = -1, -1
	for _, nests := range row.nests {
		for _, n := range nests {
			if first < 0 || n.Round < first {
				first = n.Round
			}
			last = max(last, n.Round)
		}
	}
	return first, last
}

// normalise sets what the numbers of cells would be if the baseline had stood
// still, where rounds took turns and that was asked for.
func (s *Summary) normalise() {
	if !s.options.Normalise {
		return
	}
	why := ""
	if !s.plan.interleaved() {
		why = "nothing to normalise by: the baseline did not run in each of several rounds"
	}
	missing := map[int]bool{}
	found := false
	for i := range s.Cells {
		row := &s.Cells[i]
		base := s.baselineOf(row)
		if base == nil || row.Quotable || why != "" { // a quotable row came after the rounds
			continue
		}
		for _, name := range compared {
			ls, without, ok := stats.Normalize(row.launches[name], base.launches[name])
			if !ok || len(ls) == 0 {
				continue
			}
			if row.Normalised == nil {
				row.Normalised = map[string]MetricValue{}
			}
			row.Normalised[name] = metricValue(row.Metrics[name].Unit, stats.Summarize(valuesOf(ls)))
			found = true
			for _, r := range without {
				missing[r+1] = true
			}
		}
	}
	switch {
	case why != "":
	case !found:
		why = "nothing to normalise by: no baseline"
	case len(missing) > 0:
		why = "normalised: without " + roundsText(missing) + ", where the baseline has no result"
	}
	if why != "" {
		s.remarks = append(s.remarks, why)
	}
}

func roundsText(rounds map[int]bool) string {
	var all []int
	for r := range rounds {
		all = append(all, r)
	}
	slices.Sort(all)
	var parts []string
	for _, r := range all {
		parts = append(parts, fmt.Sprint(r))
	}
	if len(parts) == 1 {
		return "round " + parts[0]
	}
	return "rounds " + strings.Join(parts, ", ")
}

// normalised says that some row has values as if the baseline had stood still.
func (s *Summary) normalised() bool {
	return slices.ContainsFunc(s.Cells, func(r CellRow) bool { return r.Normalised != nil })
}
