package stats

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"specrun/experiments/record"
)

// Candidate is a cell that may be the best.
type Candidate struct {
	Cell   record.Cell
	Runs   []CellRun
	Facts  [][]record.Fact // of its runs, the failed ones too
	Failed bool            // it has a failed run: it is not ranked
	Aside  bool            // it did not take turns with the others: it is not ranked
}

// Ranking is which cell is best, and by what.
type Ranking struct {
	Metric string // that the objective names
	// Order are the candidates that are ranked, the best first, earlier cells
	// before later ones that are equal.
	Order []int
	// MixedSteps: the metric is one of cycles, and these are of different steps, so
	// that none is the best; Order is as given then.
	MixedSteps bool
	// Positions are those that the ranked cells and their baselines have in common.
	Positions Positions
	// Equal: the cells are ranked over Positions; else by whole outputs. It is false
	// with unequal outputs where the metric cannot be had over positions.
	Equal bool
}

// Best is the index of the best candidate.
func (r Ranking) Best() (int, bool) {
	if r.MixedSteps || len(r.Order) == 0 {
		return 0, false
	}
	return r.Order[0], true
}

// RankCells is the one rule by which a cell is called the best, of what has been
// measured so far: the best median over launches of the objective, over the
// positions that all have. Whoever decides what is measured next and whoever
// reports it use the same.
func RankCells(cells []Candidate, objective string) Ranking {
	r := Ranking{Metric: ObjectiveIn(objective, cells)}
	whole := make([]map[string]CellMetric, len(cells))
	for i, c := range cells {
		if c.Aside || c.Failed {
			continue
		}
		whole[i] = CellMetrics(c.Runs)
		if _, measured := whole[i][r.Metric]; measured {
			r.Order = append(r.Order, i)
		}
	}
	if strings.HasPrefix(r.Metric, "cycle_") {
		shapes := map[string]bool{}
		for _, i := range r.Order {
			shapes[StepsOf(cells[i].Cell, cells[i].Facts...)] = true
		}
		if r.MixedSteps = len(shapes) > 1; r.MixedSteps {
			return r
		}
	}
	r.Positions = positionsOf(cells, r.Order)
	values := func(i int) map[string]CellMetric { return whole[i] }
	if r.Positions.Unequal {
		over := map[int]map[string]CellMetric{}
		r.Equal = true
		for _, i := range r.Order {
			over[i] = CellMetrics(limited(cells[i].Runs, r.Positions))
			_, had := over[i][r.Metric]
			r.Equal = r.Equal && had
		}
		if r.Equal {
			values = func(i int) map[string]CellMetric { return over[i] }
		}
	}
	slices.SortStableFunc(r.Order, func(a, b int) int {
		x, y := values(a)[r.Metric].Median(), values(b)[r.Metric].Median()
		if DirectionOf(r.Metric) == Lower {
			return cmp.Compare(x, y)
		}
		return cmp.Compare(y, x)
	})
	return r
}

// limited are runs with their metrics over positions.
func limited(runs []CellRun, p Positions) []CellRun {
	out := slices.Clone(runs)
	for i := range out {
		out[i].Data = record.RunData{Metrics: p.Over(out[i].Data)}
	}
	return out
}

// positionsOf are those that ranked cells and what they are compared with have.
func positionsOf(cells []Candidate, order []int) Positions {
	with := slices.Clone(order)
	all := make([]record.Cell, len(cells))
	for i, c := range cells {
		all[i] = c.Cell
	}
	for _, i := range order {
		if base := BaselineOf(all, cells[i].Cell); base >= 0 && !slices.Contains(with, base) {
			with = append(with, base)
		}
	}
	var samples [][]record.Sample
	for _, i := range with {
		for _, r := range cells[i].Runs {
			samples = append(samples, r.Data.Samples)
		}
	}
	return CommonPositions(samples...)
}

// BaselineOf is the index of the baseline that a cell is compared with, the first
// whose params it has too; -1 when there is none.
func BaselineOf(cells []record.Cell, of record.Cell) int {
	return slices.IndexFunc(cells, func(base record.Cell) bool {
		if !base.Baseline {
			return false
		}
		for name, v := range base.Params {
			if other, ok := of.Params[name]; !ok || fmt.Sprint(other) != fmt.Sprint(v) {
				return false
			}
		}
		return true
	})
}

// ObjectiveIn is the metric that an objective names, "" being output_throughput:
// tpot may be there as its mean only.
func ObjectiveIn(objective string, cells []Candidate) string {
	objective = cmp.Or(objective, "output_throughput")
	names := map[string]bool{}
	for _, c := range cells {
		for _, r := range c.Runs {
			for _, m := range r.Data.Metrics {
				names[m.Name] = true
			}
		}
	}
	if !names[objective] && names[objective+"_mean"] {
		return objective + "_mean"
	}
	return objective
}

// StepsOf gives the speculative steps of a cell as text: cycles of equal steps do
// equal work. It is what the server had in effect by the facts of its runs, else
// what it was started with, else the parameter; "" when none is known.
func StepsOf(c record.Cell, runs ...[]record.Fact) string {
	asked := ""
	for _, facts := range runs {
		for _, f := range facts {
			key, isAsked := strings.CutPrefix(f.Key, "asked ")
			key = strings.ReplaceAll(strings.ToLower(strings.TrimLeft(strings.TrimSpace(key), "-")), "_", "-")
			switch {
			case f.Group != "flags" || key != "speculative-num-steps":
			case isAsked:
				asked = f.Value
			default:
				return f.Value
			}
		}
	}
	if v, ok := c.Params["steps"]; ok && asked == "" {
		return fmt.Sprint(v)
	}
	return asked
}
