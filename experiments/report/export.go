package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"specrun/experiments/record"
)

// Formats of an export.
const (
	FormatCSV   = "csv"      // one row a run
	FormatJSON  = "json"     // JSON lines of type run, as show --json prints them
	FormatBench = "benchfmt" // Go benchmark text, one line a launch, for benchstat
)

// exportFormats are those that NewExport knows, in the order of help.
var exportFormats = [...]string{FormatCSV, FormatJSON, FormatBench}

// FormatError names a format that no export is written in.
type FormatError struct{ Format string }

func (e *FormatError) Error() string {
	if e.Format == "parquet" {
		return "export format parquet: not built into this version"
	}
	return fmt.Sprintf("export format %q: there is no such format", e.Format)
}

// Hint says what to use instead.
func (e *FormatError) Hint() string {
	if e.Format == "parquet" {
		return `--format csv loads into pandas, which writes parquet: pandas.read_csv("runs.csv").to_parquet("runs.parquet")`
	}
	return "formats: " + strings.Join(exportFormats[:], ", ")
}

// ExportOptions say how much of a run is written.
type ExportOptions struct {
	Schema     int  // number written with the rows, for readers to check
	Provenance bool // csv: a column for each fact; JSON has them always
	Samples    bool // json: the raw readings too
	All        bool // also runs that are active, cut or superseded
}

// Exported counts what an export has taken.
type Exported struct {
	Runs    int // written
	Failed  int // of these
	LeftOut int // neither done nor failed, see ExportOptions.All
}

// Export writes runs for other programs, each with what limits the trust in its
// numbers: no option leaves labels or failed checks out. It is not safe for
// concurrent use.
type Export struct {
	to      encoder
	options ExportOptions
	seen    map[[2]string]bool // sweep and run
	count   Exported
}

// encoder writes runs in one format. What depends on all of them, such as the
// columns of a CSV, is written by close.
type encoder interface {
	add(exportRun) error
	close() error
}

// exportRun is a run with what is known of its cell only.
type exportRun struct {
	record.RunView
	options     Options
	cellLabels  []string // of the table: those of all runs of the cell, and those that rest on all of them
	cellFailed  []string // checks that failed in a run of the cell, sorted
	cellChecked bool     // some check passed or failed
	quotable    bool
	pinned      record.Params // what all cells of the sweep but its baseline have alike
}

// CheckFormat fails with *FormatError when no export is written in a format.
func CheckFormat(format string) error {
	if !slices.Contains(exportFormats[:], format) {
		return &FormatError{format}
	}
	return nil
}

// NewExport begins an export in a format. It fails with *FormatError.
func NewExport(w io.Writer, format string, o ExportOptions) (*Export, error) {
	if err := CheckFormat(format); err != nil {
		return nil, err
	}
	e := &Export{options: o, seen: map[[2]string]bool{}}
	switch format {
	case FormatCSV:
		e.to = newCSVEncoder(w, o)
	case FormatJSON:
		e.to = &jsonEncoder{w: w, options: o}
	case FormatBench:
		e.to = newBenchEncoder(w, o)
	}
	return e, nil
}

// Add writes the runs that a side means, in the order of their cells and, within
// a cell, of time. A run that was added before is not added again. Runs that are
// neither done nor failed are left out, since a superseded one was measured again
// and would count twice, unless the side is that run. Of the options CellLabels,
// Noise and Probe count, as for the table.
func (e *Export) Add(s Side, o Options) error {
	rows := map[string]*CellRow{}
	summary := Summarize(s.View, o)
	for i := range summary.Cells {
		rows[summary.Cells[i].cell.ID] = &summary.Cells[i]
	}
	launches := map[string]record.Launch{}
	for _, l := range s.View.Launches {
		launches[l.ID] = l
	}
	pinned := pinnedParams(s.View.Cells)
	for _, cell := range s.cells() {
		of := exportRun{options: o, cellLabels: rows[cell.ID].Labels, quotable: rows[cell.ID].Quotable, pinned: pinned}
		of.cellFailed, of.cellChecked = cellChecks(summary.runs[cell.ID], s.View.Data)
		for _, r := range s.runsOf(cell) {
			key := [2]string{s.View.Sweep.ID, r.ID}
			if e.seen[key] {
				continue
			}
			e.seen[key] = true
			if r.State != record.RunDone && r.State != record.RunFailed && !e.options.All && s.Run == "" {
				e.count.LeftOut++
				continue
			}
			of.RunView = record.RunView{Sweep: s.View.Sweep, Cell: cell, Slot: summary.slotOf[r.SlotID], Launch: launches[r.LaunchID],
				Run: r, Data: s.View.Data[r.ID], Events: eventsOf(s.View, r), Artifacts: artifactsOf(s.View, r)}
			if cell.Baseline {
				of.Cell.Params = baselineParams(cell.Params, pinned, of.Data)
			}
			if err := e.to.add(of); err != nil {
				return err
			}
			e.count.Runs++
			if r.State == record.RunFailed {
				e.count.Failed++
			}
		}
	}
	return nil
}

// Close writes what could not be written before all runs were known. It does not
// close the writer.
func (e *Export) Close() (Exported, error) { return e.count, e.to.close() }

// baselineParams adds to the parameters of a baseline the pinned variables of the
// environment that it was started with, too: a parameter that speculation has no
// part in is one of the whole sweep. What it had is in its provenance.
func baselineParams(own, pinned record.Params, d record.RunData) record.Params {
	all := maps.Clone(own)
	if all == nil {
		all = record.Params{}
	}
	for name, v := range pinned {
		variable, ok := strings.CutPrefix(name, "env.")
		if _, has := own[name]; ok && !has && factOf(d, "env", variable) == fmt.Sprint(v) {
			all[name] = v
		}
	}
	return all
}

// cellChecks are the checks that failed in runs of a cell that are done; checked
// says that at least one could be made.
func cellChecks(runs []record.Run, data map[string]record.RunData) (failed []string, checked bool) {
	for _, r := range runs {
		if r.State != record.RunDone {
			continue
		}
		names := checksOf(data[r.ID].Checks, record.Fail)
		failed = append(failed, names...)
		checked = checked || len(names) > 0 || len(checksOf(data[r.ID].Checks, record.Pass)) > 0
	}
	slices.Sort(failed)
	return slices.Compact(failed), checked
}

// checksOf names the checks with an outcome, in the order of the run.
func checksOf(checks []record.TrustCheck, outcome record.Outcome) []string {
	var out []string
	for _, c := range checks {
		if c.Outcome == outcome {
			out = append(out, c.Name)
		}
	}
	return out
}

func eventsOf(v record.SweepView, r record.Run) []record.Event {
	var out []record.Event
	for _, e := range v.Events {
		if e.LaunchID == r.LaunchID {
			out = append(out, e)
		}
	}
	return out
}

// artifactsOf are the files of a run and of its launch.
func artifactsOf(v record.SweepView, r record.Run) []record.Artifact {
	var out []record.Artifact
	for _, a := range v.Artifact {
		if a.LaunchID == r.LaunchID && (a.RunID == "" || a.RunID == r.ID) {
			out = append(out, a)
		}
	}
	return out
}

// patchesOf names the patches of a run with the beginning of the content's hash,
// blank-separated: "none" when it had none, "" when that is not known.
func patchesOf(d record.RunData) string {
	var out []string
	for _, f := range d.Provenance {
		if f.Group != "patches" {
			continue
		}
		name, value := patchFact(f.Key, f.Value)
		if name == "profiler" { // of a log that does not say which
			name = "unknown-profiler"
		}
		for _, word := range strings.Fields(value) {
			if patchHash.MatchString(word) {
				name += "@" + word[:shownHash]
				break
			}
		}
		out = append(out, strings.Join(strings.Fields(name), "_"))
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), " ")
}

// factOf is a fact of a run, several values joined, "" when it is not known.
func factOf(d record.RunData, group, key string) string {
	return strings.Join(factValues([]record.RunData{d}, group, key), " or ")
}

// series is what makes numbers comparable: the same metric from the same source
// in the same unit.
type series struct{ name, source, unit string }

// compareSeries puts the primary metrics first.
func compareSeries(a, b series) int {
	if c := primaryRank(a.name) - primaryRank(b.name); c != 0 {
		return c
	}
	for _, pair := range [][2]string{{a.name, b.name}, {a.source, b.source}, {a.unit, b.unit}} {
		if c := strings.Compare(pair[0], pair[1]); c != 0 {
			return c
		}
	}
	return 0
}

var primary = [...]string{"cycle_total", "accept_len", "output_throughput", "tpot"}

func primaryRank(name string) int {
	if i := slices.Index(primary[:], name); i >= 0 {
		return i
	}
	return len(primary)
}
