package experiments

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"specrun/deploy/server"
	"specrun/experiments/record"
)

// ResumeOptions changes what resume takes up.
type ResumeOptions struct {
	RetryFailed bool // failed runs are measured again; the old ones are superseded
	// Wait replaces Deps.Wait when it is not 0.
	Wait time.Duration
	// EndOnly ends what is open and puts the host back as after: says, as an
	// interrupt does, and measures nothing more. The sweep is interrupted then.
	EndOnly bool
}

// Resume goes on with a sweep whose controller ended at any moment: what is
// open is looked at on the host and taken up or cleaned up, then the slots
// without a result are filled. Failed runs are results and stay. It needs
// nothing but the store. Errors as of Execute, and *ClaimedError when another
// controller is at work. A sweep with nothing left to do is reported as it is.
func Resume(ctx context.Context, deps Deps, sweepID string, o ResumeOptions) (*Summary, error) {
	if deps.Recorder == nil {
		return nil, errors.New("resume: no recorder")
	}
	view, err := deps.Recorder.View(ctx, sweepID)
	if err != nil {
		return nil, err
	}
	plan, err := DecodePlan(view.Sweep.Plan)
	if err != nil {
		return nil, fmt.Errorf("resume %s: %w", sweepID, err)
	}
	deps.Wait = cmp.Or(o.Wait, deps.Wait)
	x, err := newExecution(deps, plan, view.Sweep.ID)
	if err != nil {
		return nil, err
	}
	x.source, x.unbegun = planSource{x.sweepID, plan}, len(view.Launches) == 0
	if err := x.recallFound(view.Events); err != nil { // whoever shares the patches asks for it
		return nil, err
	}
	if o.EndOnly && len(view.Launches) == 0 {
		if s, err := x.cutUnbegun(ctx); s != nil || err != nil {
			return s, err
		}
	}
	if err := x.connect(ctx); err != nil {
		return nil, err
	}
	defer x.disconnect()
	return x.run(ctx, func(ctx context.Context) error {
		// Read again: until the claim was ours, another controller may have
		// written.
		view, err := x.deps.Recorder.View(ctx, x.sweepID)
		if err != nil {
			return &fatalError{err}
		}
		if err := x.takeUp(ctx, view, o); err != nil || !o.EndOnly {
			return err
		}
		return errEnded
	})
}

// cutUnbegun ends a sweep of which no launch was ever begun: the host has nothing of
// it, so no lease is needed and the host is not asked. The summary is nil when a
// launch was begun meanwhile.
func (x *execution) cutUnbegun(ctx context.Context) (s *Summary, err error) {
	if err := x.claim(ctx, x.sweepID); err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, x.deps.Recorder.Claim(context.WithoutCancel(ctx), x.sweepID, x.deps.Controller, 0))
	}()
	view, err := x.deps.Recorder.View(ctx, x.sweepID)
	if err != nil || len(view.Launches) > 0 {
		return nil, err
	}
	state, missing := x.state()
	if err := x.end(ctx, state); err != nil {
		return nil, err
	}
	s = x.summary(state)
	s.Missing = missing
	return s, nil
}

// errEnded ends an execution that was to end only.
var errEnded = errors.New("the sweep was to be ended")

// without is what is left of joined errors when one of them counts as none.
func without(err, none error) error {
	if err == none {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || !errors.Is(err, none) {
		return err
	}
	var rest []error
	for _, part := range joined.Unwrap() {
		rest = append(rest, without(part, none))
	}
	return errors.Join(rest...)
}

// takeUp makes the state of an earlier controller our own and ends or continues
// every launch it left open.
func (x *execution) takeUp(ctx context.Context, view record.SweepView, o ResumeOptions) error {
	cells, slots := map[string]record.Cell{}, map[string]record.Slot{}
	for _, c := range view.Cells {
		cells[c.ID] = c
	}
	for _, s := range view.Slots {
		slots[s.ID] = s
	}
	active := map[string][]record.Run{}
	for _, r := range view.Runs {
		x.attempts[r.SlotID] = max(x.attempts[r.SlotID], r.Attempt)
		slot := slots[r.SlotID]
		switch {
		case r.State == record.RunActive:
			active[r.LaunchID] = append(active[r.LaunchID], r)
		case r.State == record.RunFailed && o.RetryFailed:
			x.supersede[r.SlotID] = r.ID
		case r.State == record.RunDone || r.State == record.RunFailed:
			d := view.Data[r.ID]
			cell := cells[slot.CellID]
			x.results = append(x.results, record.Result{Run: r, Cell: cell, Slot: slot, Data: d})
			if cell.Ord < len(x.plan.Cells) {
				x.firsts.recall(x.plan.Cells[cell.Ord], d.Provenance)
				if r.State == record.RunDone {
					x.recallBaseline(ctx, x.plan.Cells[cell.Ord], r.ID, view.Artifact)
				}
			}
		}
	}
	if err := x.recallFound(view.Events); err != nil {
		return err
	}
	if err := x.ends.recall(view.Events); err != nil {
		return err
	}
	events := map[string][]record.Event{}
	for _, e := range view.Events {
		events[e.LaunchID] = append(events[e.LaunchID], e)
	}
	for _, l := range view.Launches {
		j, err := readJournal(events[l.ID])
		if err != nil {
			return err
		}
		a := x.newAttempt(PlannedLaunch{N: j.launch.N, Round: j.launch.Round, Runs: j.launch.Runs}, l)
		a.journal = j
		if ours, err := x.endsIn(ctx, a, o); err != nil {
			return err
		} else if ours {
			continue
		}
		if l.State != record.LaunchActive && l.State != record.LaunchPlanned {
			continue
		}
		if err := a.reopen(ctx, active[l.ID], o); err != nil {
			return err
		}
	}
	return nil
}

// reopen decides what becomes of a launch that was left open. It goes on when
// its server runs and its benchmark, if any, was not lost; a launch that had
// failed gets its runs failed; anything else is cleaned up and made anew.
func (a *attempt) reopen(ctx context.Context, active []record.Run, o ResumeOptions) error {
	a.x.launches++
	if a.journal.lease != nil {
		a.leases = *a.journal.lease
		a.port = a.leases.Port
	}
	var run *record.Run
	if len(active) > 0 {
		run = &active[0]
	}
	if err := a.x.patiently(ctx, func() error { return a.takeInside(ctx) }); err != nil {
		return leftOpen(ctx, err)
	}
	goOn, why, err := a.canGoOn(ctx, run)
	if err != nil {
		return err
	}
	if goOn && o.EndOnly {
		goOn, why = false, "the sweep is being ended"
	}
	if goOn {
		a.progress(stepLaunch, PhaseNote, "an earlier controller's server still runs: going on with it")
		a.run = run
		a.cleanUp(nil) // also when a step before the server's fails
		return a.goOn(ctx, run)
	}
	a.progress(stepLaunch, PhaseNote, why)
	a.cleanUp(active)
	if run != nil {
		a.run = run
	}
	if a.journal.failed != nil {
		// The launch had failed, and its controller died while saying so.
		if err := a.failRest(ctx, *a.journal.failed); err != nil {
			return err
		}
		return a.finish(ctx, record.LaunchFailed)
	}
	if a.left() == 0 {
		return a.finish(ctx, record.LaunchDone)
	}
	return a.cut(ctx, why)
}

// left counts the launch's runs without a result.
func (a *attempt) left() int {
	n := 0
	for _, r := range a.planned.Runs {
		if !a.x.filled(a.slot(r)) {
			n++
		}
	}
	return n
}

// canGoOn looks at server and benchmark; why says what speaks against it.
func (a *attempt) canGoOn(ctx context.Context, run *record.Run) (ok bool, why string, err error) {
	switch {
	case a.journal.failed != nil:
		return false, "the launch had failed", nil
	case a.journal.undoing:
		return false, "the launch was being ended", nil
	case a.left() == 0:
		return false, "all its runs have ended", nil
	}
	err = a.x.patiently(ctx, func() (err error) {
		a.state, err = a.x.host.Server.Look(ctx, a.rec.ID)
		return err
	})
	if err != nil {
		return false, "", leftOpen(ctx, err)
	}
	if a.state.Phase != server.Running || a.state.Stopped {
		return false, "its server does not run", nil
	}
	if run == nil {
		return true, "", nil
	}
	for _, dir := range []string{run.ID + "-warm", run.ID} {
		var p BenchProgress
		err := a.x.patiently(ctx, func() (err error) {
			p, err = a.x.host.Bench.Poll(ctx, BenchJob{Launch: a.rec.ID, Dir: dir})
			return err
		})
		if err != nil {
			return false, "", leftOpen(ctx, err)
		}
		if p.State == BenchDead {
			return false, "its benchmark was lost", nil
		}
	}
	return true, "", nil
}

// leftOpen is the error of a look that failed: nothing was changed by it.
func leftOpen(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &fatalError{err}
}

// cleanUp lists everything that an earlier controller may have left, whether it
// was recorded as done or not: undoing what is not there does nothing.
func (a *attempt) cleanUp(active []record.Run) {
	for _, s := range a.launchSteps() {
		if s.Name == stepLease && a.journal.lease == nil {
			continue
		}
		a.willUndo(s)
	}
	for _, r := range active {
		a.willStop(r)
	}
}

// willStop puts a run's benchmarks on the list of what is undone.
func (a *attempt) willStop(r record.Run) {
	for _, dir := range []string{r.ID + "-warm", r.ID} {
		j := BenchJob{Launch: a.rec.ID, Dir: dir}
		a.willUndo(Step{Name: stepBench + " " + dir, Run: r.ID,
			Undo: func(ctx context.Context) (any, error) { return nil, a.x.host.Bench.Stop(ctx, j) }})
	}
}
