package experiments

import (
	"slices"
	"strings"
)

// Quote is a cell without its profiling patches: when the cell turns out to be
// the best of a sweep whose benchmark is quotable, this is what a quoted number
// is measured with. Its own cell is Plan.Cells continued.
type Quote struct {
	Of      int    `json:"of"` // ord of the cell with the patches
	Cell    Cell   `json:"cell"`
	Command string `json:"command"`
	// Placeholder is as of PlannedLaunch.
	Placeholder int `json:"placeholder_port,omitempty"`
}

// probeNone is the probe of a patch that measures nothing.
const probeNone = "none"

func profiles(p PatchRef) bool { return p.Probe != "" && p.Probe != probeNone }

// addQuotes prepares for each cell that may be quoted what it is without its
// profiling patches. A cell that has none needs nothing, nor does one that the
// experiment has without them anyway.
func (e *Experiment) addQuotes(b *cellBuilder) error {
	for _, c := range e.Cells {
		if !c.Bench.Quotable || !slices.ContainsFunc(c.Server.Patches, profiles) {
			continue
		}
		var kept []string
		for _, name := range b.patchNames(c.combo, c.off) {
			ref, err := b.patch(name)
			if err != nil {
				return err
			}
			if !profiles(ref) {
				kept = append(kept, name)
			}
		}
		combo := c.combo.with(boundKey{axisPatches, patchesKey, patchesKey}, ParseScalar(firstOf(strings.Join(kept, "+"), noPatches)))
		cell, err := b.build(combo, c.off)
		if err != nil {
			return err
		}
		if e.find(cell) >= 0 {
			continue
		}
		cell.Params = combo.params()
		cell.Ord = len(e.Cells) + len(e.Quotes)
		e.Quotes = append(e.Quotes, Quote{Of: c.Ord, Cell: cell})
	}
	return nil
}

// inArms makes each cell two, arms a and b, which differ in nothing but that
// parameter: what an A/A sweep finds different is noise.
func (e *Experiment) inArms() {
	var cells []Cell
	for _, c := range e.Cells {
		for _, arm := range [...]string{"a", "b"} {
			c.Ord, c.Arm = len(cells), arm
			params := make(map[string]any, len(c.Params)+1)
			for k, v := range c.Params {
				params[k] = v
			}
			params[armKey] = arm
			c.Params = params
			cells = append(cells, c)
		}
	}
	e.Cells = cells
	for i := range e.Merged {
		e.Merged[i].Into *= 2
	}
}

// armKey is the parameter that tells the arms of an A/A sweep apart.
const armKey = "arm"

// All are the cells of the plan and those that a quotable sweep may add, by ord.
func (p *Plan) All() []Cell {
	all := slices.Clone(p.Cells)
	for _, q := range p.Quotes {
		all = append(all, q.Cell)
	}
	return all
}

// quoteOf is the quote of the best cell, when all slots of the plan are filled
// and the best cell has one.
func (p *Plan) quoteOf(best int) (Quote, bool) {
	i := slices.IndexFunc(p.Quotes, func(q Quote) bool { return q.Of == best })
	if i < 0 {
		return Quote{}, false
	}
	return p.Quotes[i], true
}

// launches are those of a quote. Its rounds come after those of the plan, so
// that nobody pairs them with launches which they did not alternate with.
func (q Quote) launches(p *Plan) []PlannedLaunch {
	var out []PlannedLaunch
	for round := range p.Rounds {
		l := PlannedLaunch{N: len(p.Launches) + round, Round: p.Rounds + round, Command: q.Command, Placeholder: q.Placeholder}
		for repeat := range p.Repeats {
			l.Runs = append(l.Runs, PlannedRun{Cell: q.Cell.Ord, Repeat: repeat})
		}
		out = append(out, l)
	}
	return out
}
