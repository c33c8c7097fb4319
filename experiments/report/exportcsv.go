package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"specrun/experiments/record"
)

// csvColumns begin every row; after them come those of parameters, metrics and
// provenance, whose names begin with param., metric. and prov. and so never meet.
var csvColumns = [...]string{"schema", "run", "sweep", "experiment", "kind", "host", "cell", "baseline", "quotable", "round", "repeat", "attempt", "launch",
	"state", "class", "reason", "start", "end", "patches", "labels", "cell_labels", "failed_checks", "unchecked", "checks_passed"}

// csvEncoder writes one row for each run, RFC 4180 quoted, lines ending with LF.
// A number is written with all its digits; NaN and what a run does not have are
// empty. A unit is part of the column's name, so that numbers in two units are
// never in one column.
type csvEncoder struct {
	w       io.Writer
	options ExportOptions
	rows    []csvRow
	params  map[string]bool
	metrics map[csvMetric]bool
	facts   map[[2]string]bool // group and key
}

type csvRow struct {
	fixed   []string
	params  map[string]string
	metrics map[csvMetric]string
	facts   map[[2]string]string
}

// csvMetric is a column of a metric. A log may say the same metric several times;
// all are kept.
type csvMetric struct {
	series
	nth int // from 1
}

func (m csvMetric) column() string {
	text := "metric." + m.name + "." + m.source
	if m.unit != "" {
		text += " (" + m.unit + ")"
	}
	if m.nth > 1 {
		text += fmt.Sprintf(" #%d", m.nth)
	}
	return text
}

func newCSVEncoder(w io.Writer, o ExportOptions) *csvEncoder {
	return &csvEncoder{w: w, options: o, params: map[string]bool{}, metrics: map[csvMetric]bool{}, facts: map[[2]string]bool{}}
}

func (e *csvEncoder) add(r exportRun) error {
	h := headOf(r.Run, r.Cell, r.Slot, r.Sweep.ID, r.Sweep.Name, r.Sweep.Kind)
	checks := r.Data.Checks
	row := csvRow{params: map[string]string{}, metrics: map[csvMetric]string{}, facts: map[[2]string]string{}, fixed: []string{
		strconv.Itoa(e.options.Schema), csvText(h.ID), csvText(h.Sweep), csvText(h.Name), csvText(h.Kind), csvText(h.Host), csvText(allParams(r.Cell)),
		strconv.FormatBool(h.Baseline), strconv.FormatBool(r.quotable), strconv.Itoa(h.Round), strconv.Itoa(h.Repeat), strconv.Itoa(h.Attempt),
		csvText(r.Run.LaunchID), h.State, h.Class, csvText(h.Reason), h.Start, h.End, csvText(patchesOf(r.Data)),
		csvText(strings.Join(labelsOf(r.Data.Labels), " ")), csvText(strings.Join(r.cellLabels, " ")),
		csvText(strings.Join(checksOf(checks, record.Fail), " ")), csvText(strings.Join(checksOf(checks, record.NotCheckable), " ")),
		strconv.Itoa(len(checksOf(checks, record.Pass)))}}
	for name, v := range r.Cell.Params {
		e.params[name] = true
		row.params[name] = csvParam(v)
	}
	for _, m := range r.Data.Metrics {
		key := csvMetric{series{m.Name, m.Source, m.Unit}, 1}
		for _, taken := row.metrics[key]; taken; _, taken = row.metrics[key] {
			key.nth++
		}
		e.metrics[key] = true
		row.metrics[key] = ""
		if v := finite(m.Value); v != nil {
			row.metrics[key] = csvNumber(*v)
		}
	}
	if e.options.Provenance {
		for _, f := range r.Data.Provenance {
			key := [2]string{f.Group, f.Key}
			e.facts[key] = true
			value := f.Value
			if was, ok := row.facts[key]; ok { // a key given several times keeps all its values
				value = was + "\n" + value
			}
			row.facts[key] = value
		}
	}
	e.rows = append(e.rows, row)
	return nil
}

func (e *csvEncoder) close() error {
	params := slices.Sorted(maps.Keys(e.params))
	metrics := slices.SortedFunc(maps.Keys(e.metrics), func(a, b csvMetric) int {
		if c := compareSeries(a.series, b.series); c != 0 {
			return c
		}
		return a.nth - b.nth
	})
	facts := slices.SortedFunc(maps.Keys(e.facts), func(a, b [2]string) int {
		if c := compareGroups(a[0], b[0]); c != 0 {
			return c
		}
		return strings.Compare(a[1], b[1])
	})
	out := csv.NewWriter(e.w)
	head := slices.Clone(csvColumns[:])
	for _, name := range params {
		head = append(head, csvClean("param."+name))
	}
	for _, m := range metrics {
		head = append(head, csvClean(m.column()))
	}
	for _, f := range facts {
		head = append(head, csvClean("prov."+f[0]+"."+f[1]))
	}
	if err := out.Write(head); err != nil {
		return err
	}
	for _, r := range e.rows {
		cells := slices.Clone(r.fixed)
		for _, name := range params {
			cells = append(cells, r.params[name])
		}
		for _, m := range metrics {
			cells = append(cells, r.metrics[m])
		}
		for _, f := range facts {
			cells = append(cells, csvText(r.facts[f]))
		}
		if err := out.Write(cells); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func csvNumber(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func csvParam(v any) string {
	switch v := v.(type) {
	case float64:
		if finite(v) == nil {
			return ""
		}
		return csvNumber(v)
	case string:
		return csvText(v)
	default:
		return fmt.Sprint(v)
	}
}

var (
	// formula is the beginning of a text that a spreadsheet may run, or that
	// csvText has kept from it already.
	formula = regexp.MustCompile("^'*[=+\\-@\t\n＝＋－＠]")
	numeral = regexp.MustCompile(`^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$`)
)

// csvText is a text as a cell. Names, reasons and provenance come from hosts and
// logs, and a spreadsheet runs a cell that begins with = + - or @: such a text
// gets one apostrophe in front, as does one that has apostrophes there already, so
// that taking one away gives the text back. Numbers stay as they are.
func csvText(s string) string {
	s = csvClean(s)
	if numeral.MatchString(s) || !formula.MatchString(s) {
		return s
	}
	return "'" + s
}

// csvClean makes text that every reader reads back the same: line breaks are LF,
// and what is no text is U+FFFD.
func csvClean(s string) string {
	s = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\x00", "\uFFFD").Replace(s)
	return strings.ToValidUTF8(s, "\uFFFD")
}
