package report

import (
	"fmt"
	"slices"
	"strings"

	"specrun/experiments/record"
)

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
