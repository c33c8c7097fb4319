package report

import (
	"encoding/json"
	"slices"
	"strings"

	"specrun/experiments/record"
	"specrun/experiments/stats"
)

// loadPart is the part of a sweep whose cells did the same work, as a sweep of
// its own.
type loadPart struct {
	*Summary
	values map[string]string // of the keys in which the loads of the sweep differ
}

// name is a load in a few words, such as "concurrency=32".
func (l loadPart) name() string {
	var parts []string
	for _, key := range stats.LoadKeys() {
		if v, ok := l.values[key]; ok {
			parts = append(parts, key+"="+plain(v))
		}
	}
	return strings.Join(parts, " ")
}

// byLoad ranks the cells of each load among themselves where the cells of the
// sweep differ in their work. A sweep without a plan is of one load.
func (s *Summary) byLoad(v record.SweepView, o Options) {
	loads, differ := s.plan.loads()
	if len(differ) == 0 || o.judged != nil { // a part has one load, and the plan of the whole
		return
	}
	var order []string
	cells := map[string][]record.Cell{}
	values := map[string]map[string]string{}
	judged := map[string]*CellRow{}
	for i := range s.Cells {
		row := &s.Cells[i]
		judged[row.cell.ID] = row
		of := map[string]string{}
		for _, key := range differ {
			of[key] = loads[row.cell.Ord][key]
		}
		name := loadPart{values: of}.name()
		if cells[name] == nil {
			order = append(order, name)
			values[name] = of
		}
		cells[name] = append(cells[name], row.cell)
	}
	if len(order) == len(s.Cells) { // the loads themselves are what is compared
		return
	}
	o.Objective, o.judged = s.Objective, judged
	for _, name := range order {
		part := loadPart{Summarize(ofCells(v, cells[name]), o), values[name]}
		for _, row := range part.Cells {
			mine := judged[row.cell.ID]
			mine.Best, mine.SeparableFromNext = row.Best, row.SeparableFromNext
		}
		s.loads = append(s.loads, part)
	}
}

// ofCells is the part of a sweep that belongs to some of its cells.
func ofCells(v record.SweepView, cells []record.Cell) record.SweepView {
	slots := map[string]bool{}
	v.Cells = cells
	v.Slots = slices.DeleteFunc(slices.Clone(v.Slots), func(sl record.Slot) bool {
		other := !slices.ContainsFunc(cells, func(c record.Cell) bool { return c.ID == sl.CellID })
		slots[sl.ID] = !other
		return other
	})
	v.Runs = slices.DeleteFunc(slices.Clone(v.Runs), func(r record.Run) bool { return !slots[r.SlotID] })
	return v
}

// loads gives the benchmark of each cell of the plan by its ord, and the keys in
// which they differ.
func (p plan) loads() (byOrd map[int]map[string]string, differ []string) {
	byOrd = map[int]map[string]string{}
	add := func(ord int, bench map[string]json.RawMessage) {
		byOrd[ord] = map[string]string{}
		for _, key := range stats.LoadKeys() {
			byOrd[ord][key] = strings.Trim(string(bench[key]), `"`)
		}
	}
	for _, c := range p.Cells {
		add(c.Ord, c.Bench)
	}
	for _, key := range stats.LoadKeys() {
		for _, of := range byOrd {
			if of[key] != byOrd[p.Cells[0].Ord][key] {
				differ = append(differ, key)
				break
			}
		}
	}
	for _, q := range p.Quotes {
		add(q.Cell.Ord, q.Cell.Bench)
	}
	return byOrd, differ
}
