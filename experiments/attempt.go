package experiments

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"specrun/deploy/server"
	"specrun/experiments/record"
)

// attempt is one launch being made, or taken up again.
type attempt struct {
	x       *execution
	planned PlannedLaunch
	cfg     ServerConfig
	rec     record.Launch
	journal journal
	undo    []Step
	isLast  func(ctx context.Context) bool // no launch comes after this one

	port    int // that was chosen; 0 = none yet
	leases  leaseEvidence
	state   server.State
	ready   server.Ready
	patches PatchState
	facts   launchFacts
	argv    []string // as the server is started; rec.Argv hides its secrets
	probed  *found   // facts that were read while the server started; nil: not yet
	keeper  *keeper  // of the leases
	cards   []string // its GPUs, as leases and CUDA name them; nil: all
	ahead   *ahead   // a look at the patch set that is going on; nil: none
	fresh   bool     // its id is new: nothing of it can be on the host

	readiness server.Readiness          // that has read the log up to ready.LogOffset; nil: an earlier controller's
	mark      logMark                   // of the log, when the server became ready
	watcher   *serverWatch              // see watching
	death     *failure                  // of the server, once it was found; nil: it lived when it was looked at last
	proof     *server.Proof             // of the stop
	late      map[string][]record.Label // for runs that have ended, found after their end

	attachedTo attachEvidence // the server of somebody else
	best       *int           // ord of the cell whose server it leaves running, see after.go; nil: it measures

	run    *record.Run // being measured
	runNow PlannedRun
}

// begin records the launch itself.
func (a *attempt) begin(ctx context.Context) error {
	a.fresh = true
	a.rec.State = record.LaunchActive
	return a.record(ctx, "", stepLaunch, record.EventIntent,
		launchEvidence{N: a.planned.N, Round: a.planned.Round, Runs: a.planned.Runs, Best: a.best},
		record.Change{Launch: &a.rec, SweepID: a.x.sweepID, SweepState: record.SweepActive})
}

// goOn takes the launch to its end: all steps, all runs that are left, and the
// cleaning up. An error ends the execution; a failed run is none.
func (a *attempt) goOn(ctx context.Context, adopted *record.Run) error {
	leased, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a.keeper = &keeper{lost: cancel}
	release := a.keeper.stop
	defer release()
	err := a.serve(leased)
	if err == nil {
		err = a.measureAll(leased, adopted)
	} else if adopted != nil {
		a.willStop(*adopted) // nobody waits for its benchmark any more
	}
	var f *failure
	var fatal *fatalError
	switch {
	case err == nil:
		release()
		return a.finish(ctx, record.LaunchDone)
	case errors.As(err, &fatal):
		release()
		if !hostLost(err) && !errors.Is(err, errClaimLost) {
			err = errors.Join(err, a.undoAll(ctx))
		}
		return err
	case errors.As(err, &f):
		release()
		return a.finish(ctx, record.LaunchFailed)
	}
	// From outside: the run in progress counts for nothing.
	release()
	why := a.hider().text(err.Error())
	if ctx.Err() != nil {
		why = "interrupted"
	}
	if cutErr := a.cut(ctx, why); cutErr != nil {
		return errors.Join(err, cutErr)
	}
	return err
}

// serve takes the launch's own steps; when one of them fails, so have all its
// runs, unless another launch may do better.
func (a *attempt) serve(ctx context.Context) error {
	step, err := a.bringUp(ctx)
	var f *failure
	if !errors.As(err, &f) {
		return err
	}
	a.progress(step, PhaseFailed, strings.ReplaceAll(f.reason(), "\nnext: ", "; next: "))
	if a.portWasTaken(f) {
		a.progress(stepLaunch, PhaseNote, anotherPort)
		ev := map[string]string{"failed": step, "reason": a.hider().text(f.reason()), "next": anotherPort}
		if err := a.record(ctx, "", stepLaunch, record.EventNote, ev, record.Change{}); err != nil {
			return err
		}
		return f
	}
	ev := failureEvidence{Class: f.class, Reason: a.hider().text(f.reason())}
	if err := a.record(ctx, "", step, record.EventFailed, ev, record.Change{}); err != nil {
		return err
	}
	if err := a.failRest(ctx, ev); err != nil {
		return err
	}
	return f
}

// bringUp takes the launch's own steps until one fails; it names that one. The
// error is judged.
func (a *attempt) bringUp(ctx context.Context) (step string, err error) {
	defer func() { a.ahead.cancel() }()
	for _, s := range a.launchSteps() {
		if err := a.do(ctx, s); err != nil {
			return s.Name, judge(ctx, s.Name, err)
		}
	}
	return "", nil
}

// failRest makes every run that has no result a failed one. Those of one cell are
// told at once: each of them has the same reason.
func (a *attempt) failRest(ctx context.Context, why failureEvidence) error {
	told := map[int]Progress{} // by cell
	defer func() {
		for _, cell := range slices.Sorted(maps.Keys(told)) {
			a.report(told[cell])
		}
	}()
	for _, r := range a.planned.Runs {
		if a.x.filled(a.slot(r)) {
			continue
		}
		var run record.Run
		if a.run != nil && a.run.SlotID == a.slot(r) {
			run = *a.run // an earlier controller had begun it
		} else {
			run = a.newRun(r)
		}
		run.State, run.Class, run.Reason, run.EndUs = record.RunFailed, why.Class, why.Reason, a.x.nowUs()
		ended, err := a.storeEnd(ctx, stepRun, record.EventFailed, why, r, run, &record.RunData{Provenance: a.provenance(r)})
		if err != nil {
			return err
		}
		ended.Times += told[r.Cell].Times
		told[r.Cell] = ended
		if a.run != nil && a.run.ID == run.ID {
			a.run = nil
		}
		a.attachTail(ctx, run.ID)
	}
	return nil
}

// measureAll measures the runs that have no result, the adopted one going on
// where it is.
func (a *attempt) measureAll(ctx context.Context, adopted *record.Run) error {
	for _, r := range a.planned.Runs {
		if a.x.filled(a.slot(r)) {
			continue
		}
		var run *record.Run
		if adopted != nil && adopted.SlotID == a.slot(r) {
			run, adopted = adopted, nil
		}
		err := a.measure(ctx, r, run)
		var f *failure
		if errors.As(err, &f) && !f.ends {
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// cut ends the launch without a result for what is open in it.
func (a *attempt) cut(ctx context.Context, why string) error {
	undoErr := a.undoAll(ctx)
	if undoErr != nil {
		return &fatalError{undoErr}
	}
	if err := a.cutRun(ctx, why); err != nil {
		return err
	}
	return a.closeAs(ctx, record.LaunchCut, map[string]string{"cut": why})
}

// cutRun ends the run that is open, if any, without a result.
func (a *attempt) cutRun(ctx context.Context, why string) error {
	if a.run == nil {
		return nil
	}
	run := *a.run
	run.State, run.Reason, run.EndUs = record.RunCut, why, a.x.nowUs()
	if err := a.record(ctx, run.ID, stepRun, record.EventNote, map[string]string{"cut": why}, record.Change{Run: &run}); err != nil {
		return err
	}
	a.run = nil
	return nil
}

// finish cleans up and records how the launch ended. A launch that is kept is
// not cleaned up.
func (a *attempt) finish(ctx context.Context, state record.LaunchState) error {
	keep := state == record.LaunchDone && a.x.plan.After == AfterKeep && a.cfg.Attach == nil && a.isLast(ctx)
	if keep {
		a.x.note(fmt.Sprintf("the server of launch %s still runs on %s, port %d, with its patches (after: keep); specrun server stop --host %s ends it",
			a.rec.ID, a.x.host.Name, a.leases.Port, a.x.host.Name))
		if err := a.leaveLeases(ctx); err != nil {
			return &fatalError{err}
		}
	} else if err := a.undoAll(ctx); err != nil {
		return &fatalError{err}
	}
	a.lookBack(ctx)
	if err := a.cutRun(ctx, "its launch ended"); err != nil {
		return err
	}
	return a.close(ctx, state)
}

func (a *attempt) undoAll(ctx context.Context) error {
	ctx, cancel := a.x.cleaning(ctx)
	defer cancel()
	return a.undoTo(ctx, 0)
}

func (a *attempt) close(ctx context.Context, state record.LaunchState) error {
	return a.closeAs(ctx, state, nil)
}

// closeAs keeps the launch's log and makes its state final; evidence says why.
func (a *attempt) closeAs(ctx context.Context, state record.LaunchState, evidence any) error {
	ctx, cancel := a.x.cleaning(ctx)
	defer cancel()
	if a.state.Phase == server.Running || a.state.Phase == server.Exited { // else there is no log
		if err := a.x.patiently(ctx, func() error { return a.attachLog(ctx) }); err != nil {
			return &fatalError{err}
		}
	}
	a.rec.State = state
	return a.record(ctx, "", stepLaunch, record.EventDone, evidence, record.Change{Launch: &a.rec, Labels: a.late})
}

func (a *attempt) slot(r PlannedRun) string {
	return slotID(a.x.sweepID, r.Cell, a.planned.Round, r.Repeat)
}

// newRun is the next attempt at a slot.
func (a *attempt) newRun(r PlannedRun) record.Run {
	slot := a.slot(r)
	return record.Run{ID: a.x.deps.IDs(), SlotID: slot, Attempt: a.x.attempts[slot] + 1, LaunchID: a.rec.ID, Host: a.x.plan.Host.Name,
		State: record.RunActive, StartUs: a.x.nowUs()}
}

// endRun records a run's result, done or failed, keeps it for the source and tells
// it.
func (a *attempt) endRun(ctx context.Context, step string, kind record.EventKind, evidence any, r PlannedRun, run record.Run, data *record.RunData) error {
	ended, err := a.storeEnd(ctx, step, kind, evidence, r, run, data)
	if err == nil {
		a.report(ended)
	}
	return err
}

// storeEnd is endRun without telling: that is left to the caller.
func (a *attempt) storeEnd(ctx context.Context, step string, kind record.EventKind, evidence any, r PlannedRun, run record.Run, data *record.RunData) (Progress, error) {
	change := record.Change{Run: &run, Data: data}
	if run.Attempt > a.x.attempts[run.SlotID] {
		change.Supersede = a.x.supersede[run.SlotID]
	}
	if err := a.record(ctx, run.ID, step, kind, evidence, change); err != nil {
		return Progress{}, err
	}
	a.x.attempts[run.SlotID] = run.Attempt
	delete(a.x.supersede, run.SlotID)
	result := record.Result{Run: run, Cell: recordCell(a.x.sweepID, a.x.plan.Cells[r.Cell]),
		Slot: record.Slot{ID: run.SlotID, CellID: cellID(a.x.sweepID, r.Cell), Round: a.planned.Round, Repeat: r.Repeat},
		Data: *data}
	a.x.results = append(a.x.results, result)
	a.runNow = r
	return Progress{Step: stepRun, Phase: PhaseResult, Result: &result, Times: 1, Cell: &a.x.plan.Cells[r.Cell], Repeat: r.Repeat}, nil
}

func (a *attempt) progress(step string, phase Phase, message string) {
	p := Progress{Step: step, Phase: phase, Message: message}
	if a.run != nil {
		p.Cell, p.Repeat = &a.x.plan.Cells[a.runNow.Cell], a.runNow.Repeat
	}
	a.report(p)
}

func (a *attempt) report(p Progress) {
	p.Message = a.hider().text(p.Message) // may quote a server
	p.SweepID, p.Host, p.Round = a.x.sweepID, a.x.plan.Host.Name, a.planned.Round
	p.Launch, p.Launches = a.x.launches, max(a.x.launches, a.x.expected)
	for _, r := range a.planned.Runs {
		c := a.x.plan.Cells[r.Cell]
		if !slices.ContainsFunc(p.Cells, func(o Cell) bool { return o.Ord == c.Ord }) {
			p.Cells = append(p.Cells, c)
		}
	}
	if a.best != nil {
		p.Cells = []Cell{a.x.plan.Cells[*a.best]}
	}
	a.x.deps.OnEvent(p)
}
