package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"specrun/experiments/metrics"
)

func newParseCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "parse FILE...",
		Short: "Show what specrun reads out of a log or benchmark output",
		Long: `Show what specrun reads out of server logs, profiler output and benchmark output,
without storing it. "-" is standard input.` + exitStatus(exitOK, exitFailed, exitUsage),
		Example: `  specrun parse server.log
  specrun parse server.log --json`,
		Args: needs("a FILE", 1, 0, "specrun parse server.log"),
		RunE: func(_ *cobra.Command, args []string) error { return a.runParse(args) },
	}
}

func (a *app) runParse(files []string) error {
	var failed []error
	for _, name := range files {
		r, err := a.parseFile(name)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		if a.flags.json {
			a.object(r)
			continue
		}
		a.printParsed(r)
	}
	return errors.Join(failed...)
}

func (a *app) parseFile(name string) (*metrics.Report, error) {
	if name == "-" {
		return metrics.Parse(a.stdin, name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, usagef("", "%s", err)
	}
	defer f.Close()
	return metrics.Parse(f, name)
}

func (a *app) printParsed(r *metrics.Report) {
	if len(r.Extract) == 0 && r.Crash == nil {
		a.printf("%s: nothing recognised in %s\n", r.File, counted(r.Lines, "line"))
		a.printWarnings(r)
		return
	}
	a.printf("%s: %s %s, %s\n", r.File, r.Engine, r.Kind, counted(r.Lines, "line"))
	var rows [][]string
	for _, s := range r.Extract {
		rows = append(rows, []string{"  " + s.Metric, s.Unit, labelText(s.Labels), fmt.Sprint(len(s.Values)), valuesText(s.Values)})
	}
	a.table([]string{"  METRIC", "UNIT", "OF", "N", "VALUES"}, rows)
	if r.Crash != nil {
		a.printf("  crash: %s at line %d: %s\n", r.Crash.Kind, r.Crash.FirstLine, r.Crash.Evidence)
	}
	a.printWarnings(r)
}

func (a *app) printWarnings(r *metrics.Report) {
	for _, w := range r.Warnings {
		a.printf("  warning: %s\n", w)
	}
}

func labelText(labels map[string]string) string {
	var parts []string
	for _, k := range sortedKeys(labels) {
		parts = append(parts, k+"="+labels[k])
	}
	return strings.Join(parts, " ")
}

// valuesText shows the first and last values of a series; --json has all.
func valuesText(values []metrics.Value) string {
	const most = 8
	var parts []string
	for i, v := range values {
		if len(values) > most && i == most-1 {
			parts = append(parts, "...", valueText(values[len(values)-1]))
			break
		}
		parts = append(parts, valueText(v))
	}
	return strings.Join(parts, " ")
}

// valueText is a value with the digits that are worth reading; what a log
// printed has no more than that anyway.
func valueText(v metrics.Value) string {
	f, ok := v.Float()
	const exact = 1e15 // beyond it a number has no decimals
	if !ok || f == 0 || math.IsNaN(f) || math.Abs(f) >= exact {
		return v.String()
	}
	decimals := 6 - 1 - int(math.Floor(math.Log10(math.Abs(f)))) // six significant digits
	scale := math.Pow(10, float64(min(max(decimals, 1), 12)))
	return strconv.FormatFloat(math.Round(f*scale)/scale, 'f', -1, 64)
}
