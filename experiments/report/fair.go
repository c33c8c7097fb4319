package report

import (
	"fmt"
	"slices"
	"strings"

	"specrun/experiments/record"
)

// handicaps are the labels of a launch that may have been slower, or faster, for
// what was going on around it.
var handicaps = [...]string{"throttled", "shared-host", driftLabel, "jit", "cache-warm", "config-mismatch", "mixed-batch"}

// blurs are the labels of numbers that may be wrong themselves. They matter where a
// cell might be as good as the best, and of the baseline.
var blurs = [...]string{"disagree", "output-changed", "patch-unverified", "partial", "noisy"}

// others says what speaks against the numbers of the rows that the best one was
// compared with, the baseline included, where it does not speak against its own: it
// may have won for that. "" when nothing does.
func (s *Summary) others(best *CellRow, order []int) string {
	rows := make([]*CellRow, 0, len(order))
	for i := range s.Cells {
		row := &s.Cells[i]
		if row != best && row.Runs > 0 && !row.Quotable && (slices.Contains(order, i) || s.baselineOf(best) == row) {
			rows = append(rows, row)
		}
	}
	near := func(row *CellRow) bool {
		return row.Baseline || row == &s.Cells[order[min(1, len(order)-1)]] || !holds(row.fromBest.Separable)
	}
	said := func(labels []string, counts func(*CellRow) bool) string {
		var parts []string
		for _, label := range labels {
			if slices.Contains(best.Labels, label) {
				continue
			}
			var names []string
			for _, row := range rows {
				if counts(row) && slices.Contains(row.Labels, label) {
					names = append(names, row.name)
				}
			}
			if len(names) > 0 {
				parts = append(parts, label+": "+cellsText(names))
			}
		}
		return strings.Join(parts, "; ")
	}
	race, sight := said(handicaps[:], func(*CellRow) bool { return true }), said(blurs[:], near)
	var later []string
	for _, row := range rows {
		if len(s.retaken(row)) > 0 && len(s.retaken(best)) == 0 {
			later = append(later, row.name)
		}
	}
	if len(later) > 0 {
		race = strings.TrimPrefix(race+"; retried later: "+cellsText(later), "; ")
	}
	switch {
	case race != "" && sight != "":
		return fmt.Sprintf("not in a fair race (%s; %s)", race, sight)
	case race != "":
		return fmt.Sprintf("not in a fair race (%s)", race)
	case sight != "":
		return fmt.Sprintf("against others in doubt (%s)", sight)
	}
	return ""
}

// retaken are the rounds, from 0, whose run of a row was taken again after it had
// failed: it was then measured alone and not in turn with the others.
func (s *Summary) retaken(row *CellRow) map[int]bool {
	failed, rounds := map[string]bool{}, map[int]bool{}
	if !s.plan.interleaved() { // every cell has a time of its own
		return nil
	}
	for _, r := range s.runs[row.cell.ID] {
		failed[r.SlotID] = failed[r.SlotID] || r.State == record.RunSuperseded
	}
	for _, r := range s.runs[row.cell.ID] {
		if r.State == record.RunDone && failed[r.SlotID] {
			rounds[s.slotOf[r.SlotID].Round] = true
		}
	}
	return rounds
}

// retakenNotes name them.
func (s *Summary) retakenNotes() []string {
	var out []string
	for i := range s.Cells {
		row := &s.Cells[i]
		if rounds := s.retaken(row); len(rounds) > 0 {
			from1 := map[int]bool{}
			for r := range rounds {
				from1[r+1] = true
			}
			out = append(out, fmt.Sprintf("%s of %s was retried later, not in turn with the other cells: ratios of it are over all launches, not within rounds", roundsText(from1), row.name))
		}
	}
	return out
}
