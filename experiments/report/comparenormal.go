package report

import (
	"slices"

	"specrun/experiments/record"
	"specrun/experiments/stats"
)

// relativeSuffix ends the name of a metric that was divided by that of the baseline.
const relativeSuffix = "_per_baseline"

// normalised adds the metrics that a baseline has too, each launch divided by the
// baseline of its round: what is left when the host was faster or slower. Both
// sweeps must have taken turns, and the positions and the source are those that
// the cells and the baselines of both have.
func (c *Comparison) normalised(r *paired, o CompareOptions) {
	if r.a.Baseline || r.b.Baseline {
		return
	}
	sides := [2]*Side{&c.A, &c.B}
	cells := [2]record.Cell{r.a, r.b}
	var bases [2]*record.Cell
	var runs [][]record.RunData
	for i, s := range sides {
		p := readPlan(s.View.Sweep.Plan)
		bases[i] = s.baseline(cells[i])
		switch {
		case bases[i] == nil:
			c.note("%s: no baseline on both sides to normalise by", r.name)
			return
		case !p.interleaved() || p.isQuote(cells[i].Ord):
			c.note("%s: nothing to normalise by: in %s the baseline did not run in each of its rounds", r.name, s.Ref)
			return
		}
		whole := s.whole()
		runs = append(runs, s.done(cells[i]), whole.done(*bases[i]))
	}
	var samples [][]record.Sample
	for _, d := range slices.Concat(runs...) {
		samples = append(samples, d.Samples)
	}
	positions, common := stats.CommonPositions(samples...), commonSources(runs...)
	for _, name := range c.metrics(r, o.Metrics) {
		if name != "output_throughput" && name != "tpot" && name != "tpot_mean" || common.mixed(name) {
			continue // a baseline has none, or it means something else there
		}
		var relative [2][]stats.Launch
		for i, s := range sides {
			whole := s.whole()
			cell, base := s.row(cells[i], positions, common), whole.row(*bases[i], positions, common)
			relative[i] = perBaseline(cell.launches[name], base.launches[name])
		}
		if len(relative[0]) == 0 || len(relative[1]) == 0 {
			continue
		}
		l := c.compareLaunches(r, name, relative[0], relative[1], o)
		l.Metric, l.Unit, l.Note = name+relativeSuffix, "x", ""
		if positions.Unequal {
			l.Note = "over the positions that both sides and their baselines have"
		}
		l.A, l.B = launchesValue(relative[0]), launchesValue(relative[1])
		c.Lines = append(c.Lines, l)
	}
}

// perBaseline divides each launch by the baseline of its round.
func perBaseline(cell, base []stats.Launch) []stats.Launch {
	normal, _, ok := stats.Normalize(cell, base)
	if !ok {
		return nil
	}
	middle := stats.Median(valuesOf(base)) // which Normalize multiplied by
	for i := range normal {
		normal[i].Value /= middle
	}
	return normal
}

func launchesValue(ls []stats.Launch) SideValue {
	values := make([]float64, len(ls))
	for i, l := range ls {
		values[i] = l.Value
	}
	return sideValue(metricValue("x", stats.Summarize(values)))
}
