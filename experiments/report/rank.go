package report

import (
	"fmt"
	"slices"
	"strings"

	"specrun/experiments/record"
	"specrun/experiments/stats"
)

// lowestWins says which way an objective goes.
func lowestWins(metric string) bool { return stats.DirectionOf(metric) == stats.Lower }

// candidates are the rows as they are ranked, whoever does it.
func (s *Summary) candidates() []stats.Candidate {
	var out []stats.Candidate
	for i := range s.Cells {
		row := &s.Cells[i]
		runs := s.runs[row.cell.ID]
		c := stats.Candidate{Cell: row.cell, Runs: doneRuns(runs, s.slotOf, s.data), Failed: row.Failed > 0, Aside: row.Quotable}
		for _, r := range runs {
			c.Facts = append(c.Facts, s.data[r.ID].Provenance)
		}
		out = append(out, c)
	}
	return out
}

// rank finds the best row and how sure it is. Ties go to the earlier cell.
func (s *Summary) rank() {
	ranking := stats.RankCells(s.candidates(), s.Objective)
	order := ranking.Order
	var failed []string
	for _, row := range s.Cells {
		if row.Failed > 0 && !row.Quotable {
			failed = append(failed, row.name)
		}
	}
	if len(order) == 0 {
		s.Verdict = fmt.Sprintf("no best cell: none without a failed run has %s", s.Objective)
		return
	}
	if ranking.MixedSteps {
		s.Verdict = fmt.Sprintf("no best cell: %s does not rank cells of different steps, since a longer cycle may yield more tokens; use output_throughput", s.Objective)
		return
	}
	var rows []*CellRow
	for _, i := range slices.Sorted(slices.Values(order)) {
		rows = append(rows, &s.Cells[i])
	}
	caveat := s.equalize(rows, ranking)
	launches := func(i int) []stats.Launch { return s.Cells[i].ranked().launches[s.Objective] }
	s.Best, s.ranked = order[0], len(order)
	best := &s.Cells[s.Best]
	best.Best = true
	for n, i := range order {
		if n < len(order)-1 {
			s.Cells[i].SeparableFromNext = s.versus(&s.Cells[i], &s.Cells[order[n+1]], launches(i), launches(order[n+1]), s.Objective).Separable
		}
		if n > 0 {
			s.Cells[i].fromBest = s.versus(best, &s.Cells[i], launches(s.Best), launches(i), s.Objective)
		}
	}
	s.judgeTogether(best, order[1:])
	if len(order) > 1 {
		best.SeparableFromNext = s.Cells[order[1]].fromBest.Separable
	}
	s.Verdict = s.verdict(order, caveat)
	if len(failed) > 0 {
		s.Verdict += fmt.Sprintf(" (not ranked for failed runs: %s)", strings.Join(failed, ", "))
	}
}

// judgeTogether says of each other row whether it differs from the best one, as
// one of so many questions: the best of many is ahead by luck, too. What the table
// says of a cell and its baseline holds here as well.
func (s *Summary) judgeTogether(best *CellRow, others []int) {
	ps := make([]float64, len(others))
	for n, i := range others {
		ps[n] = s.Cells[i].fromBest.P
	}
	for n, p := range stats.Holm(ps) {
		row := &s.Cells[others[n]]
		if row.fromBest.Separable == nil {
			continue
		}
		separable := *row.fromBest.Separable && p < 1-stats.Confidence
		told := best.Doubt[s.Objective]
		if s.baselineOf(row) == best {
			told = row.Doubt[s.Objective]
		}
		if (s.baselineOf(best) == row || s.baselineOf(row) == best) && told.Separable != nil {
			separable = *told.Separable
		}
		row.fromBest.Separable = &separable
	}
}

// steps gives the speculative steps of a cell as text, see stats.StepsOf.
func steps(c record.Cell, runs []record.Run, data map[string]record.RunData) string {
	var facts [][]record.Fact
	for _, r := range runs {
		facts = append(facts, data[r.ID].Provenance)
	}
	return plain(stats.StepsOf(c, facts...))
}
