package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"specrun/experiments"
	"specrun/experiments/detach"
	"specrun/experiments/record"
	"specrun/experiments/store"
)

func newCancelCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "cancel SWEEP",
		Short: "End a sweep that goes on by itself, or one that was cut off",
		Long: `End a sweep as Ctrl-C does where it runs: what is in progress is undone, its
server stopped with proof, the host put back as after: says. Of a sweep that was
begun with --detach the process on its host does that; where it was killed, a new
one. Of a sweep whose specrun here was killed this command does it. Runs that
ended are kept, and resume goes on with the missing ones.` +
			exitStatus(exitOK, exitFailed, exitUsage, exitConflict, exitUnreachable, exitLocked, exitRollbackFailed),
		Example: "  specrun cancel k3v7",
		Args:    needs("a SWEEP", 1, 1, "specrun list"),
		RunE:    func(c *cobra.Command, args []string) error { return a.runCancel(c.Context(), args[0]) },
	}
}

func (a *app) runCancel(ctx context.Context, ref string) error {
	results, err := a.readStore(ctx)
	if err != nil {
		return err
	}
	defer results.Close()
	id, err := a.sweepID(ctx, results, ref)
	if err != nil {
		return err
	}
	host, err := detachedOn(ctx, results, id)
	if err != nil {
		return err
	}
	view, err := results.View(ctx, id)
	if err != nil {
		return err
	}
	if state := view.Sweep.State; host == "" && state != record.SweepActive && state != record.SweepInterrupted {
		return usagef(`"specrun list" shows how sweeps stand`, "sweep %s has ended: it is %s", id, state)
	}
	defer a.tick()()
	if host != "" {
		done, err := a.cancelDetached(ctx, results, id, host)
		if done || err != nil {
			return err
		}
	}
	return a.resumeHere(ctx, results, id, experiments.ResumeOptions{EndOnly: true})
}

// cancelDetached ends a sweep on its host. done is false when that has nothing
// of it.
func (a *app) cancelDetached(ctx context.Context, results *store.Store, id, host string) (done bool, err error) {
	d, err := a.openDetached(ctx, results, id, host)
	if err != nil {
		return false, err
	}
	d.follower.cancel = true
	switch d.at.State {
	case detach.Absent:
		return false, errors.Join(d.follower.release(ctx), d.c.Close())
	case detach.Running:
		a.note("ending sweep %s on %s", id, host)
		if _, err := detach.Stop(ctx, d.c, d.at.Dir); err != nil {
			return true, errors.Join(err, d.c.Close())
		}
	case detach.Dead, detach.Begun:
		a.note("the specrun of sweep %s on %s was killed: another one ends what it left", id, host)
		if err := d.again(ctx, detach.Job{EndOnly: true}); err != nil {
			return true, errors.Join(err, d.c.Close())
		}
	}
	return true, d.follower.follow(ctx, d.c)
}

// concludeEnded is conclude for a sweep that was ended on purpose.
func (a *app) concludeEnded(results *store.Store, s *experiments.Summary, err error, took time.Duration) error {
	a.printer.done()
	if s == nil {
		return err
	}
	for _, n := range s.Notes {
		a.note("%s", a.noteText("note: ", n))
	}
	a.note("%s", a.closing(s, err, took, results.Path(), ""))
	if err == nil && s.Missing > 0 {
		a.note("specrun resume %s measures what is missing", s.SweepID)
	}
	return err
}
