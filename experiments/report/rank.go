package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"specrun/experiments/record"
	"specrun/experiments/stats"
)

// compared are the metrics that a cell and the baseline both have and that mean
// the same in both: a baseline has no cycle, and its accept length is 1 by
// definition.
var compared = [...]string{"output_throughput", "total_throughput", "request_throughput", "tpot", "tpot_mean", "tpot_median", "ttft_mean", "ttft_median"}

// compare sets the ratios to the baseline.
func (s *Summary) compare(interleaved bool) {
	for i := range s.Cells {
		row := &s.Cells[i]
		base := s.baselineOf(row)
		if base == nil || row.Baseline {
			continue
		}
		for _, name := range compared {
			a, b := row.launches[name], base.launches[name]
			if len(a) == 0 || len(b) == 0 {
				continue
			}
			c := stats.Compare(a, b, interleaved)
			if math.IsNaN(c.Ratio) {
				continue
			}
			if row.VsBaseline == nil {
				row.VsBaseline, row.Doubt = map[string]float64{}, map[string]Doubt{}
			}
			row.VsBaseline[name] = c.Ratio
			row.Doubt[name] = Doubt{Lo: finite(c.Lo), Hi: finite(c.Hi), N: min(c.NA, c.NB), Paired: c.Paired,
				Separable: c.Separable, MinEffect: finite(c.MinEffect)}
		}
	}
}

// baselineOf finds the baseline that a cell compares with: one has as parameters
// only those of the benchmark, and these must be equal.
func (s *Summary) baselineOf(row *CellRow) *CellRow {
	for i := range s.Cells {
		base := &s.Cells[i]
		if !base.Baseline {
			continue
		}
		same := true
		for name, v := range base.Params {
			if other, ok := row.Params[name]; !ok || paramText(other) != paramText(v) {
				same = false
			}
		}
		if same {
			return base
		}
	}
	return nil
}

// lowestWins says which way an objective goes.
func lowestWins(metric string) bool {
	for _, prefix := range []string{"cycle_", "tpot", "ttft", "itl", "request_latency", "e2e"} {
		if strings.HasPrefix(metric, prefix) {
			return true
		}
	}
	return false
}

// rank finds the best row and how sure it is. Ties go to the earlier cell.
func (s *Summary) rank(interleaved bool, data map[string]record.RunData, runs map[string][]record.Run) {
	var order []int
	var failed []string
	for i, row := range s.Cells {
		_, measured := row.Metrics[s.Objective]
		switch {
		case row.Quotable:
		case row.Failed > 0:
			failed = append(failed, row.name)
		case measured:
			order = append(order, i)
		}
	}
	if len(order) == 0 {
		s.Verdict = fmt.Sprintf("no best cell: none without a failed run has %s", s.Objective)
		return
	}
	if strings.HasPrefix(s.Objective, "cycle_") {
		shapes := map[string]bool{}
		for _, i := range order {
			shapes[steps(s.Cells[i].cell, runs[s.Cells[i].cell.ID], data)] = true
		}
		if len(shapes) > 1 {
			s.Verdict = fmt.Sprintf("no best cell: %s does not rank cells of different steps, since a longer cycle may yield more tokens; use output_throughput", s.Objective)
			return
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := s.Cells[a].Metrics[s.Objective].Median, s.Cells[b].Metrics[s.Objective].Median
		if lowestWins(s.Objective) {
			return cmp.Compare(x, y)
		}
		return cmp.Compare(y, x)
	})
	var first stats.Comparison
	for n, i := range order[:len(order)-1] {
		c := stats.Compare(s.Cells[i].launches[s.Objective], s.Cells[order[n+1]].launches[s.Objective], interleaved)
		s.Cells[i].SeparableFromNext = c.Separable
		if n == 0 {
			first = c
		}
	}
	s.Best, s.ranked = order[0], len(order)
	s.Cells[s.Best].Best = true
	s.Verdict = s.verdict(order, first)
	if len(failed) > 0 {
		s.Verdict += fmt.Sprintf(" (not ranked for failed runs: %s)", strings.Join(failed, ", "))
	}
}

// verdict says in a sentence which cell is best and how sure that is.
func (s *Summary) verdict(order []int, c stats.Comparison) string {
	best := &s.Cells[order[0]]
	m := best.Metrics[s.Objective]
	var b strings.Builder
	others := slices.ContainsFunc(s.Cells, func(r CellRow) bool { return !r.Baseline && r.Runs > 0 })
	if best.Baseline && others {
		b.WriteString("speculation does not pay: ")
	}
	fmt.Fprintf(&b, "best is %s with %s %s", best.name, number(m.Median, m.Unit), m.Unit)
	if s.Objective != compared[0] {
		fmt.Fprintf(&b, " %s", s.Objective)
	}
	if len(order) == 1 {
		return b.String() + ", and no other cell was ranked"
	}
	next := &s.Cells[order[1]]
	nm := next.Metrics[s.Objective]
	fmt.Fprintf(&b, "; next is %s with %s", next.name, number(nm.Median, nm.Unit))
	switch {
	case c.Separable == nil:
		b.WriteString(", not known to be worse after one launch (--rounds 3)")
	case *c.Separable:
		fmt.Fprintf(&b, ", separable: %s apart; smallest effect found 8 times in 10: %s", effect(c.Ratio), percent(c.MinEffect))
	default:
		fmt.Fprintf(&b, ", not separable (~): %s apart; smallest effect found 8 times in 10: %s", effect(c.Ratio), percent(c.MinEffect))
	}
	return b.String()
}

// steps gives the speculative steps of a cell as text: cycles of equal steps do
// equal work. It is what the server was started with, else the parameter.
func steps(c record.Cell, runs []record.Run, data map[string]record.RunData) string {
	for _, r := range runs {
		for _, f := range data[r.ID].Provenance {
			if f.Group == "flags" && strings.HasSuffix(f.Key, "speculative-num-steps") {
				return f.Value
			}
		}
	}
	if v, ok := c.Params["steps"]; ok {
		return paramText(v)
	}
	return ""
}

// effect is how far a ratio is from 1, whichever side is the larger.
func effect(ratio float64) string { return percent(math.Max(ratio, 1/ratio) - 1) }

func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
