package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"specrun/experiments"
	"specrun/experiments/record"
	"specrun/experiments/report"
	"specrun/experiments/store"
	"specrun/experiments/trust"
)

func newListCommand(a *app) *cobra.Command {
	var filter store.RunFilter
	var runs bool
	c := &cobra.Command{
		Use:   "list [SWEEP]",
		Short: "List sweeps, or the runs of one",
		Long: `List the stored sweeps, newest first; with the id of a sweep, or --runs, list runs.
An id may be cut to any beginning that fits only one.` + exitStatus(exitOK, exitFailed, exitUsage),
		Example: `  specrun list
  specrun list --runs --label noisy`,
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
	s, err := a.readStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if len(args) == 1 {
		if filter.SweepID, err = s.SweepID(ctx, args[0]); err != nil {
			return err
		}
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
		return a.text(func(w io.Writer) error { return report.WriteSweeps(w, rows) })
	}
	rows, err := s.ListRuns(ctx, filter)
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

func newShowCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Show a sweep's table, or all that is stored of a run",
		Long: `Show a sweep as the table of its cells, a probe as what its patch costs, or a run
with its numbers, labels, checks and provenance. "last" is the sweep or run begun
last, among those with a result; a probe or an A/A sweep has its own id only.` +
			exitStatus(exitOK, exitFailed, exitUsage),
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
	s, err := a.readStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if id, err = untagged(ctx, s, id); err != nil {
		return err
	}
	sweep, err := a.sweepID(ctx, s, id)
	if err == nil {
		return a.showSweep(ctx, s, sweep)
	}
	if !errors.Is(err, store.ErrNotFound) || id == lastSweep {
		return err
	}
	run, err := s.Run(ctx, id)
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
	text, err := os.ReadFile(kept.Path)
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
			a.line("decision", summary.Decide())
		}
		return nil
	}
	return a.text(summary.WriteTable)
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
	return report.Options{All: a.flags.verbose, Normalise: a.normalise, Advice: trust.Advice, CellLabels: trust.AssessCell}
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

func newLogsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "logs RUN",
		Short:   "Print the server log kept with a run",
		Long:    "Print the server log kept with a run, whole; show has its end for a failed one." + exitStatus(exitOK, exitFailed, exitUsage),
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
	run, err := s.Run(ctx, id)
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
