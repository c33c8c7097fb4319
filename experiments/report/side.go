package report

import (
	"fmt"
	"slices"
	"strings"

	"specrun/experiments/record"
)

// Kinds of sides.
const (
	SideRun   = "run"
	SideCell  = "cell"
	SideSweep = "sweep"
	SideFile  = "file" // read for the comparison, not stored
)

// Side is one of the two things that a comparison or a diff is about: a run, a
// cell or a whole sweep, within the sweep that it belongs to. The sweep's
// baseline says how the host was, also when only a run of it is meant.
type Side struct {
	Ref   string // as the user named it
	Kind  string
	View  record.SweepView
	Cells []string // ids of the cells that are meant; nil = all
	Run   string   // id of the only run that is meant; "" = all of the cells
}

// FileSide makes a side of what was read out of a file: one cell, and a launch
// for each start of the server in it.
func FileSide(path string, runs []record.RunData) Side {
	s := Side{Ref: path, Kind: SideFile, View: record.SweepView{Data: map[string]record.RunData{}}}
	s.View.Sweep = record.Sweep{ID: path, Name: path, Kind: SideFile}
	s.View.Cells = []record.Cell{{ID: "cell", SweepID: path, Params: record.Params{}}}
	for i, data := range runs {
		id := fmt.Sprintf("start %d", i+1)
		s.View.Slots = append(s.View.Slots, record.Slot{ID: id, CellID: "cell", Round: i})
		s.View.Runs = append(s.View.Runs, record.Run{ID: id, SlotID: id, Attempt: 1, LaunchID: id, State: record.RunDone})
		s.View.Data[id] = data
	}
	return s
}

// cells are those that are meant, the baseline first as the plan has it.
func (s *Side) cells() []record.Cell {
	var out []record.Cell
	for _, c := range s.View.Cells {
		if s.Cells == nil || slices.Contains(s.Cells, c.ID) {
			out = append(out, c)
		}
	}
	return out
}

// runsOf are the runs of a cell that are meant.
func (s *Side) runsOf(cell record.Cell) []record.Run {
	slots := map[string]bool{}
	for _, sl := range s.View.Slots {
		if sl.CellID == cell.ID {
			slots[sl.ID] = true
		}
	}
	var out []record.Run
	for _, r := range s.View.Runs {
		if slots[r.SlotID] && (s.Run == "" || r.ID == s.Run) {
			out = append(out, r)
		}
	}
	return out
}

// measured are the runs of cells that are done; those that failed when none is,
// since a failed launch has provenance too.
func (s *Side) measured(cells []record.Cell) []record.RunData {
	for _, state := range []record.RunState{record.RunDone, record.RunFailed} {
		var out []record.RunData
		for _, c := range cells {
			for _, r := range s.runsOf(c) {
				if r.State == state {
					out = append(out, s.View.Data[r.ID])
				}
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}

// baseline is the cell without speculation that belongs to the same load as
// another cell of the sweep; nil when the sweep has none.
func (s *Side) baseline(of record.Cell) *record.Cell {
	for i, c := range s.View.Cells {
		if c.Baseline && within(c.Params, of.Params) {
			return &s.View.Cells[i]
		}
	}
	return nil
}

// within says that all of a's parameters are b's too.
func within(a, b record.Params) bool {
	for name, v := range a {
		if other, ok := b[name]; !ok || paramText(other) != paramText(v) {
			return false
		}
	}
	return true
}

// head describes a side in the columns of a table.
func (s *Side) head(letter string) []string {
	out := []string{letter, plain(s.Ref)}
	if s.Kind == SideFile {
		return append(out, "file", plural(len(s.View.Runs), "server start"))
	}
	what := s.Kind + " " + s.View.Sweep.ID
	var host string
	var start int64
	runs := 0
	for _, c := range s.cells() {
		for _, r := range s.runsOf(c) {
			runs++
			if host == "" {
				host = r.Host
			}
			if start == 0 || r.StartUs < start {
				start = r.StartUs
			}
		}
	}
	cells := s.cells()
	switch {
	case s.Kind == SideRun:
		what = "run " + s.Run
	case len(cells) == 1:
		what += fmt.Sprintf(" %s, %s", CellName(cells[0], VaryingParams(s.View.Cells)), plural(runs, "run"))
	default:
		what += fmt.Sprintf(", %s, %s", plural(len(cells), "cell"), plural(runs, "run"))
	}
	if len(cells) == 1 && s.Kind == SideRun {
		what += " of " + CellName(cells[0], VaryingParams(s.View.Cells))
	}
	return append(out, plain(what), plain(s.View.Sweep.Name), plain(host), stamp(start))
}

// CellError says that a cell was not named so that there is one of it.
type CellError struct {
	Sweep string
	Cell  string
	Fits  []string // cells that fit, when there are several
	Cells []string // all of the sweep
}

func (e *CellError) Error() string {
	if len(e.Fits) > 0 {
		return fmt.Sprintf("sweep %s: %q fits %d cells: %s", e.Sweep, e.Cell, len(e.Fits), strings.Join(e.Fits, "; "))
	}
	return fmt.Sprintf("sweep %s has no cell %q", e.Sweep, e.Cell)
}

// Hint names the cells.
func (e *CellError) Hint() string {
	return "its cells: " + strings.Join(e.Cells, "; ")
}

// FindCell finds the cell of a sweep that a text names: "baseline", or
// parameters as steps=2, several separated by commas or blanks; those that are
// the same in all cells may be left out. It fails with *CellError.
func FindCell(v record.SweepView, text string) (record.Cell, error) {
	varying := VaryingParams(v.Cells)
	e := &CellError{Sweep: v.Sweep.ID, Cell: text}
	baseline, want := false, map[string]string{}
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		name, value, ok := strings.Cut(word, "=")
		if !ok && word == "baseline" {
			baseline = true
			continue
		}
		want[name] = value
	}
	var fits []record.Cell
	for _, c := range v.Cells {
		name := CellName(c, varying)
		e.Cells = append(e.Cells, name)
		if name == text {
			return c, nil
		}
		if c.Baseline != baseline || !baseline && len(want) == 0 {
			continue
		}
		ok := true
		for name, value := range want {
			have, known := c.Params[name]
			ok = ok && known && paramText(have) == value
		}
		if ok {
			fits = append(fits, c)
			e.Fits = append(e.Fits, name)
		}
	}
	if len(fits) == 1 {
		return fits[0], nil
	}
	return record.Cell{}, e
}

// pair is a cell that both sides have.
type pair struct {
	name string
	a, b record.Cell
}

// match finds the cells that two sides have in common: the baseline with the
// baseline, others by their parameters. A parameter that only one side has and
// that is the same in all of its cells does not tell cells apart; what it changes
// is in the provenance. One cell alone on each side is compared whatever it is.
func match(a, b *Side) (pairs []pair, onlyA, onlyB []string) {
	left, right := a.cells(), b.cells()
	nameA := func(c record.Cell) string { return CellName(c, VaryingParams(a.View.Cells)) }
	nameB := func(c record.Cell) string { return CellName(c, VaryingParams(b.View.Cells)) }
	if len(left) == 1 && len(right) == 1 {
		p := pair{name: nameA(left[0]), a: left[0], b: right[0]}
		if n := nameB(right[0]); n != p.name && b.Kind != SideFile {
			p.name += " / " + n
		}
		return []pair{p}, nil, nil
	}
	only := append(constantIn(left, right), constantIn(right, left)...)
	taken := map[string]bool{}
	for _, x := range left {
		found := false
		for _, y := range right {
			if x.Baseline == y.Baseline && !taken[y.ID] && sameParams(x.Params, y.Params, only) {
				taken[y.ID], found = true, true
				pairs = append(pairs, pair{name: nameA(x), a: x, b: y})
				break
			}
		}
		if !found {
			onlyA = append(onlyA, nameA(x))
		}
	}
	for _, y := range right {
		if !taken[y.ID] {
			onlyB = append(onlyB, nameB(y))
		}
	}
	return pairs, onlyA, onlyB
}

// constantIn are the parameters of cells that others do not have at all and that
// have one value.
func constantIn(cells, others []record.Cell) []string {
	values := map[string]map[string]bool{}
	for _, c := range cells {
		for name, v := range c.Params {
			if values[name] == nil {
				values[name] = map[string]bool{}
			}
			values[name][paramText(v)] = true
		}
	}
	var out []string
	for name, vs := range values {
		has := func(c record.Cell) bool { _, ok := c.Params[name]; return ok }
		if len(vs) == 1 && !slices.ContainsFunc(others, has) {
			out = append(out, name)
		}
	}
	return out
}

func sameParams(a, b record.Params, except []string) bool {
	for name := range a {
		if _, ok := b[name]; !ok && !slices.Contains(except, name) {
			return false
		}
	}
	for name, v := range b {
		if slices.Contains(except, name) {
			continue
		}
		if other, ok := a[name]; !ok || paramText(other) != paramText(v) {
			return false
		}
	}
	return true
}
