package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"specrun/experiments/record"
	"specrun/experiments/report"
	"specrun/experiments/stats"
	"specrun/experiments/trust"
)

// compareOptions are the flags of compare.
type compareOptions struct {
	metrics   []string
	force     bool
	normalise bool
	limit     string
	limited   bool // a limit was given, be it an empty one
}

func newCompareCommand(a *app) *cobra.Command {
	var o compareOptions
	c := &cobra.Command{
		Use:   "compare A B",
		Short: "Say whether B differs from A, by how much, and why",
		Long: `Compare two runs, cells, sweeps or files; A is the reference, and ratios are B
over A. Cells of two sweeps are matched by their parameters, the baseline with
the baseline. Each number comes with its interval over launches, with the p-value,
adjusted for the number of cells, and with the smallest effect that could have
been found. Outputs of unequal length are compared over the positions that both
have. Below stand the differences in provenance, likely causes first.

Sides with another model, other work or other GPUs are refused without --force.
Other profilers, another host, or an old log whose TOTAL may mean something else
are said aloud and compared all the same. With one launch a side nothing is called
different, and nothing fails --fail-on-regression. Only a rate or a time makes b
faster or slower; other numbers merely differ.

"Slower by" is how much more time b takes: a rate that is 7 % lower is 7.5 % slower.
--fail-on-regression looks at TOTAL, time per token and rates, at the worst of those
that are separable. A cell that b should have and has no result of, since its runs
failed, fails it too, with exit status 1.

` + refHelp + exitStatus(exitOK, exitFailed, exitUsage, exitRegression),
		Example: `  specrun compare k3v7 q2m9
  specrun compare k3v7/baseline k3v7/steps=2
  specrun compare before-upgrade last --fail-on-regression 3%`,
		Args: needs("A and B", 2, 2, "specrun list"),
		RunE: func(c *cobra.Command, args []string) error {
			o.limited = c.Flags().Changed("fail-on-regression")
			return a.runCompare(c.Context(), args[0], args[1], o)
		},
	}
	f := c.Flags()
	f.StringSliceVar(&o.metrics, "metric", nil, "compare this `METRIC` only; repeatable")
	f.BoolVar(&o.force, "force", false, "compare also what did other work or ran on other hardware")
	f.BoolVar(&o.normalise, "normalise", false, "show also the values divided by the baseline of their round")
	f.StringVar(&o.limit, "fail-on-regression", "", "exit 9 when a cell is slower by more than `PERCENT`, and not by noise")
	return c
}

func (a *app) runCompare(ctx context.Context, left, right string, o compareOptions) error {
	options := report.CompareOptions{Metrics: o.metrics, Force: o.force, Normalise: o.normalise, Gap: splitGap}
	if o.limited {
		var err error
		if options.Limit, err = parseLimit(o.limit); err != nil {
			return err
		}
		if len(o.metrics) > 0 && !slices.ContainsFunc(o.metrics, stats.IsSpeed) {
			return usagef("name a rate or a time: --metric output_throughput, tpot, cycle_total", "--fail-on-regression: %s is no speed, and neither better nor worse", strings.Join(o.metrics, ", "))
		}
	}
	sides, err := a.sides(ctx, left, right)
	if err != nil {
		return err
	}
	failed := func() error { return nil }
	if slices.ContainsFunc(sides, func(s report.Side) bool { return s.Kind != report.SideFile }) {
		s, err := a.readStore(ctx)
		if err != nil {
			return err
		}
		defer s.Close()
		options.Noise, failed = knownOfBoth(ctx, s, sides)
	}
	c, err := report.Compare(sides[0], sides[1], options)
	if err == nil {
		err = failed()
	}
	if err != nil {
		return err
	}
	if a.flags.json {
		a.compareLines(c)
	} else if err := a.text(func(w io.Writer) error { return c.WriteText(w, a.reportOptions()) }); err != nil {
		return err
	}
	return c.Regression()
}

func (a *app) compareLines(c *report.Comparison) {
	for _, l := range c.Lines {
		a.line("comparison", l)
	}
	for _, l := range c.Unmatched() {
		a.line("unmatched", l)
	}
	if c.Gap != nil {
		a.line("gap", c.Gap)
	}
	for _, l := range c.Diff.Lines {
		a.line("difference", l)
	}
	a.line("decision", c.DecisionLine())
}

// splitGap lets package trust split the gap between what the profiler of a run
// claims and what a run without it measured.
func splitGap(with, without []record.Metric) *report.GapFactor {
	claim, ok := trust.ClaimOf(with)
	if !ok {
		return nil
	}
	measured, ok := trust.TruthOf(with)
	if !ok {
		return nil
	}
	truth, ok := trust.TruthOf(without)
	if !ok {
		return nil
	}
	g, ok := trust.SplitGapAcross(claim, measured, truth)
	if !ok {
		return nil
	}
	return &report.GapFactor{Ratio: g.Ratio, Acceptance: g.Acceptance, Cycle: g.Cycle, Probe: g.Probe, Rest: g.Rest, Explanation: g.Explanation}
}

// parseLimit reads a limit in percent as a fraction: "3%", "3 %" and "3" are 0.03.
// An empty one, such as an unset variable, would let everything pass; 0.03 without
// a sign may be meant as either.
func parseLimit(text string) (float64, error) {
	number := strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "%"))
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !(v > 0) || v >= 100 {
		return 0, usagef("for example --fail-on-regression 3%", "--fail-on-regression %s: not a percentage between 0 and 100", fmt.Sprintf("%q", text))
	}
	if v < 1 && !strings.HasSuffix(strings.TrimSpace(text), "%") {
		return 0, usagef(fmt.Sprintf("--fail-on-regression %g%% or %g%%", v, 100*v), "--fail-on-regression %s: a percentage or a fraction? write it with %%", text)
	}
	return v / 100, nil
}
