package report

import (
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
		g.add(append(line, s.ratio(row, marks), s.mark(row, marks), strings.Join(row.Labels, ", "))...)
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

// mark names the best row. One that nothing was ranked against is in no doubt.
func (s *Summary) mark(row *CellRow, marks map[string]bool) string {
	switch {
	case !row.Best:
		return ""
	case s.ranked == 1:
		return "best"
	}
	return "best" + doubtful(row.SeparableFromNext, marks)
}
