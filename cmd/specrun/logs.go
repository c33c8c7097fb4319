package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"specrun/experiments"
	"specrun/experiments/record"
	"specrun/experiments/report"
	"specrun/experiments/store"
)

func newLogsCommand(a *app) *cobra.Command {
	var follow bool
	c := &cobra.Command{
		Use:   "logs ID",
		Short: "Print the server log of a run, kept or as it grows",
		Long: `Print the server log of a run, whole; show has its end for a failed one. It is
kept compressed beside the results, its secrets hidden, when the launch has ended;
before that it is read on the host, as the server writes it. Of a sweep, a cell or
"last" it is that of the launch in progress, else of the run begun last.

With --follow go on with what the server prints until it ends, or Ctrl-C.` + exitStatus(exitOK, exitFailed, exitUsage, exitUnreachable),
		Example: "  specrun logs k3v7\n  specrun logs m2x9 --follow",
		Args:    needs("a RUN", 1, 1, "specrun list --runs"),
		RunE:    func(c *cobra.Command, args []string) error { return a.runLogs(c.Context(), args[0], follow) },
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what the server prints")
	return c
}

func (a *app) runLogs(ctx context.Context, id string, follow bool) error {
	if a.flags.json && follow {
		return usagef("leave out one of the two", "--json tells where the log is, --follow prints it")
	}
	run, launch, err := a.logOf(ctx, id)
	if err != nil {
		return err
	}
	kept := artifact(run.Artifacts, "server.log")
	if kept == nil {
		return a.liveLog(ctx, launch, follow)
	}
	if a.flags.json {
		a.line("log", struct {
			Run    string `json:"run"`
			Path   string `json:"path"`   // compressed (gzip) when it ends in .gz
			SHA256 string `json:"sha256"` // of the log itself
			Bytes  int64  `json:"bytes"`
		}{run.Run.ID, kept.Path, kept.SHA256, kept.Bytes})
		return nil
	}
	f, err := store.Content(*kept)
	if err != nil {
		return err
	}
	_, err = io.Copy(a.stdout, f)
	return errors.Join(err, f.Close())
}

// logOf finds the launch that an id means, and a run of it when there is one.
func (a *app) logOf(ctx context.Context, id string) (record.RunView, record.Launch, error) {
	var run record.RunView
	s, err := a.readStore(ctx)
	if err != nil {
		return run, record.Launch{}, err
	}
	defer s.Close()
	side, err := a.stored(ctx, s, id)
	if err != nil {
		return run, record.Launch{}, err
	}
	if side.Run == "" {
		if n := len(side.View.Launches); n > 0 && inProgress(side.View.Launches[n-1]) {
			return run, side.View.Launches[n-1], nil
		}
		if side.Run, err = a.lastRun(ctx, s, id, side); err != nil {
			return run, record.Launch{}, err
		}
	}
	run, err = s.Run(ctx, side.Run)
	return run, run.Launch, err
}

func inProgress(l record.Launch) bool {
	return l.State == record.LaunchActive || l.State == record.LaunchPlanned
}

// lastRun is the run of a sweep or cell begun last.
func (a *app) lastRun(ctx context.Context, s *store.Store, id string, side report.Side) (string, error) {
	rows, err := runsOf(ctx, s, store.RunFilter{SweepID: side.View.Sweep.ID}, side)
	if err != nil {
		return "", err
	}
	if len(rows) == 0 {
		return "", &codedError{code: exitFailed, msg: id + " has no runs yet"}
	}
	last := slices.MaxFunc(rows, func(x, y record.RunRow) int { return cmp.Compare(x.Run.StartUs, y.Run.StartUs) })
	if len(rows) > 1 {
		a.note("run %s, the last of %d", last.Run.ID, len(rows))
	}
	return last.Run.ID, nil
}

// liveLog prints a log from where it is written.
func (a *app) liveLog(ctx context.Context, l record.Launch, follow bool) error {
	if !inProgress(l) {
		return &codedError{code: exitFailed, msg: "launch " + l.ID + " ended without its log", hint: "specrun show tells why"}
	}
	if a.flags.json {
		return &codedError{code: exitFailed, msg: "the log of launch " + l.ID + " is not kept yet: it is in progress", hint: "leave out --json to read it on its host"}
	}
	a.flags.hosts = []string{l.Host}
	return a.eachHost(ctx, func(ctx context.Context, c *connection) error {
		return experiments.CopyLog(ctx, c, c.entry.StateDir, l.ID, follow, clearing{a})
	})
}

func artifact(all []record.Artifact, name string) *record.Artifact {
	for _, art := range all {
		if art.Name == name {
			return &art
		}
	}
	return nil
}
