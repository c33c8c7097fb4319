package main

import (
	"context"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"specrun/experiments/record"
	"specrun/experiments/report"
	"specrun/experiments/store"
	"specrun/experiments/trust"
)

func newListCommand(a *app) *cobra.Command {
	var filter store.RunFilter
	var runs bool
	c := &cobra.Command{
		Use:   "list [ID]",
		Short: "List sweeps, or the runs of one",
		Long: `List the stored sweeps, newest first; with --runs, or the ID of a sweep, a cell
(k3v7/steps=2), a tag or "last", list runs. An id may be cut to any beginning that
fits only one.

With --host the results of sweeps that go on there by themselves (--detach) are
fetched first; without it they are as of the last fetch.` + exitStatus(exitOK, exitFailed, exitUsage, exitUnreachable),
		Example: `  specrun list
  specrun list --runs --label noisy
  specrun list --host kimi-8gpu`,
		Args: atMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.runList(c.Context(), args, filter, runs || filter.Label != "")
		},
	}
	c.Flags().BoolVar(&runs, "runs", false, "list runs rather than sweeps")
	c.Flags().StringVar(&filter.Label, "label", "", "only runs that carry this `LABEL`")
	c.Flags().StringVar(&filter.Name, "name", "", "only of experiments with this `NAME`")
	c.Flags().IntVarP(&filter.Limit, "limit", "n", 0, "at most `N`, 0 = all")
	return c
}

func (a *app) runList(ctx context.Context, args []string, filter store.RunFilter, runs bool) error {
	if err := a.refresh(ctx); err != nil {
		return err
	}
	s, err := a.readStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	var side report.Side
	if len(args) == 1 {
		if side, err = a.stored(ctx, s, args[0]); err != nil {
			return err
		}
		filter.SweepID = side.View.Sweep.ID
	}
	if !runs && filter.SweepID == "" {
		rows, err := s.ListSweeps(ctx, store.SweepFilter{Name: filter.Name, Limit: filter.Limit})
		if err != nil {
			return err
		}
		if a.flags.json {
			for _, l := range report.SweepLines(rows) {
				a.line("sweep", l)
			}
			return nil
		}
		if err := a.text(func(w io.Writer) error { return report.WriteSweeps(w, rows) }); err != nil {
			return err
		}
		return a.noteDetached(ctx, s)
	}
	rows, err := runsOf(ctx, s, filter, side)
	if err != nil {
		return err
	}
	if len(rows) == 0 && filter.Label != "" {
		if err := knownLabel(filter.Label); err != nil {
			return err
		}
	}
	if a.flags.json {
		for _, l := range report.RunLines(rows) {
			a.line("run", l)
		}
		return nil
	}
	return a.text(func(w io.Writer) error { return report.WriteRuns(w, rows) })
}

// runsOf lists the runs that a side means, of a sweep all.
func runsOf(ctx context.Context, s *store.Store, filter store.RunFilter, side report.Side) ([]record.RunRow, error) {
	limit := filter.Limit
	if side.Cells != nil {
		filter.Limit = 0 // of those that are meant
	}
	rows, err := s.ListRuns(ctx, filter)
	if err != nil || side.Cells == nil {
		return rows, err
	}
	rows = slices.DeleteFunc(rows, func(r record.RunRow) bool {
		return !slices.Contains(side.Cells, r.Cell.ID) || side.Run != "" && r.Run.ID != side.Run
	})
	if limit > 0 {
		rows = rows[:min(limit, len(rows))]
	}
	return rows, nil
}

// knownLabel refuses a label that is not in the table.
func knownLabel(name string) error {
	var names []string
	for _, l := range trust.Labels() {
		if l.Name == name {
			return nil
		}
		names = append(names, l.Name)
	}
	return usagef(didYouMean(name, names, "specrun schema labels lists them"), "unknown label %q", name)
}
