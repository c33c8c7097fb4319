package experiments

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"specrun/deploy/server"
	"specrun/experiments/record"
)

// keepsFiles says that the patched files are those of a best cell's server that
// was left running, or is being started.
func (x *execution) keepsFiles() bool { return x.ends.done || x.ends.best != nil }

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

// lookBestPatch begins the patch step of the best cell's server: what the cell has beside
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
