package report

import (
	"fmt"
	"strings"

	"specrun/experiments/record"
	"specrun/experiments/stats"
)

// MissingError says that cells that a reference has results of have none on the
// other side, though they were to be measured there: what no longer runs is no
// slower, and passes no gate either.
type MissingError struct{ Cells []string }

func (e *MissingError) Error() string { return strings.Join(e.Cells, "; ") }

// Hint says what to do next.
func (e *MissingError) Hint() string {
	return `"specrun list B" has the reasons; compare single cells to leave others out`
}

// failedIn counts the failed runs of a cell that are not known to have been
// repeated with success, with the reason of the first.
func (s *Side) failedIn(cell record.Cell) (failed int, reason string) {
	done := map[string]bool{}
	for _, r := range s.runsOf(cell) {
		done[r.SlotID] = done[r.SlotID] || r.State == record.RunDone
	}
	for _, r := range s.runsOf(cell) {
		if r.State != record.RunFailed || done[r.SlotID] {
			continue
		}
		if failed++; failed == 1 {
			reason = firstLine(r.Reason)
		}
	}
	return failed, reason
}

// sayFailed names the cells that failed on a side, and notes those of which b has
// no result at all.
func (c *Comparison) sayFailed(r *paired) {
	for _, side := range []struct {
		letter string
		s      *Side
		cell   record.Cell
		done   int
	}{{"a", &c.A, r.a, len(r.left)}, {"b", &c.B, r.b, len(r.right)}} {
		failed, reason := side.s.failedIn(side.cell)
		if reason != "" {
			reason = ": " + reason
		}
		switch {
		case failed > 0 && side.done == 0:
			c.flag(fmt.Sprintf("%s has no result in %s: %s failed%s", r.name, side.letter, plural(failed, "run"), reason))
		case failed > 0:
			c.flag(fmt.Sprintf("%s: %d of %d runs failed in %s%s", r.name, failed, failed+side.done, side.letter, reason))
		case side.done == 0:
			c.flag(fmt.Sprintf("%s has no result in %s: no run of it is done", r.name, side.letter))
		}
		if side.letter == "b" && side.done == 0 && len(r.left) > 0 {
			c.Missing = append(c.Missing, fmt.Sprintf("cell %s has no result in b", r.name))
		}
	}
}

// sayZero notes a rate that fell to nothing: there is no ratio that would say so.
func (c *Comparison) sayZero(r *paired) {
	for i := range c.Lines {
		l := &c.Lines[i]
		rate := stats.IsSpeed(l.Metric) && !lowestWins(l.Metric) && l.Cell == r.name
		if rate && l.A.Median != nil && l.B.Median != nil && *l.A.Median > 0 && *l.B.Median <= 0 {
			c.Missing = append(c.Missing, fmt.Sprintf("cell %s has no %s in b", r.name, head(l.Metric)))
			return
		}
	}
}

// sayShared says where runs stand on both sides, which makes these look alike
// whatever they are. It reports whether all do.
func (c *Comparison) sayShared(rows []*paired) (all bool) {
	if c.A.View.Sweep.ID != c.B.View.Sweep.ID {
		return false
	}
	all = true
	for _, r := range rows {
		ids := map[string]bool{}
		a, b, shared := 0, 0, 0
		for _, run := range c.A.runsOf(r.a) {
			if run.State == record.RunDone {
				ids[run.ID] = true
				a++
			}
		}
		for _, run := range c.B.runsOf(r.b) {
			if run.State == record.RunDone {
				b++
				if ids[run.ID] {
					shared++
				}
			}
		}
		if shared < a || shared < b {
			all = false
		}
		if shared > 0 {
			c.flag(fmt.Sprintf("%s: %s on both sides", r.name, plural(shared, "run")))
		}
	}
	return all
}
