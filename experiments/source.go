package experiments

import (
	"context"

	"specrun/experiments/record"
)

// planSource gives the launches of a plan that have a slot left to fill, in
// order. It keeps no state: after a crash the results of the store lead it to
// where it was.
type planSource struct {
	sweepID string
	plan    *Plan
}

// Next implements Source.
func (s planSource) Next(_ context.Context, results []record.Result) ([]PlannedLaunch, error) {
	filled := map[string]bool{}
	for _, r := range results {
		filled[r.Slot.ID] = true
	}
	var out []PlannedLaunch
	for _, l := range s.plan.Launches {
		left := l
		left.Runs = nil
		for _, r := range l.Runs {
			if !filled[slotID(s.sweepID, r.Cell, l.Round, r.Repeat)] {
				left.Runs = append(left.Runs, r)
			}
		}
		if len(left.Runs) > 0 {
			out = append(out, left)
		}
	}
	return out, nil
}
