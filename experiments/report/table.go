package report

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// column of the sweep table.
type column struct{ metric, head string }

// columns are the primary metrics, and the objective when it is another.
func (s *Summary) columns() []column {
	tpot := "tpot_mean"
	for _, row := range s.Cells {
		if _, ok := row.Metrics["tpot"]; ok {
			tpot = "tpot"
		}
	}
	out := []column{{"cycle_total", "TOTAL ms/cyc"}, {"accept_len", "accept len"}, {"output_throughput", "tok/s"}, {tpot, "TPOT ms"}}
	for _, c := range out {
		if c.metric == s.Objective {
			return out
		}
	}
	return append(out, column{s.Objective, s.Objective})
}

// WriteTable writes the table of a sweep, its footnotes, and as last line the
// verdict.
func (s *Summary) WriteTable(w io.Writer) error {
	failed, columns := false, s.columns()
	for _, row := range s.Cells {
		failed = failed || row.Failed > 0
	}
	g := grid{right: []bool{false, true, true}}
	head := []string{"cell", "runs", "launches"}
	if failed {
		head = append(head, "failed")
		g.right = append(g.right, true)
	}
	for _, c := range columns {
		head = append(head, c.head)
		g.right = append(g.right, true)
	}
	g.add(append(head, "vs baseline", "best", "labels")...)
	g.right = append(g.right, true)
	marks := map[string]bool{}
	for i := range s.Cells {
		row := &s.Cells[i]
		line := []string{row.name, strconv.Itoa(row.Runs), strconv.Itoa(row.Launches)}
		if failed {
			line = append(line, strconv.Itoa(row.Failed))
		}
		for _, c := range columns {
			line = append(line, row.text(c.metric, marks))
		}
		g.add(append(line, s.ratio(row, marks), mark(row, marks), strings.Join(row.Labels, ", "))...)
	}
	if err := g.write(w); err != nil {
		return err
	}
	return s.footnotes(w, marks)
}

// text is a metric with its interval, - when the cell has none.
func (row *CellRow) text(metric string, marks map[string]bool) string {
	m, ok := row.Metrics[metric]
	if !ok {
		return "-"
	}
	t := number(m.Median, m.Unit)
	if m.Lo == nil || m.Hi == nil || m.Median == 0 {
		return t
	}
	marks["±"] = true
	half := math.Max(*m.Hi/m.Median-1, 1-*m.Lo/m.Median)
	return t + " ±" + strings.ReplaceAll(percent(half), " ", "")
}

// headline is the metric that the table compares with the baseline.
func (s *Summary) headline() string {
	for _, name := range compared {
		if name == s.Objective {
			return name
		}
	}
	return compared[0]
}

func (s *Summary) ratio(row *CellRow, marks map[string]bool) string {
	v, ok := row.VsBaseline[s.headline()]
	if !ok {
		return "-"
	}
	t := strconv.FormatFloat(v, 'f', 3, 64)
	return t + doubtful(row.Doubt[s.headline()].Separable, marks)
}

// doubtful is what follows a claim: nothing when it stands.
func doubtful(separable *bool, marks map[string]bool) string {
	switch {
	case separable == nil:
		marks["?"] = true
		return " ?"
	case !*separable:
		marks["~"] = true
		return " ~"
	}
	return ""
}

func mark(row *CellRow, marks map[string]bool) string {
	if !row.Best {
		return ""
	}
	return "best" + doubtful(row.SeparableFromNext, marks)
}

// footnotes explain what the table uses, and nothing else.
func (s *Summary) footnotes(w io.Writer, marks map[string]bool) error {
	var b strings.Builder
	note := func(format string, args ...any) { fmt.Fprintf(&b, "  "+format+"\n", args...) }
	if marks["±"] {
		note("±  95 %% interval over launches (Student's t on logs)")
	}
	if marks["~"] {
		note("~  not separable: the difference may be noise")
	}
	if marks["?"] {
		note("?  unknown: with one launch the noise between launches is not known; --rounds 3")
	}
	if least, ok := s.leastEffect(); ok {
		note("vs baseline: ratio of %s; the smallest effect that could have been found is %s", s.headline(), least)
	}
	for _, l := range s.labels {
		text := l.name
		if l.reason != "" {
			text += ": " + plain(l.reason)
		}
		if len(l.cells) < len(s.Cells) {
			text += " (" + strings.Join(l.cells, ", ") + ")"
		}
		if l.advice != "" {
			text += " -> " + l.advice
		}
		note("%s", text)
	}
	for _, c := range s.checks {
		note("check failed: %s", plain(c))
	}
	for _, f := range s.failed {
		note("failed: %s round %d repeat %d: %s: %s (specrun show %s)", f.cell, f.at.Round+1, f.at.Repeat+1, f.run.Class, firstLine(f.run.Reason), f.run.ID)
	}
	if done := s.results(); done < s.planned {
		note("%d of %d runs have no result: specrun resume %s", s.planned-done, s.planned, s.Sweep.ID)
	}
	if b.Len() > 0 {
		b.WriteString("\n")
	}
	_, err := fmt.Fprintf(w, "\n%s%s\n", b.String(), s.Verdict)
	return err
}

// results counts the runs that are done or failed.
func (s *Summary) results() int {
	n := 0
	for _, row := range s.Cells {
		n += row.Runs + row.Failed
	}
	return n
}

// leastEffect is the range over the rows of the smallest effect they could show.
func (s *Summary) leastEffect() (string, bool) {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, row := range s.Cells {
		if d := row.Doubt[s.headline()]; d.MinEffect != nil {
			lo, hi = math.Min(lo, *d.MinEffect), math.Max(hi, *d.MinEffect)
		}
	}
	switch {
	case math.IsInf(lo, 1):
		return "", false
	case percent(lo) == percent(hi):
		return percent(lo), true
	}
	return percent(lo) + " to " + percent(hi), true
}
