package experiments

import (
	"context"
	"slices"

	"specrun/experiments/record"
)

// extend makes room in the store for what a launch measures beyond the plan as
// it was begun.
func (x *execution) extend(ctx context.Context, l PlannedLaunch) error {
	var cells []record.Cell
	for _, r := range l.Runs {
		if r.Cell >= len(x.own.Cells) && !slices.ContainsFunc(cells, func(c record.Cell) bool { return c.Ord == r.Cell }) {
			cells = append(cells, recordCell(x.sweepID, x.plan.Cells[r.Cell]))
		}
	}
	if len(cells) == 0 {
		return nil
	}
	var slots []record.Slot
	for _, l := range (planSource{x.sweepID, x.own}).expected(x.results) {
		for _, r := range l.Runs {
			if r.Cell >= len(x.own.Cells) {
				slots = append(slots, recordSlot(x.sweepID, l.Round, r))
			}
		}
	}
	if err := x.deps.Recorder.Extend(context.WithoutCancel(ctx), x.sweepID, cells, slots, x.notQuoted()...); err != nil {
		return &fatalError{err}
	}
	return nil
}

// closeQuotes closes what is empty of quotes that are not taken: the best cell may
// be another one since they were begun.
func (x *execution) closeQuotes(ctx context.Context) error {
	if len(x.own.Quotes) == 0 {
		return nil
	}
	if err := x.deps.Recorder.Extend(context.WithoutCancel(ctx), x.sweepID, nil, nil, x.notQuoted()...); err != nil {
		return &fatalError{err}
	}
	return nil
}

// notQuoted are the ids of the cells of all quotes but the one that is taken.
func (x *execution) notQuoted() []string {
	taken := map[int]bool{}
	for _, l := range (planSource{x.sweepID, x.own}).expected(x.results) {
		for _, r := range l.Runs {
			taken[r.Cell] = true
		}
	}
	var ids []string
	for _, q := range x.own.Quotes {
		if !taken[q.Cell.Ord] {
			ids = append(ids, cellID(x.sweepID, q.Cell.Ord))
		}
	}
	return ids
}
