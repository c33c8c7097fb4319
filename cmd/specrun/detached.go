package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"specrun/experiments"
	"specrun/experiments/bench"
	"specrun/experiments/detach"
	"specrun/experiments/store"
	"specrun/patches"
	"specrun/remote"
)

// newDetachedCommand is what specrun starts on a host for a sweep that goes on
// there by itself.
func newDetachedCommand(a *app) *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:    "detached",
		Short:  "The part on the host of sweeps that go on by themselves (started by specrun)",
		Args:   noArgs,
		Hidden: true,
		RunE:   func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.PersistentFlags().StringVar(&dir, "dir", "", "`FOLDER` of the sweep")
	c.AddCommand(&cobra.Command{
		Use: "serve --dir DIR", Short: "Go on with the sweep of a folder", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.runDetachedServe(c.Context(), dir) },
	}, &cobra.Command{
		Use: "pack --dir DIR", Short: "Pack the results of a folder for a transfer", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.runDetachedPack(c.Context(), dir) },
	})
	return c
}

// runDetachedServe goes on with a sweep as resume does, with this machine as its
// host. How it ended is left in the folder.
func (a *app) runDetachedServe(ctx context.Context, dir string) error {
	// It is asked to end by scripts, which may be cut off and then ask again: that must
	// not cut off its undoing. Who wants that has SIGKILL.
	a.patient.Store(true)
	ending := "stopping: undoing what is in progress"
	a.stopping.Store(&ending)
	secrets, err := detach.Secrets(a.stdin)
	if err != nil {
		return err
	}
	job, lookup, err := detach.ReadJob(dir, version)
	if err != nil {
		return err
	}
	server, err := detach.Serve(dir, experiments.Controller(), a.now)
	if err != nil {
		return err
	}
	summary, err := a.serveJob(ctx, dir, job, lookup, secrets, server.Tell)
	end := detach.End{Summary: summary}
	if err != nil {
		end.Exit = exitCode(err, true)
		if ctx.Err() != nil && interrupted(err, end.Exit) {
			end.Exit = exitInterrupted
		}
		end.Error, end.Hint = said(err, secrets)
		err = &codedError{code: end.Exit, msg: end.Error, hint: end.Hint} // the log is a file, too
	}
	return errors.Join(err, server.End(end))
}

func (a *app) serveJob(ctx context.Context, dir string, job detach.Job, lookup func(string) (*patches.Patch, error), secrets map[string]string, tell func(experiments.Progress)) (s *experiments.Summary, err error) {
	results, err := store.Open(ctx, filepath.Join(dir, detach.ResultsFile), store.WithClock(a.now), store.MustExist())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, results.Close()) }()
	plan, err := planOf(ctx, results, job.SweepID)
	if err != nil {
		return nil, err
	}
	self, err := a.executable()
	if err != nil {
		return nil, err
	}
	// The name stays the one that the host has elsewhere.
	hosts := func(_ context.Context, name string) (*experiments.Host, error) {
		return experiments.Connect(remote.Local(remote.LocalConfig{Name: name}), experiments.ConnectOptions{
			StateDir: plan.Host.StateDir, Worker: bench.FindWorker(self, ""), Patches: lookup, Library: patches.Library}), nil
	}
	deps := a.deps(results, hosts, a.newWatch(plan, false))
	deps.OnEvent, deps.Detached = tell, true
	deps.Getenv = func(name string) (string, bool) {
		v, ok := secrets[name]
		return v, ok
	}
	return experiments.Resume(ctx, deps, job.SweepID, experiments.ResumeOptions{RetryFailed: job.RetryFailed, EndOnly: job.EndOnly, Wait: job.Wait})
}

// said is what report would say of an error, without the values of secrets.
func said(err error, secrets map[string]string) (text, hint string) {
	var texts []string
	for _, e := range flatten(err) {
		texts = append(texts, experiments.ShownTextOf(e.Error(), secrets))
		var h hinter
		if hint == "" && errors.As(e, &h) {
			hint = experiments.ShownTextOf(h.Hint(), secrets)
		}
	}
	return strings.Join(texts, "\n"), hint
}

// runDetachedPack prints what a fetch asked for, packed. It needs no room on the
// disk.
func (a *app) runDetachedPack(ctx context.Context, dir string) error {
	results, err := store.Open(ctx, filepath.Join(dir, detach.ResultsFile), store.WithClock(a.now), store.MustExist())
	if err != nil {
		return err
	}
	return errors.Join(detach.Pack(ctx, a.out, results, a.stdin), results.Close())
}
