package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"specrun/experiments/report"
)

func newDiffCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "diff A B",
		Short: "Show what differs in the provenance of two runs, cells or sweeps",
		Long: `Show what differs in the provenance of two runs, cells, sweeps or files: the
likely causes of another number first, ranked by what is known to matter and by
magnitude, the rest by group. A difference that merely follows from another one
is told with it. Without -v what differs between any two launches, such as the
port, is counted only.

` + refHelp + exitStatus(exitOK, exitFailed, exitUsage),
		Example: `  specrun diff k3v7 q2m9
  specrun diff k3v7/steps=2 q2m9/steps=2`,
		Args: needs("A and B", 2, 2, "specrun list"),
		RunE: func(c *cobra.Command, args []string) error { return a.runDiff(c.Context(), args[0], args[1]) },
	}
}

func (a *app) runDiff(ctx context.Context, left, right string) error {
	sides, err := a.sides(ctx, left, right)
	if err != nil {
		return err
	}
	d := report.DiffSides(sides[0], sides[1])
	if a.flags.json {
		for _, l := range d.Lines {
			a.line("difference", l)
		}
		return nil
	}
	return a.text(func(w io.Writer) error {
		return report.WriteDiff(w, sides[0], sides[1], d, a.reportOptions())
	})
}
