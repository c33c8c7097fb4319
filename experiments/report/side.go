package report

import (
	"fmt"
	"slices"

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

// FileSide makes a side of what was read out of a file: a cell for each
// configuration that the server was started with, and in it a launch for each
// start. Their rounds say in which order they came, not that they took turns.
func FileSide(path string, runs []record.RunData) Side {
	s := Side{Ref: path, Kind: SideFile, View: record.SweepView{Data: map[string]record.RunData{}}}
	s.View.Sweep = record.Sweep{ID: path, Name: path, Kind: SideFile}
	for ord, c := range Configurations(runs) {
		cell := record.Cell{ID: fmt.Sprintf("cell %d", ord+1), SweepID: path, Ord: ord, Params: c.Params, Baseline: c.Baseline}
		s.View.Cells = append(s.View.Cells, cell)
		for _, i := range c.Starts {
			id := fmt.Sprintf("start %d", i+1)
			s.View.Slots = append(s.View.Slots, record.Slot{ID: id, CellID: cell.ID, Round: i})
			s.View.Runs = append(s.View.Runs, record.Run{ID: id, SlotID: id, Attempt: 1, LaunchID: id, State: record.RunDone})
			s.View.Data[id] = runs[i]
		}
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

// measured are the runs of cells that are done; those that failed when none is.
// A launch that failed early has only a part of its provenance: partial says that
// what is not there is not known to be absent.
func (s *Side) measured(cells []record.Cell) (runs []record.RunData, partial bool) {
	for _, state := range []record.RunState{record.RunDone, record.RunFailed} {
		for _, c := range cells {
			for _, r := range s.runsOf(c) {
				if r.State == state {
					runs = append(runs, s.View.Data[r.ID])
				}
			}
		}
		if len(runs) > 0 {
			return runs, state == record.RunFailed
		}
	}
	return nil, false
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
		what := plural(len(s.View.Runs), "server start")
		if n := len(s.View.Cells); n > 1 {
			what += fmt.Sprintf(" of %d configurations", n)
		}
		return append(out, "file", what)
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
