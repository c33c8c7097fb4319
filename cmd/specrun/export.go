package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"specrun/experiments/report"
	"specrun/experiments/store"
)

// exportOptions are the flags of export.
type exportOptions struct {
	format string
	output string
	force  bool
	report report.ExportOptions
}

func newExportCommand(a *app) *cobra.Command {
	o := exportOptions{report: report.ExportOptions{Schema: schemaVersion}}
	c := &cobra.Command{
		Use:   "export [REF...]",
		Short: "Write stored runs as CSV, JSON lines or Go benchmark text",
		Long: `Write runs for other programs, all that are stored or those of the references,
each once. Labels and failed checks are in every format and cannot be left out.
Runs that are active, cut or superseded are left out without --all.

csv       One row a run: params as param.NAME, metrics as
          metric.NAME.SOURCE (UNIT), with --provenance facts as prov.GROUP.KEY.
          NaN is empty. labels are those of the run, cell_labels those that the
          table shows for its cell. A text that a spreadsheet would take for a
          formula (= + - @ first) has an apostrophe before it.
json      One line a run, as of "show RUN --json", and its cell_labels; the raw
          readings with --samples only.
benchfmt  One line a launch, the median of its runs, for benchstat: then n counts
          launches. The unit has metric and source (tpot.client-ms); sweep, host,
          model, patches, and the labels and failed checks of the cell are
          configuration, by which benchstat makes tables. Two sweeps in one file:
            benchstat -col sweep -ignore labels,failed-checks,pinned \
              -filter .unit:output_throughput.client-tok/s runs.txt

A file appears when it is whole; one that exists is kept without --force.

` + refHelp + exitStatus(exitOK, exitFailed, exitUsage),
		Example: `  specrun export -o runs.csv
  specrun export k3v7 q2m9 --format benchfmt -o runs.txt
  specrun export last --format json --samples`,
		RunE: func(c *cobra.Command, args []string) error { return a.runExport(c.Context(), args, o) },
	}
	f := c.Flags()
	f.StringVar(&o.format, "format", "", "write as `FORMAT`: csv, json or benchfmt (default by the file's ending, else csv)")
	f.StringVarP(&o.output, "output", "o", "-", "write to `FILE`, - is stdout")
	f.BoolVar(&o.force, "force", false, "overwrite the file")
	f.BoolVar(&o.report.Provenance, "provenance", false, "csv: also a column for each fact of provenance")
	f.BoolVar(&o.report.Samples, "samples", false, "json: also the raw readings")
	f.BoolVar(&o.report.All, "all", false, "also runs that are active, cut or superseded")
	return c
}

// exportLine is the JSON line of type export.
type exportLine struct {
	Path    string `json:"path"`
	Format  string `json:"format"`
	Runs    int    `json:"runs"`
	Failed  int    `json:"failed"`   // of the runs
	LeftOut int    `json:"left_out"` // neither done nor failed
}

func (a *app) runExport(ctx context.Context, refs []string, o exportOptions) error {
	o.format = a.exportFormat(o)
	if err := report.CheckFormat(o.format); err != nil {
		return err
	}
	toFile := o.output != "-"
	switch {
	case o.report.Provenance && o.format != report.FormatCSV:
		return usagef("json has the provenance always, benchfmt never", "--provenance is for --format csv, not for %s", o.format)
	case o.report.Samples && o.format != report.FormatJSON:
		return usagef("raw readings go with --format json", "--samples is for --format json, not for %s", o.format)
	case a.flags.json && !toFile && o.format != report.FormatJSON:
		return usagef("write to a file with -o, or use --format json", "--json and %s cannot both go to stdout", o.format)
	}
	var count report.Exported
	write := func(w io.Writer) (err error) {
		count, err = a.export(ctx, w, refs, o)
		return err
	}
	var err error
	if toFile {
		err = a.writeFile(o.output, o.force, write)
	} else {
		err = write(rawWriter{a.printer})
	}
	if err != nil {
		return err
	}
	if n := count.LeftOut; n > 0 {
		a.note("left out: %s neither done nor failed (--all)", counted(n, "run"))
	}
	switch {
	case count.Runs == 0:
		a.note("no runs to export")
	case count.Failed > 0:
		a.note("%d of the %s failed, and say so", count.Failed, counted(count.Runs, "run"))
	}
	if toFile && a.flags.json {
		a.line("export", exportLine{o.output, o.format, count.Runs, count.Failed, count.LeftOut})
	} else if toFile {
		a.printf("%s: %s, %s\n", o.output, counted(count.Runs, "run"), o.format)
	}
	return nil
}

// exportFormat is the format asked for, else the one that the file's ending says.
func (a *app) exportFormat(o exportOptions) string {
	switch ext := strings.ToLower(filepath.Ext(o.output)); {
	case o.format != "":
		return o.format
	case ext == ".json" || ext == ".jsonl" || ext == ".ndjson" || a.flags.json && o.output == "-":
		return report.FormatJSON
	case ext == ".parquet":
		return "parquet" // there is no such format, and the error says what to do
	}
	return report.FormatCSV
}

// export writes the runs that references mean, all that are stored when there are
// none. One sweep after the other is in memory.
func (a *app) export(ctx context.Context, w io.Writer, refs []string, o exportOptions) (report.Exported, error) {
	e, err := report.NewExport(w, o.format, o.report)
	if err != nil {
		return report.Exported{}, err
	}
	var s *store.Store
	defer func() {
		if s != nil {
			s.Close() // was read only
		}
	}()
	add := func(side report.Side) error {
		options, failed := a.reportOptions(), func() error { return nil }
		if side.Kind != report.SideFile {
			options, failed = a.known(ctx, s, side.View)
		}
		return errors.Join(e.Add(side, options), failed())
	}
	if len(refs) == 0 {
		if s, err = a.readStore(ctx); err != nil {
			return report.Exported{}, err
		}
		sweeps, err := s.ListSweeps(ctx, store.SweepFilter{})
		if err != nil {
			return report.Exported{}, err
		}
		for _, row := range slices.Backward(sweeps) { // the oldest first
			view, err := s.View(ctx, row.Sweep.ID)
			if err == nil {
				err = add(report.Side{Ref: row.Sweep.ID, Kind: report.SideSweep, View: view})
			}
			if err != nil {
				return report.Exported{}, err
			}
		}
	}
	for _, ref := range refs {
		sides, err := a.sides(ctx, ref)
		if err == nil && s == nil && sides[0].Kind != report.SideFile {
			s, err = a.readStore(ctx)
		}
		if err == nil {
			err = add(sides[0])
		}
		if err != nil {
			return report.Exported{}, err
		}
	}
	return e.Close()
}

// writeFile writes a file under another name and renames it when it is whole, so
// that a failure leaves nothing, or what was there. One that exists is kept
// without force; a symbolic link stays one.
func (a *app) writeFile(path string, force bool, write func(io.Writer) error) (err error) {
	target, err := replaceable(path, force)
	if err != nil {
		return err
	}
	tmp := filepath.Join(filepath.Dir(target), "."+filepath.Base(target)+"."+a.newID())
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666) // less the umask
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp))
		}
	}()
	b := bufio.NewWriter(f)
	err = write(b)
	if err == nil {
		err = b.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if _, err = replaceable(path, force); err != nil { // it may have come meanwhile
		return err
	}
	return os.Rename(tmp, target)
}

// replaceable gives the file that a path means, when it may be written.
func replaceable(path string, force bool) (string, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return path, nil
	case err != nil:
		return "", fmt.Errorf("write %s: %w", path, err)
	case !info.Mode().IsRegular():
		return "", usagef("name a file, or - for stdout", "-o %s: not a regular file", path)
	case !force:
		return "", usagef("--force overwrites it", "-o %s: the file exists", path)
	}
	return filepath.EvalSymlinks(path)
}

// rawWriter writes a result to stdout as it is made.
type rawWriter struct{ p *printer }

func (w rawWriter) Write(b []byte) (int, error) {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	w.p.clear()
	return w.p.out.Write(b)
}
