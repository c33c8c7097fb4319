package report

import (
	"io"
	"math"
	"slices"
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
// verdict. What is the same in all rows is no column: launches that equal the
// runs, and labels, which the footnotes have anyway.
func (s *Summary) WriteTable(w io.Writer) error {
	failed, repeats, labelled := false, false, false
	for _, row := range s.Cells {
		failed = failed || row.Failed > 0
		repeats = repeats || row.Runs != row.Launches
		labelled = labelled || len(s.ownLabels(row)) > 0
	}
	columns := s.columns()
	marks := map[string]bool{}
	g := grid{right: []bool{false}}
	for i := -1; i < len(s.Cells); i++ {
		var row *CellRow // nil: the head
		line := []string{"cell"}
		if i >= 0 {
			row = &s.Cells[i]
			line[0] = row.name
		}
		add := func(head string, text func() string) {
			if row == nil {
				line, g.right = append(line, head), append(g.right, true)
			} else {
				line = append(line, text())
			}
		}
		add("runs", func() string { return strconv.Itoa(row.Runs) })
		if repeats {
			add("launches", func() string { return strconv.Itoa(row.Launches) })
		}
		if failed {
			add("failed", func() string { return strconv.Itoa(row.Failed) })
		}
		for _, c := range columns {
			add(c.head, func() string { return valueText(row.Metrics, c.metric, marks) })
			if c.metric == s.headline() && s.normalised() {
				add("normalised", func() string { return valueText(row.Normalised, c.metric, marks) })
			}
		}
		add("vs baseline", func() string { return s.ratio(row, marks) })
		add("best", func() string { return s.mark(row, marks) })
		if labelled {
			add("labels", func() string { return strings.Join(s.ownLabels(*row), ", ") })
		}
		g.add(line...)
	}
	for i, head := range g.rows[0] {
		if head == "best" || head == "labels" {
			g.right[i] = false
		}
	}
	// A terminal without the room loses first the labels, whose cells the
	// footnotes name, then the best, which the last lines name.
	for range 2 {
		if last := g.rows[0][len(g.rows[0])-1]; s.options.Width > 0 && g.width() > s.options.Width && (last == "labels" || last == "best") {
			g.dropLast()
		}
	}
	if err := g.write(w); err != nil {
		return err
	}
	return s.footnotes(w, marks)
}

// ownLabels are the labels of a row that not all rows with a result have.
func (s *Summary) ownLabels(row CellRow) []string {
	var out []string
	for _, name := range row.Labels {
		if !s.shared(name) {
			out = append(out, name)
		}
	}
	return out
}

// shared says that all rows with a result have the label.
func (s *Summary) shared(label string) bool {
	for _, row := range s.Cells {
		if row.Runs > 0 && !slices.Contains(row.Labels, label) {
			return false
		}
	}
	return true
}

// valueText is a metric with its interval, - when there is none.
func valueText(ms map[string]MetricValue, metric string, marks map[string]bool) string {
	m, ok := ms[metric]
	if !ok {
		return "-"
	}
	t := number(m.Median, m.Unit)
	if m.Lo == nil || m.Hi == nil || m.Median == 0 {
		return t
	}
	marks["±"] = true
	half := math.Max(*m.Hi/m.Median-1, 1-*m.Lo/m.Median)
	const least = 0.00005 // which still rounds to something
	if half < least {
		return t + " ±0%"
	}
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
