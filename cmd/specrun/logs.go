package main

import (
	"cmp"
	"context"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"specrun/experiments/record"
	"specrun/experiments/store"
)

func newLogsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "logs RUN",
		Short: "Print the server log kept with a run",
		Long: `Print the server log kept with a run, whole; show has its end for a failed one.
Of a sweep, a cell or "last" it is that of the run begun last.` + exitStatus(exitOK, exitFailed, exitUsage),
		Example: "  specrun logs k3v7",
		Args:    needs("a RUN", 1, 1, "specrun list --runs"),
		RunE:    func(c *cobra.Command, args []string) error { return a.runLogs(c.Context(), args[0]) },
	}
}

func (a *app) runLogs(ctx context.Context, id string) error {
	s, err := a.readStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	side, err := a.stored(ctx, s, id)
	if err != nil {
		return err
	}
	if side.Run == "" {
		rows, err := runsOf(ctx, s, store.RunFilter{SweepID: side.View.Sweep.ID}, side)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return &codedError{code: exitFailed, msg: id + " has no runs yet"}
		}
		last := slices.MaxFunc(rows, func(x, y record.RunRow) int { return cmp.Compare(x.Run.StartUs, y.Run.StartUs) })
		side.Run = last.Run.ID
		if len(rows) > 1 {
			a.note("run %s, the last of %d", side.Run, len(rows))
		}
	}
	run, err := s.Run(ctx, side.Run)
	if err != nil {
		return err
	}
	kept := artifact(run.Artifacts, "server.log")
	if kept == nil {
		return &codedError{code: exitFailed, msg: "run " + run.Run.ID + " has no server log kept", hint: "a run that is still going on has its log on the host: see runs/ in the state folder there"}
	}
	if a.flags.json {
		a.line("log", struct {
			Run    string `json:"run"`
			Path   string `json:"path"`
			SHA256 string `json:"sha256"`
			Bytes  int64  `json:"bytes"`
		}{run.Run.ID, kept.Path, kept.SHA256, kept.Bytes})
		return nil
	}
	f, err := os.Open(kept.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(a.stdout, f)
	return err
}

func artifact(all []record.Artifact, name string) *record.Artifact {
	for _, art := range all {
		if art.Name == name {
			return &art
		}
	}
	return nil
}
