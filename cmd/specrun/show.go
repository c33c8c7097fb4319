package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"specrun/experiments"
	"specrun/experiments/record"
	"specrun/experiments/report"
	"specrun/experiments/store"
	"specrun/experiments/trust"
)

func newShowCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Show a sweep's table, a cell's row, or all that is stored of a run",
		Long: `Show a sweep as the table of its cells, a probe as what its patch costs, a cell
(k3v7/steps=2) as its row and runs, or a run with its numbers, labels, checks and
provenance. A tag stands for what it names. "last" is the sweep or run begun
last, among those with a result; a probe or an A/A sweep has its own id only.
--host fetches what sweeps that go on there by themselves have measured so far.` +
			exitStatus(exitOK, exitFailed, exitUsage, exitUnreachable),
		Example: `  specrun show last
  specrun show last --json`,
		Args: needs("an ID", 1, 1, "specrun show last"),
		RunE: func(c *cobra.Command, args []string) error { return a.runShow(c.Context(), args[0]) },
	}
	a.normaliseFlag(c)
	return c
}

// normaliseFlag is of the commands that print the table of a sweep.
func (a *app) normaliseFlag(c *cobra.Command) {
	c.Flags().BoolVar(&a.normalise, "normalise", false, "show beside raw numbers what they were if the baseline had stood still")
}

func (a *app) runShow(ctx context.Context, id string) error {
	if err := a.refresh(ctx); err != nil {
		return err
	}
	s, err := a.readStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	side, err := a.stored(ctx, s, id)
	switch {
	case err != nil:
		return err
	case side.Kind == report.SideSweep:
		return a.showView(ctx, s, side.View)
	case side.Kind == report.SideCell:
		return a.showCell(ctx, s, side)
	}
	run, err := s.Run(ctx, side.Run)
	if err != nil {
		return err
	}
	o, failed := a.known(ctx, s, record.SweepView{Sweep: run.Sweep})
	if run.Run.State == record.RunFailed {
		if o.LogTail, err = logTail(run.Artifacts); err != nil {
			return err
		}
	}
	if a.flags.json {
		a.line("run", report.Detail(run, o))
		return failed()
	}
	return errors.Join(a.text(func(w io.Writer) error { return report.WriteRun(w, run, o) }), failed())
}

// What show prints of a failed run's log; logs prints all of it.
const (
	tailLines   = 20
	tailColumns = 300
)

// logTail reads the last lines of the server's log kept with a failed run; nil
// when none was kept.
func logTail(artifacts []record.Artifact) ([]string, error) {
	kept := artifact(artifacts, "server-tail.log")
	if kept == nil {
		return nil, nil
	}
	f, err := store.Content(*kept)
	if err != nil {
		return nil, fmt.Errorf("end of the server's log: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("end of the server's log: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	lines = lines[max(0, len(lines)-tailLines):]
	for i, l := range lines {
		if len(l) > tailColumns {
			lines[i] = strings.ToValidUTF8(l[:tailColumns], "") + "..."
		}
	}
	return lines, nil
}

// lastSweep stands for the id of the sweep begun last, see lastID.
const lastSweep = "last"

func (a *app) sweepID(ctx context.Context, s *store.Store, id string) (string, error) {
	if id == lastSweep {
		return lastID(ctx, s)
	}
	return s.SweepID(ctx, id)
}

// measuring are the kinds of sweeps that "last" means: those that measured cells
// of an experiment. A probe or an A/A sweep is about the measuring itself, and
// has its own id.
var measuring = []string{experiments.KindSweep, experiments.KindRun}

// lastID gives the sweep that "last" means: the one begun last that has a result,
// since one that was refused has none, else the one begun last; an import only
// when there is nothing else.
func lastID(ctx context.Context, s *store.Store) (string, error) {
	const looked = 50
	rows, err := s.ListSweeps(ctx, store.SweepFilter{Kinds: measuring, Limit: looked})
	if err != nil {
		return "", err
	}
	for _, r := range rows {
		if r.Done+r.Failed > 0 {
			return r.Sweep.ID, nil
		}
	}
	if len(rows) > 0 {
		return rows[0].Sweep.ID, nil
	}
	return s.LatestSweep(ctx)
}

// showSweep prints what a sweep has found as it is now: the table of its cells,
// and what its kind makes of it.
func (a *app) showSweep(ctx context.Context, s *store.Store, id string) error {
	view, err := s.View(ctx, id)
	if err != nil {
		return err
	}
	return a.showView(ctx, s, view)
}

func (a *app) showView(ctx context.Context, s *store.Store, view record.SweepView) error {
	o, failed := a.known(ctx, s, view)
	if view.Sweep.Kind == experiments.KindProbe {
		return errors.Join(a.showProbe(view, o), failed())
	}
	summary := report.Summarize(view, o)
	if err := failed(); err != nil {
		return err
	}
	if a.flags.json {
		for _, cell := range summary.Cells {
			a.line("cell", cell)
		}
		if view.Sweep.Kind == experiments.KindAA {
			a.line("aa", summary.AA())
		} else {
			for _, d := range summary.Decide() {
				a.line("decision", d)
			}
		}
		return nil
	}
	if err := a.sweepHead(ctx, s, view); err != nil {
		return err
	}
	return a.text(summary.WriteTable)
}

// sweepHead says in one line which sweep a table is of.
func (a *app) sweepHead(ctx context.Context, s *store.Store, view record.SweepView) error {
	tags, err := s.Tags(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, t := range tags {
		if t.SweepID == view.Sweep.ID {
			names = append(names, t.Name)
		}
	}
	a.printf("%s\n", report.Head(view, names))
	return nil
}

// showCell prints the row that a cell has in the table of its sweep, and its runs.
func (a *app) showCell(ctx context.Context, s *store.Store, side report.Side) error {
	rows, err := runsOf(ctx, s, store.RunFilter{SweepID: side.View.Sweep.ID}, side)
	if err != nil {
		return err
	}
	o, failed := a.known(ctx, s, side.View)
	summary := report.Summarize(side.View, o)
	if err := failed(); err != nil {
		return err
	}
	row := summary.Cell(side.Cells[0])
	if a.flags.json {
		a.line("cell", row)
		for _, l := range report.RunLines(rows) {
			a.line("run", l)
		}
		return nil
	}
	if err := a.sweepHead(ctx, s, side.View); err != nil {
		return err
	}
	return a.text(func(w io.Writer) error { return summary.WriteCell(w, row, rows) })
}

func (a *app) showProbe(view record.SweepView, o report.Options) error {
	line, err := report.Probe(view, nil)
	if err == nil && o.Noise != nil {
		line, err = report.Probe(view, o.Noise(line.Host, "tpot"))
	}
	if err != nil {
		return err
	}
	if a.flags.json {
		a.line("probe", line)
		return nil
	}
	return a.text(line.Write)
}

func (a *app) reportOptions() report.Options {
	o := report.Options{All: a.flags.verbose, Normalise: a.normalise, Advice: trust.Advice, CellLabels: trust.AssessCell}
	if a.stdoutTTY {
		o.Width = a.env.columns()
	}
	return o
}

// text writes a rendering of results in one piece.
func (a *app) text(write func(io.Writer) error) error {
	var b strings.Builder
	if err := write(&b); err != nil {
		return err
	}
	a.raw(b.String())
	return nil
}
