package main

import (
	"context"

	"github.com/spf13/cobra"

	"specrun/configs"
	"specrun/experiments"
	"specrun/experiments/record"
	"specrun/experiments/store"
)

func newResumeCommand(a *app) *cobra.Command {
	var o experiments.ResumeOptions
	var detached, here bool
	c := &cobra.Command{
		Use:   "resume [SWEEP]",
		Short: "Go on with a sweep that was cut off",
		Long: `Go on with a sweep that was cut off, by default the one begun last. What it left
open on the host is looked at and taken up or cleaned away; runs that ended are
kept, the missing ones are measured. Nothing but the store is needed.

A sweep that goes on on its host by itself (--detach) is followed, live, and its
results are brought here; where its process was killed another one goes on. --here
goes on from here then, --detach lets a sweep that ran from here go on there.` +
			exitStatus(exitOK, exitFailed, exitUsage, exitPartial, exitConflict, exitUnreachable, exitLocked),
		Example: `  specrun resume
  specrun resume --retry-failed`,
		Args: atMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.runResume(c.Context(), args, o, detached, here)
		},
	}
	c.Flags().BoolVar(&detached, "detach", false, detachUsage)
	c.Flags().BoolVar(&here, "here", false, "go on from here with a sweep whose process on the host is gone")
	c.MarkFlagsMutuallyExclusive("detach", "here")
	c.Flags().DurationVar(&o.Wait, "wait", 0, waitUsage)
	c.Flags().BoolVar(&o.RetryFailed, "retry-failed", false, "measure failed runs again; the old ones are kept as superseded")
	return c
}

func (a *app) runResume(ctx context.Context, args []string, o experiments.ResumeOptions, detached, here bool) error {
	results, err := a.readStore(ctx)
	if err != nil {
		return err
	}
	defer results.Close()
	id, err := a.sweepToResume(ctx, results, args, o.RetryFailed)
	if err != nil {
		return err
	}
	host, err := detachedOn(ctx, results, id)
	if err != nil {
		return err
	}
	defer a.tick()()
	switch {
	case host != "":
		if done, err := a.resumeDetached(ctx, results, id, host, o, here); done || err != nil {
			return err
		}
	case detached:
		return a.detachStored(ctx, results, id, o)
	}
	return a.resumeHere(ctx, results, id, o)
}

// resumeHere goes on with a sweep from this machine.
func (a *app) resumeHere(ctx context.Context, results *store.Store, id string, o experiments.ResumeOptions) error {
	seen, err := a.watchStored(ctx, results, id)
	if err != nil {
		return err
	}
	begin := a.now()
	hosts := func(ctx context.Context, name string) (*experiments.Host, error) {
		e, err := a.entryNamed(ctx, name)
		if err != nil {
			return nil, err
		}
		return a.experimentHost(ctx, e)
	}
	what := "resuming"
	if o.EndOnly {
		what = "ending"
	}
	a.note("%s sweep %s", what, id)
	summary, err := experiments.Resume(ctx, a.deps(results, hosts, seen), id, o)
	if o.EndOnly {
		return a.concludeEnded(results, summary, err, a.now().Sub(begin))
	}
	return a.conclude(ctx, results, summary, err, a.now().Sub(begin), listRuns)
}

// watchStored watches what is left of a stored sweep; how long that takes its
// plan does not tell.
func (a *app) watchStored(ctx context.Context, results *store.Store, id string) (*watch, error) {
	plan, err := planOf(ctx, results, id)
	if err != nil {
		return nil, err
	}
	w := a.newWatch(nil, false)
	w.names = namesIn(plan.All())
	return w, nil
}

// sweepToResume is the named sweep, or the last one that has something left. One
// that was refused before its first launch is meant only by its name.
func (a *app) sweepToResume(ctx context.Context, results *store.Store, args []string, retry bool) (string, error) {
	if len(args) == 1 {
		return a.sweepID(ctx, results, args[0])
	}
	states := []record.SweepState{record.SweepActive, record.SweepInterrupted}
	if retry {
		states = append(states, record.SweepIncomplete)
	}
	rows, err := results.ListSweeps(ctx, store.SweepFilter{States: states, Begun: true, Limit: 1})
	if err != nil {
		return "", err
	}
	if len(rows) == 0 {
		return "", usagef("specrun list shows the sweeps; resume SWEEP begins one that was refused, resume --retry-failed measures failed runs again", "no sweep is left to be continued")
	}
	return rows[0].Sweep.ID, nil
}

// entryNamed finds a host that a stored sweep used.
func (a *app) entryNamed(ctx context.Context, name string) (configs.Host, error) {
	if name == labHost {
		return a.labEntry(ctx)
	}
	hosts, err := a.loadHosts()
	if err != nil {
		return configs.Host{}, err
	}
	return hosts.Resolve(name)
}

// listRuns shows what a sweep has measured.
const listRuns = "specrun list --runs"
