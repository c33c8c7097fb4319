package report

import (
	"fmt"
	"math"
	"slices"

	"specrun/experiments/record"
	"specrun/experiments/stats"
)

// tie is how near to the best a cell must be to be as good: below it a cheaper
// setting is worth more than the rest.
const tie = 0.01

// decision says which cell of a sweep to take: the best one, unless one with
// fewer steps is within 1 % of it, which costs less memory and drafts less in
// vain. A cheaper one that could not be told from the best counts too where a
// difference of noiseWorth would have been found. Where it is not known whether a
// cell differs from the best, such as after one launch, it says that instead. ""
// when no cell was ranked against another.
func (s *Summary) decision() string {
	if s.Best < 0 {
		return ""
	}
	best := &s.Cells[s.Best]
	if s.ranked < 2 {
		return ""
	}
	if untold := s.untold(); len(untold) > 0 {
		return fmt.Sprintf("%s has the best number, but which cell to take is not known: %s", best.name, missing(untold[0].fromBest))
	}
	take, near, blurred := s.choose()
	switch {
	case len(near) == 0 && len(blurred) == 0:
		text := fmt.Sprintf("%s best; none within 1 %%: take %s", best.name, best.name)
		if open := s.open(); len(open) > 0 {
			are := "is"
			if len(open) > 1 {
				are = "are"
			}
			text += fmt.Sprintf(", or find out by more rounds whether %s %s as good", cellsText(names(open)), are)
		}
		return text
	case len(blurred) == 0:
		return fmt.Sprintf("%s best; %s within 1 %%: take %s", best.name, cellsText(names(near)), take.name)
	}
	return fmt.Sprintf("%s best; %s %s behind, not more than noise: take %s", best.name, take.name, effect(take.fromBest.Ratio), take.name)
}

// choose is the cell to take, with the rows that are as good as the best: within
// 1 %, and the one to take if that is because of noise.
func (s *Summary) choose() (take *CellRow, near, blurred []*CellRow) {
	take = &s.Cells[s.Best]
	near, blurred = s.rivals()
	for _, row := range slices.Concat(near, blurred) {
		if cheaper(row, take) {
			take = row
		}
	}
	return take, near, slices.DeleteFunc(blurred, func(r *CellRow) bool { return r != take })
}

// SweepDecision is the JSON line of type decision of a sweep, less the type.
type SweepDecision struct {
	Sweep   string `json:"sweep"`
	Text    string `json:"text"`
	Verdict string `json:"verdict"`
	// Load is the work that the cells of the decision have in common, where those
	// of the sweep differ in it: concurrency, requests, max_tokens, ...
	Load map[string]string `json:"load,omitempty"`
	Best record.Params     `json:"best"` // null: none
	Take record.Params     `json:"take"` // null: none, or not known
}

// Decide gives what came out of a sweep, for programs: one decision for each load.
func (s *Summary) Decide() []SweepDecision {
	if len(s.loads) == 0 {
		return []SweepDecision{s.decide()}
	}
	var all []SweepDecision
	for _, l := range s.loads {
		d := l.decide()
		d.Load = l.values
		all = append(all, d)
	}
	return all
}

func (s *Summary) decide() SweepDecision {
	d := SweepDecision{Sweep: s.Sweep.ID, Text: s.decision(), Verdict: s.Verdict}
	if s.Best >= 0 {
		d.Best = s.Cells[s.Best].Params
		if len(s.untold()) == 0 {
			take, _, _ := s.choose()
			d.Take = take.Params
		}
	}
	return d
}

// untold are the ranked rows of which it is not known whether they differ from
// the best.
func (s *Summary) untold() (rows []*CellRow) {
	for i := range s.Cells {
		row := &s.Cells[i]
		if _, measured := s.value(row); measured && i != s.Best && row.Failed == 0 && !row.Quotable && row.fromBest.Separable == nil {
			rows = append(rows, row)
		}
	}
	return rows
}

// missing says why a comparison has no verdict.
func missing(c stats.Comparison) string {
	if min(c.NA, c.NB) == 1 {
		return "after one launch, and launches differ (--rounds 3)"
	}
	return c.TooFew
}

// noiseWorth is the difference that a comparison must be able to find for "no
// difference found" to mean that there is none worth having.
const noiseWorth = 0.03

// rivals are the rows within 1 % of the best one, and further ones that a good
// enough comparison could not tell from it.
func (s *Summary) rivals() (near, blurred []*CellRow) {
	top, ok := s.value(&s.Cells[s.Best])
	if !ok || top.Median <= 0 {
		return nil, nil
	}
	for i := range s.Cells {
		row := &s.Cells[i]
		m, ok := s.value(row)
		if !ok || row.Failed > 0 || row.Quotable || i == s.Best || m.Median <= 0 {
			continue
		}
		c := row.fromBest
		switch {
		case math.Max(m.Median/top.Median, top.Median/m.Median)-1 <= tie:
			near = append(near, row)
		case c.Separable != nil && !*c.Separable && c.MinEffect <= noiseWorth:
			blurred = append(blurred, row)
		}
	}
	return near, blurred
}

// open are the rows that too noisy a comparison could not tell from the best.
func (s *Summary) open() (rows []*CellRow) {
	for i := range s.Cells {
		if c := s.Cells[i].fromBest; c.Separable != nil && !*c.Separable && !(c.MinEffect <= noiseWorth) {
			rows = append(rows, &s.Cells[i])
		}
	}
	return rows
}

// advises says that the decision is more than that the best is best: what to take
// instead, or what is still to be found out.
func (s *Summary) advises() bool {
	if s.Best < 0 || s.ranked < 2 || len(s.untold()) > 0 {
		return false
	}
	near, blurred := s.rivals()
	return len(near)+len(blurred)+len(s.open()) > 0
}

func names(rows []*CellRow) []string {
	var out []string
	for _, r := range rows {
		out = append(out, r.name)
	}
	return out
}

// cheaper says that a cell drafts less than another: the baseline does not at
// all, and steps count before the width of the tree.
func cheaper(a, b *CellRow) bool {
	if a.Baseline != b.Baseline {
		return a.Baseline
	}
	for _, name := range []string{"steps", "topk", "draft"} {
		x, okA := quantity(a.Params[name])
		y, okB := quantity(b.Params[name])
		if okA && okB && x != y {
			return x < y
		}
	}
	return false
}

func quantity(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}
