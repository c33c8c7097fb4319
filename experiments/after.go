package experiments

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"specrun/deploy/server"
	"specrun/experiments/record"
)

// stepAfter is what is done when every launch of a sweep is made and its patches
// are as they were found.
const stepAfter = "after"

// Left is the server that a sweep left running.
type Left struct {
	After    After
	Launch   string
	Identity server.Identity
	Port     int
	URL      string // as seen from the host
	LogPath  string
	Cell     *Cell      // whose server it is; nil: one that ran before the sweep
	Patches  []PatchRef // in its files
	Saved    string     // id of the saved server that serves again; "" else
}

// ends is how far an earlier controller came with what is done at the end.
type ends struct {
	best  *attempt // launch of the best cell's server
	done  bool     // the server was left running: whatever became of it, nothing is done again
	saved map[string]bool
}

// recallEnds takes from the journals what was done at the end.
func (e *ends) recall(events []record.Event) error {
	for _, ev := range events {
		if ev.Step != stepAfter || ev.Kind != record.EventDone {
			continue
		}
		var done struct {
			Saved string `json:"saved"`
		}
		if err := json.Unmarshal(ev.Evidence, &done); err != nil {
			return fmt.Errorf("journal of launch %s, event %d: %w", ev.LaunchID, ev.Seq, err)
		}
		if done.Saved != "" {
			if e.saved == nil {
				e.saved = map[string]bool{}
			}
			e.saved[done.Saved] = true
		}
	}
	return nil
}

// keepsFiles says that the patched files are those of a best cell's server that
// was left running, or is being started.
func (x *execution) keepsFiles() bool { return x.ends.done || x.ends.best != nil }

// leave does what after: says beside the patches, once per sweep. Errors leave the
// sweep open: resume tries again.
func (x *execution) leave(ctx context.Context) error {
	if x.last == nil || x.plan.attaches() {
		return nil
	}
	switch x.plan.After {
	case AfterRestore:
		return x.startSaved(ctx)
	case AfterBest:
		return x.startBest(ctx)
	}
	return nil
}

// savedFor bounds how long before a sweep a server may have been stopped for the
// sweep's end to start it again: what was stopped for another day's work is not this
// sweep's to bring back.
const savedFor = 24 * time.Hour

// Restores tells that the end of a sweep that begins at began, by the controller's
// clock, starts s again.
func Restores(s server.Saved, began time.Time) bool {
	return s.Pending() && s.Stopped.After(began.Add(-savedFor))
}

// anotherSweep is one that works on the host or waits for it, by its place in the
// queue; "" when there is none.
func (x *execution) anotherSweep(ctx context.Context) (string, error) {
	var leases []server.Lease
	err := x.patiently(ctx, func() (err error) {
		leases, err = x.host.Foreign.Leases(ctx)
		return err
	})
	for _, l := range leases {
		if l.Queued() && l.Owner.Launch != x.holder && !(l.Expired && !l.Alive) {
			return fmt.Sprintf("%s of %s", firstOf(l.Owner.What, l.Owner.Launch), l.Owner.Who()), err
		}
	}
	return "", err
}

// savedHere are the servers that this sweep's end starts again; of the others it
// says why not.
func (x *execution) savedHere(ctx context.Context, all []server.Saved) ([]server.Saved, error) {
	all = slices.DeleteFunc(slices.Clone(all), func(s server.Saved) bool { return !s.Pending() || x.ends.saved[s.ID] })
	if len(all) == 0 {
		return nil, nil
	}
	view, err := x.deps.Recorder.View(ctx, x.sweepID)
	if err != nil {
		return nil, fmt.Errorf("read when the sweep began: %w", err)
	}
	other, err := x.anotherSweep(ctx)
	if err != nil {
		return nil, &fatalError{err}
	}
	var mine []server.Saved
	for _, s := range all {
		why := ""
		switch {
		case !Restores(s, time.UnixMicro(view.Sweep.CreatedUs)):
			why = "it was stopped more than a day before this sweep"
		case other != "":
			why = "another sweep works on the host or waits for it (" + other + "), whose end starts it unless its after: says otherwise"
		default:
			mine = append(mine, s)
			continue
		}
		x.note(fmt.Sprintf("%s: the server saved as %s was not started again: %s; specrun server start --saved %s --host %s does", x.host.Name, s.ID, why, s.ID, x.host.Name))
	}
	return mine, nil
}

// startSaved starts the servers again that specrun stopped on this host and keeps,
// those that are for this sweep to start.
func (x *execution) startSaved(ctx context.Context) error {
	if x.host.Foreign == nil {
		return nil
	}
	var all []server.Saved
	err := x.patiently(ctx, func() (err error) {
		all, err = x.host.Foreign.Saved(ctx)
		return err
	})
	if err != nil {
		return &fatalError{err}
	}
	mine, err := x.savedHere(ctx, all)
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range mine {
		if err := x.startOneSaved(ctx, s); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (x *execution) startOneSaved(ctx context.Context, s server.Saved) error {
	a := x.last
	launch := x.deps.IDs()
	if err := a.record(ctx, "", stepAfter, record.EventIntent, map[string]string{"saved": s.ID, "launch": launch}, record.Change{}); err != nil {
		return err
	}
	a.progress(stepAfter, PhaseBegin, "starting the server again that ran before: "+oneLine(firstOf(s.About, quoteArgv(a.hider().argv(s.Argv)))))
	var r *Restarted
	err := x.patiently(ctx, func() (err error) {
		r, err = x.host.Foreign.Restart(ctx, s.ID, RestartOptions{Launch: launch, Controller: x.deps.Controller, Parent: x.holder, LeaseTTL: x.deps.LeaseTTL, Poll: x.deps.Poll})
		return err
	})
	if other := new(server.OwnerError); errors.As(err, &other) {
		// No resume as this user could do it.
		x.note(other.Error() + "; " + other.Hint())
		a.progress(stepAfter, PhaseNote, other.Error())
		return nil
	}
	if err != nil {
		a.progress(stepAfter, PhaseFailed, err.Error())
		return &fatalError{&NotRestoredError{Host: x.host.Name, Saved: s.ID, Err: err}}
	}
	x.left = append(x.left, Left{After: AfterRestore, Launch: r.Launch, Identity: r.Identity, Port: s.Port, URL: r.URL, LogPath: r.LogPath, Saved: s.ID})
	if err := a.record(ctx, "", stepAfter, record.EventDone, map[string]any{"saved": s.ID, "launch": r.Launch, "url": r.URL, "identity": r.Identity}, record.Change{}); err != nil {
		return err
	}
	a.progress(stepAfter, PhaseDone, "")
	return nil
}

// NotRestoredError says that the server which ran before a sweep does not run
// again.
type NotRestoredError struct {
	Host, Saved string
	Err         error
}

func (e *NotRestoredError) Error() string {
	return fmt.Sprintf("%s: the server that was saved as %s does not run again: %v", e.Host, e.Saved, e.Err)
}

func (e *NotRestoredError) Unwrap() error { return e.Err }

// Hint says what to do next.
func (e *NotRestoredError) Hint() string {
	return "specrun server start --saved " + e.Saved + " --host " + e.Host + " tries again, specrun server saved forget " + e.Saved + " gives it up"
}

// startBest leaves the best cell's server running, without its profiling patches.
func (x *execution) startBest(ctx context.Context) error {
	if x.ends.done {
		return nil
	}
	best, ok := x.own.Best(x.results)
	if !ok {
		x.note("no cell is the best one, so no server was started (after: best)")
		return nil
	}
	a := x.ends.best
	if a != nil {
		goOn, err := a.stillStarts(ctx, best)
		if err != nil {
			return err
		}
		if !goOn {
			a.cleanUp(nil)
			if err := a.cut(ctx, "its controller ended while it started"); err != nil {
				return err
			}
			a, x.ends.best = nil, nil
			if err := x.restore(ctx); err != nil {
				return err
			}
		}
	}
	if a == nil {
		a = x.newAttempt(PlannedLaunch{N: len(x.plan.Launches) + x.plan.Rounds*len(x.plan.Quotes)}, record.Launch{ID: x.deps.IDs(), SweepID: x.sweepID, Host: x.plan.Host.Name})
		x.launches, x.expected = x.launches+1, x.launches+1
		a.serveBest(best)
		if err := a.begin(ctx); err != nil {
			return err
		}
	} else {
		x.last = a
		a.cleanUp(nil)
	}
	x.ends.best = nil
	return a.leaveBest(ctx)
}

// serveBest makes the attempt one that leaves a cell's server running.
func (a *attempt) serveBest(ord int) {
	a.best = &ord
	a.cfg = withoutProfilers(a.x.plan.Cells[ord].Server)
}

// stillStarts says that an earlier controller's launch of the best cell can be
// gone on with.
func (a *attempt) stillStarts(ctx context.Context, best int) (bool, error) {
	if a.journal.failed != nil || a.journal.undoing || a.best == nil || *a.best != best {
		return false, nil
	}
	err := a.x.patiently(ctx, func() (err error) {
		a.state, err = a.x.host.Server.Look(ctx, a.rec.ID)
		return err
	})
	if err != nil {
		return false, leftOpen(ctx, err)
	}
	return a.state.Phase == server.Running && !a.state.Stopped, nil
}

// leaveBest takes the launch to a ready server and leaves it.
func (a *attempt) leaveBest(ctx context.Context) error {
	cell := a.x.plan.Cells[*a.best]
	leased, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a.keeper = &keeper{lost: cancel}
	defer a.keeper.stop()
	step, err := a.bringUp(leased)
	a.keeper.stop()
	if err == nil {
		err = a.leaveLeases(ctx)
	}
	var f *failure
	switch {
	case err == nil:
		return a.bestServes(ctx, cell)
	case errors.As(err, &f):
		a.progress(step, PhaseFailed, f.Error())
		ev := failureEvidence{Class: f.class, Reason: a.hider().text(f.reason())}
		if err := a.record(ctx, "", step, record.EventFailed, ev, record.Change{}); err != nil {
			return err
		}
		if err := a.undoAll(ctx); err != nil {
			return &fatalError{err}
		}
		if err := a.close(ctx, record.LaunchFailed); err != nil {
			return err
		}
		return errors.Join(&fatalError{fmt.Errorf("%s: the best cell's server was not started (after: best): %w", a.x.host.Name, f)}, a.x.restore(ctx))
	case hostLost(err) || errors.Is(err, errClaimLost):
		return err // for whoever has the sweep then
	}
	if cutErr := a.cut(ctx, "interrupted"); cutErr != nil {
		return errors.Join(err, cutErr)
	}
	return errors.Join(err, a.x.restore(ctx))
}

func (a *attempt) bestServes(ctx context.Context, cell Cell) error {
	left := Left{After: AfterBest, Launch: a.rec.ID, Identity: a.state.Identity, Port: a.leases.Port, URL: a.ready.BaseURL, LogPath: a.state.LogPath,
		Cell: &cell, Patches: a.patches.Patches}
	a.x.left = append(a.x.left, left)
	if len(a.cfg.Patches) > 0 {
		a.x.note(fmt.Sprintf("%s: the patches of the best cell that measure nothing stay in its files; specrun rollback --host %s removes them", a.x.host.Name, a.x.host.Name))
	} else if slices.ContainsFunc(a.patches.Patches, profiles) {
		a.x.note(a.x.host.Name + ": a profiling patch was in the files before the sweep, and its server has loaded it")
	}
	a.undo = nil
	return a.closeAs(ctx, record.LaunchDone, map[string]any{"left": "best", "cell": cell.Ord, "url": left.URL})
}

// bestPatch is the patch step of the best cell's server: what the cell has beside
// its profilers, else the files stay as the sweep found them.
func (a *attempt) lookBestPatch(ctx context.Context) (Found, any, error) {
	if len(a.cfg.Patches) > 0 {
		return a.lookPatch(ctx)
	}
	state, err := a.x.host.Patcher.Current(ctx, a.where())
	if err != nil {
		return Absent, nil, err
	}
	a.patches = state
	return Done, patchEvidence{Python: a.cfg.Python, Found: state.Patches, Want: state.Patches, State: state}, nil
}

// withoutProfilers is a server without the patches that measure, and without the
// variables that these set.
func withoutProfilers(c ServerConfig) ServerConfig {
	out := c
	out.Env, out.Patches = maps.Clone(c.Env), nil
	set := map[string]string{}
	for _, p := range c.Patches {
		if !profiles(p) {
			out.Patches = append(out.Patches, p)
			maps.Copy(set, p.Env)
		}
	}
	for _, p := range c.Patches {
		if !profiles(p) {
			continue
		}
		for name, value := range p.Env {
			if _, other := set[name]; !other && out.Env[name] == value {
				delete(out.Env, name)
			}
		}
	}
	return out
}

// endsIn takes up what an earlier controller did at the end: its launch of the
// best cell's server. true: the launch is not one of the plan's.
func (x *execution) endsIn(ctx context.Context, a *attempt, o ResumeOptions) (bool, error) {
	if a.journal.launch.Best == nil {
		return false, nil
	}
	if ord := *a.journal.launch.Best; ord >= 0 && ord < len(x.plan.Cells) {
		a.serveBest(ord)
	}
	if a.journal.lease != nil {
		a.leases = *a.journal.lease
		a.port = a.leases.Port
	}
	next, err := x.source.Next(ctx, x.results)
	if err != nil {
		return true, fmt.Errorf("plan the next launch: %w", err)
	}
	open := a.rec.State == record.LaunchActive || a.rec.State == record.LaunchPlanned
	switch {
	case open && !o.EndOnly && len(next) == 0:
		x.ends.best = a
	case open:
		a.cleanUp(nil)
		return true, a.cut(ctx, "the sweep is being ended")
	case a.rec.State == record.LaunchDone && len(next) == 0:
		x.ends.done = true
	case a.rec.State == record.LaunchDone && !o.EndOnly:
		// More is measured: its server is in the way, and maybe not the best any more.
		a.cleanUp(nil)
		if err := a.undoAll(ctx); err != nil {
			return true, &fatalError{err}
		}
	}
	return true, nil
}
