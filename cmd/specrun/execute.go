package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"specrun/configs"
	"specrun/experiments"
	"specrun/experiments/bench"
	"specrun/experiments/store"
	"specrun/patches"
)

// experimentHost connects to a host for the executor.
func (a *app) experimentHost(ctx context.Context, e configs.Host) (*experiments.Host, error) {
	c, err := a.connect(ctx, e)
	if err != nil {
		return nil, err
	}
	h, err := a.onConnection(c)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return h, nil
}

// onConnection is the executor's host behind a connection.
func (a *app) onConnection(c *connection) (*experiments.Host, error) {
	self, err := a.executable()
	if err != nil {
		return nil, err
	}
	return experiments.Connect(c, experiments.ConnectOptions{
		StateDir: c.entry.StateDir,
		Worker:   bench.FindWorker(self, a.flags.workerBinary),
		Patches:  a.lookupPatch,
		Library:  patches.Library,
	}), nil
}

// deps are the executor's; results may be nil for what is not recorded.
func (a *app) deps(results experiments.Recorder, hosts func(context.Context, string) (*experiments.Host, error), seen *watch) experiments.Deps {
	return experiments.Deps{
		Recorder: results, Hosts: hosts, Engines: experiments.Engines, Collect: experiments.Collect,
		Now: a.now, IDs: a.newID,
		Getenv:     a.secret,
		Controller: experiments.Controller(), ControllerGone: experiments.ControllerGone,
		Version: version, OnEvent: seen.show, Hook: a.hook,
	}
}

// executeAll runs each host's sweep; hosts run side by side.
func (a *app) executeAll(ctx context.Context, results *store.Store, sweeps []hostSweep) error {
	defer a.tick()()
	errs := make([]error, len(sweeps))
	var printing sync.Mutex
	var group errgroup.Group
	for i, s := range sweeps {
		group.Go(func() error {
			begin := a.now()
			hosts := func(ctx context.Context, _ string) (*experiments.Host, error) { return a.experimentHost(ctx, s.entry) }
			deps := a.deps(results, hosts, a.newWatch(s.plan, len(sweeps) > 1))
			deps.Wait = s.wait
			summary, err := experiments.Execute(ctx, deps, s.plan, nil)
			printing.Lock()
			defer printing.Unlock()
			errs[i] = a.conclude(ctx, results, summary, err, a.now().Sub(begin), s.next())
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return unwrapOne(errors.Join(errs...))
}

// next is the command that is useful when the sweep has ended.
func (s hostSweep) next() string {
	switch {
	case s.plan.After == experiments.AfterKeep, s.plan.After == experiments.AfterBest:
		return "specrun server stop --host " + s.entry.Name
	case s.patched:
		return "specrun rollback --host " + s.entry.Name
	case s.plan.Kind == experiments.KindProbe:
		return "specrun list"
	}
	return listRuns
}

// conclude prints a sweep's table and its closing line, and turns how it ended
// into an error.
func (a *app) conclude(ctx context.Context, results *store.Store, s *experiments.Summary, err error, took time.Duration, next string) error {
	a.printer.done()
	if s == nil || codeOf(err) == exitLocked && (s.Done+s.Failed == 0 || s.Launches == 0) {
		return err // refused: there is nothing else to say
	}
	// The table is shown after an interrupt too: what is stored is stored.
	if s.Done+s.Failed > 0 || a.flags.json {
		if shown := a.showSweep(context.WithoutCancel(ctx), results, s.SweepID); shown != nil {
			return errors.Join(err, shown)
		}
	}
	for _, n := range s.Notes {
		a.note("%s", a.noteText("note: ", n))
	}
	a.printLeft(s)
	a.note("%s", a.closing(s, err, took, results.Path(), next))
	if err != nil {
		return err
	}
	switch {
	case s.Failed == 0 && s.Missing == 0:
		return nil
	case s.Done == 0:
		return &codedError{code: exitFailed, msg: "no run is done", hint: "specrun list " + s.SweepID + " has the reasons; specrun resume " + s.SweepID + " --retry-failed tries again"}
	}
	return &codedError{code: exitPartial, msg: "some runs failed", hint: "specrun list " + s.SweepID + " has the reasons; specrun resume " + s.SweepID + " --retry-failed tries again"}
}

// closing is the last line of a sweep. An error that follows it has a hint of
// its own about what is next.
func (a *app) closing(s *experiments.Summary, err error, took time.Duration, path, next string) string {
	what := "sweep"
	if s.Kind == experiments.KindProbe {
		what = "probe"
	}
	text := fmt.Sprintf("%s %s %s: %s done, %d failed, %d missing", what, s.SweepID, s.State, counted(s.Done, "run"), s.Failed, s.Missing)
	if s.Launches == 0 && err == nil {
		text += "; nothing is left to do"
	} else {
		text += fmt.Sprintf(", %s in %s", counted(s.Launches, "launch"), took.Round(100*time.Millisecond))
	}
	if !a.passing {
		text += "; stored in " + a.homely(path)
	}
	if err == nil && s.Failed+s.Missing == 0 && !a.passing {
		text += "; next: " + next
	}
	return text
}
