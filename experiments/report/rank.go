package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"specrun/experiments/record"
	"specrun/experiments/stats"
)

// lowestWins says which way an objective goes.
func lowestWins(metric string) bool { return stats.DirectionOf(metric) == stats.Lower }

// rank finds the best row and how sure it is. Ties go to the earlier cell.
func (s *Summary) rank() {
	var order []int
	var failed []string
	var rows []*CellRow
	for i := range s.Cells {
		row := &s.Cells[i]
		_, measured := row.Metrics[s.Objective]
		switch {
		case row.Quotable:
		case row.Failed > 0:
			failed = append(failed, row.name)
		case measured:
			order, rows = append(order, i), append(rows, row)
		}
	}
	if len(order) == 0 {
		s.Verdict = fmt.Sprintf("no best cell: none without a failed run has %s", s.Objective)
		return
	}
	if strings.HasPrefix(s.Objective, "cycle_") {
		shapes := map[string]bool{}
		for _, i := range order {
			shapes[steps(s.Cells[i].cell, s.runs[s.Cells[i].cell.ID], s.data)] = true
		}
		if len(shapes) > 1 {
			s.Verdict = fmt.Sprintf("no best cell: %s does not rank cells of different steps, since a longer cycle may yield more tokens; use output_throughput", s.Objective)
			return
		}
	}
	caveat := s.equalize(rows)
	slices.SortStableFunc(order, func(a, b int) int {
		x, _ := s.value(&s.Cells[a])
		y, _ := s.value(&s.Cells[b])
		if lowestWins(s.Objective) {
			return cmp.Compare(x.Median, y.Median)
		}
		return cmp.Compare(y.Median, x.Median)
	})
	launches := func(i int) []stats.Launch { return s.Cells[i].ranked().launches[s.Objective] }
	s.Best, s.ranked = order[0], len(order)
	best := &s.Cells[s.Best]
	best.Best = true
	for n, i := range order {
		if n < len(order)-1 {
			s.Cells[i].SeparableFromNext = s.versus(best, launches(i), launches(order[n+1]), s.Objective).Separable
		}
		if n > 0 {
			s.Cells[i].fromBest = s.versus(best, launches(s.Best), launches(i), s.Objective)
		}
	}
	s.Verdict = s.verdict(order, caveat)
	if len(failed) > 0 {
		s.Verdict += fmt.Sprintf(" (not ranked for failed runs: %s)", strings.Join(failed, ", "))
	}
}

// steps gives the speculative steps of a cell as text: cycles of equal steps do
// equal work. It is what the server was started with, else the parameter; "" when
// neither is known.
func steps(c record.Cell, runs []record.Run, data map[string]record.RunData) string {
	asked := ""
	for _, r := range runs {
		for _, f := range data[r.ID].Provenance {
			switch {
			case f.Group != "flags" || ruleKey("flags", f.Key) != "speculative-num-steps":
			case strings.HasPrefix(f.Key, askedPrefix):
				asked = f.Value
			default: // what is in effect
				return f.Value
			}
		}
	}
	if asked != "" {
		return asked
	}
	if v, ok := c.Params["steps"]; ok {
		return paramText(v)
	}
	return ""
}
