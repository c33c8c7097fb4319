package report

import (
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"specrun/experiments/record"
)

// pinnedParams are the parameters that have one value in all cells of a sweep
// but the baseline, so that they tell no cell from another: a value given for the
// whole sweep. None where cells have no other name.
func pinnedParams(cells []record.Cell) record.Params {
	varying := VaryingParams(cells)
	pinned := record.Params{}
	for _, c := range cells {
		for name, v := range c.Params {
			if !c.Baseline && !slices.Contains(varying, name) {
				pinned[name] = v
			}
		}
	}
	return pinned
}

// Head is a sweep in one line, by which two tables are told apart: its id and
// tags, experiment, kind, host, begin, and what is pinned in all of its cells.
func Head(v record.SweepView, tags []string) string {
	id := v.Sweep.ID
	if len(tags) > 0 {
		id += " (" + strings.Join(tags, ", ") + ")"
	}
	what := []string{v.Sweep.Name, v.Sweep.Kind}
	var hosts []string
	for _, l := range v.Launches {
		if l.Host != "" && !slices.Contains(hosts, l.Host) {
			hosts = append(hosts, l.Host)
		}
	}
	if len(hosts) == 0 {
		if planned := readPlan(v.Sweep.Plan).Host.Name; planned != "" {
			hosts = append(hosts, planned)
		}
	}
	if len(hosts) > 0 {
		what = append(what, "on "+strings.Join(hosts, " and "))
	}
	what = append(what, "begun "+stamp(v.Sweep.CreatedUs))
	pinned := pinnedParams(v.Cells)
	for _, name := range slices.Sorted(maps.Keys(pinned)) {
		what = append(what, name+"="+paramText(pinned[name]))
	}
	return plain(id + ": " + strings.Join(what, ", "))
}

// CellRef is what a command takes for a cell: SWEEP/steps=2. "" when the sweep
// has no such cell.
func CellRef(v record.SweepView, cell string) string {
	for _, c := range v.Cells {
		if c.ID != cell {
			continue
		}
		name := CellName(c, VaryingParams(v.Cells))
		if c.Baseline || len(c.Params) > 0 {
			name = strings.ReplaceAll(name, " ", ",")
		}
		return v.Sweep.ID + "/" + name
	}
	return ""
}

// Cell is the row of a cell; nil when the sweep has no cell with the id.
func (s *Summary) Cell(id string) *CellRow {
	for i := range s.Cells {
		if s.Cells[i].cell.ID == id {
			return &s.Cells[i]
		}
	}
	return nil
}

// WriteCell writes the row of one cell, as the table of the sweep has it, and
// the runs of it, which rows has.
func (s *Summary) WriteCell(w io.Writer, row *CellRow, rows []record.RunRow) error {
	marks := map[string]bool{}
	g := grid{right: []bool{false, true, true, true}}
	head := []string{"cell", "runs", "launches", "failed"}
	line := []string{row.name, strconv.Itoa(row.Runs), strconv.Itoa(row.Launches), strconv.Itoa(row.Failed)}
	for _, c := range s.columns() {
		head, line = append(head, c.head), append(line, valueText(row.Metrics, c.metric, marks))
		g.right = append(g.right, true)
	}
	g.add(append(head, "vs baseline", "best", "labels")...)
	g.add(append(line, s.ratio(row, marks), s.mark(row, marks), strings.Join(row.Labels, ", "))...)
	if err := g.write(w); err != nil {
		return err
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	return WriteRuns(w, rows)
}
