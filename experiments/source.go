package experiments

import (
	"context"

	"specrun/experiments/record"
)

// planSource gives the launches of a plan that have a slot left to fill, in
// order, then those of the best cell's quote. It keeps no state: after a crash
// the results of the store lead it to where it was.
type planSource struct {
	sweepID string
	plan    *Plan
}

// Next implements Source.
func (s planSource) Next(_ context.Context, results []record.Result) ([]PlannedLaunch, error) {
	filled := filledSlots(results)
	var out []PlannedLaunch
	for _, l := range s.expected(results) {
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

// expected are all launches as far as the results tell, made ones included:
// which cell is quoted is known when every slot of the plan is filled.
func (s planSource) expected(results []record.Result) []PlannedLaunch {
	out := s.plan.Launches
	if len(s.plan.Quotes) == 0 || s.missing(out, results) > 0 {
		return out
	}
	best, ok := s.plan.Best(results)
	if !ok {
		return out
	}
	if q, ok := s.plan.quoteOf(best); ok {
		out = append(out[:len(out):len(out)], q.launches(s.plan)...)
	}
	return out
}

// missing counts the slots of launches without a result.
func (s planSource) missing(launches []PlannedLaunch, results []record.Result) int {
	filled, n := filledSlots(results), 0
	for _, l := range launches {
		for _, r := range l.Runs {
			if !filled[slotID(s.sweepID, r.Cell, l.Round, r.Repeat)] {
				n++
			}
		}
	}
	return n
}

func filledSlots(results []record.Result) map[string]bool {
	filled := make(map[string]bool, len(results))
	for _, r := range results {
		filled[r.Slot.ID] = true
	}
	return filled
}
