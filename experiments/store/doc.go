// Package store keeps what experiments found: sweeps, cells, launches, slots,
// runs, their journal of events, and what was measured, in one SQLite file,
// with the kept logs in a folder "artifacts" beside it.
//
// It stores and finds; it judges nothing. Which run is good, what a number is
// worth and how a table looks is left to trust, stats and report.
//
// Three rules hold whatever kills the process. A state changes only in the
// transaction that inserts the event which says so (Record). An event's number
// is unique within its launch, and a slot has at most one run that is done or
// failed; both are indexes of the database, not habits of its callers. What
// Record, Begin and Attach have returned from without error is on disk.
//
//	s, err := store.Open(ctx, ".specrun/results.db")
//	if err != nil { ... }
//	defer s.Close()
//	err = s.Begin(ctx, plan)
//	err = s.Record(ctx, event, record.Change{Launch: &launch})
//	view, err := s.View(ctx, plan.Sweep.ID)
//
// A Store is safe for concurrent use; its writes follow one another. Two
// processes may have the same file open: a writer waits up to ten seconds for
// the other's transaction. The queries use $1 placeholders and no function of
// one database only, so that PostgreSQL can answer them too.
package store
