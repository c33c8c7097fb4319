package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"specrun/experiments"
	"specrun/experiments/metrics"
	"specrun/experiments/store"
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

func newImportCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "import FILE...",
		Short: "Store old logs and benchmark outputs as runs labelled imported",
		Long: `Store what specrun reads out of old server logs and benchmark outputs as runs
labelled imported. The content's hash decides whether a file is known: importing
it again, under any name, changes nothing.` + exitStatus(exitOK, exitFailed, exitUsage),
		Example: "  specrun import server.log",
		Args:    needs("a FILE", 1, 0, "specrun import server.log"),
		RunE:    func(c *cobra.Command, args []string) error { return a.runImport(c.Context(), args) },
	}
}

func (a *app) runImport(ctx context.Context, files []string) error {
	if len(a.flags.hosts) > 0 {
		return usagef("copy the file here first", "import --host: this version imports local files only")
	}
	s, err := a.openStore(ctx, "")
	if err != nil {
		return err
	}
	defer s.Close()
	var failed []error
	for _, name := range files {
		if err := a.importFile(ctx, s, name); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

func (a *app) importFile(ctx context.Context, s *store.Store, name string) error {
	content, err := os.ReadFile(name)
	if err != nil {
		return usagef("", "%s", err)
	}
	runs, err := experiments.ReadLog(bytes.NewReader(content), name)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	ids, known, err := s.Import(ctx, store.File{Name: name, SHA256: hex.EncodeToString(sum[:]), Runs: runs}, io.Reader(bytes.NewReader(content)))
	if err != nil {
		return err
	}
	if a.flags.json {
		a.line("import", struct {
			File  string   `json:"file"`
			Runs  []string `json:"runs"`
			Known bool     `json:"known"`
		}{name, ids, known})
		return nil
	}
	state := "imported"
	if known {
		state = "already imported"
	}
	a.printf("%s: %s as %s\n", name, state, strings.Join(ids, " "))
	return nil
}
