package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"specrun/experiments/record"
	"specrun/experiments/stats"
)

// sayPositions names unequal output lengths: time per cycle and token rise with
// the context, so that the shorter outputs look faster for that alone.
func (c *Comparison) sayPositions(rows []*paired) {
	const felt = 0.02
	said := map[string][]string{} // cells, by what is said of them
	var order []string
	say := func(cell, text string) {
		if said[text] == nil {
			order = append(order, text)
		}
		said[text] = append(said[text], cell)
	}
	for _, r := range rows {
		if r.tokA == 0 || r.tokB == 0 {
			continue
		}
		change := r.tokB/r.tokA - 1
		length := fmt.Sprintf("outputs of b are %s (%.0f of %.0f tokens a request)", howLong(change), r.tokB, r.tokA)
		switch {
		case len(r.positions.Tokens) == 0 && math.Abs(change) > felt:
			c.flag(fmt.Sprintf("%s: %s and positions are not known: the numbers may differ for the length alone", r.name, length))
		case !r.positions.Unequal:
		case math.Abs(change) <= felt:
			say(r.name, "some outputs are of unequal length: compared over the positions that all runs have")
		default:
			sum := 0
			for _, n := range r.positions.Tokens {
				sum += n + 1
			}
			say(r.name, fmt.Sprintf("%s: compared over the first %.0f", length, float64(sum)/float64(max(1, len(r.positions.Tokens)))))
		}
	}
	for _, text := range order {
		if _, ok := c.lineNamed("accept_len"); ok {
			c.note("%s: %s (accept length: over all)", cellsText(said[text]), text)
		} else {
			c.note("%s: %s", cellsText(said[text]), text)
		}
	}
}

// lineNamed finds the first line of a metric.
func (c *Comparison) lineNamed(metric string) (*ComparisonLine, bool) {
	for i := range c.Lines {
		if c.Lines[i].Metric == metric {
			return &c.Lines[i], true
		}
	}
	return nil, false
}

func howLong(change float64) string {
	switch {
	case math.Abs(change+0.5) < 0.02:
		return "half as long"
	case math.Abs(change-1) < 0.02:
		return "twice as long"
	case change < 0:
		return strings.ReplaceAll(percent(-change), ".0 %", " %") + " shorter"
	}
	return strings.ReplaceAll(percent(change), ".0 %", " %") + " longer"
}

// sayBaseline tells whether the host or the engine changed, or only speculation:
// the baselines of both sides know.
func (c *Comparison) sayBaseline(rows []*paired, o CompareOptions) {
	if c.A.View.Sweep.ID == c.B.View.Sweep.ID {
		return
	}
	for _, r := range rows {
		if r.a.Baseline || r.b.Baseline {
			continue
		}
		x, y := c.A.baseline(r.a), c.B.baseline(r.b)
		if x == nil || y == nil {
			continue
		}
		wholeA, wholeB := c.A.whole(), c.B.whole()
		samples := [][]record.Sample{}
		for _, d := range slices.Concat(wholeA.done(*x), wholeB.done(*y)) {
			samples = append(samples, d.Samples)
		}
		p := stats.CommonPositions(samples...)
		common := commonSources(wholeA.done(*x), wholeB.done(*y))
		rowA, rowB := wholeA.row(*x, p, common), wholeB.row(*y, p, common)
		for _, name := range []string{"tpot", "tpot_mean", "output_throughput"} {
			a, b := rowA.launches[name], rowB.launches[name]
			if len(a) == 0 || len(b) == 0 {
				continue
			}
			v := stats.CompareWith(b, a, stats.Options{Noise: r.remembered(name, o)})
			c.note("%s", c.baselineText(r, name, v))
			return // of one load: others would say the same
		}
	}
}

// baselineText says what became of the baseline.
func (c *Comparison) baselineText(r *paired, metric string, v stats.Comparison) string {
	slower := slowness(metric, v.Ratio)
	moved, word := signed(slower-1)+" time per token", "slower"
	if slower < 1 {
		word = "faster"
	}
	too := ""
	if c.changed(r) {
		if l := c.objectiveLine(r); (slowness(l.Metric, *l.Ratio) > 1) == (slower > 1) {
			too = " too"
		}
	}
	switch {
	case v.Separable == nil:
		return "baseline: " + moved + " ?: not known whether it moved, since " + v.TooFew
	case !*v.Separable && c.changed(r):
		return "baseline the same (" + moved + " ~): what changed concerns speculation"
	case !*v.Separable:
		return "baseline the same (" + moved + " ~)"
	}
	return fmt.Sprintf("baseline %s%s: %s: the host or the engine changed, not only speculation", word, too, moved)
}

// changed says that a pair is separably faster or slower.
func (c *Comparison) changed(r *paired) bool {
	l := c.objectiveLine(r)
	return l != nil && l.Separable != nil && *l.Separable
}

// slowness turns a ratio of any speed into how much more time b takes.
func slowness(metric string, ratio float64) float64 {
	if lowestWins(metric) {
		return ratio
	}
	return 1 / ratio
}

// signed is a change in percent; one that rounds to nothing has no sign.
func signed(fraction float64) string {
	const invisible = 0.0005
	switch {
	case math.Abs(fraction) < invisible:
		return "0.0 %"
	case fraction < 0:
		return "-" + percent(-fraction)
	}
	return "+" + percent(fraction)
}

// sayGap splits the gap between what a profiler claims and what was measured
// without it, where one side has a profiler and the other has none.
func (c *Comparison) sayGap(rows []*paired, o CompareOptions) {
	if o.Gap == nil {
		return
	}
	for _, r := range rows {
		if r.a.Baseline || r.b.Baseline || r.shapesDiffer {
			continue
		}
		a, knownA := profilers(r.left)
		b, knownB := profilers(r.right)
		switch {
		case !knownA || !knownB:
		case len(a) > 0 && len(b) == 0:
			c.Gap = o.Gap(medianMetrics(r.left), medianMetrics(r.right))
		case len(b) > 0 && len(a) == 0:
			c.Gap = o.Gap(medianMetrics(r.right), medianMetrics(r.left))
		}
		if c.Gap != nil {
			return
		}
	}
}

// medianMetrics gives the median of each metric over runs.
func medianMetrics(runs []record.RunData) []record.Metric {
	type key struct{ name, source string }
	at := map[key]int{}
	values := map[key][]float64{}
	var out []record.Metric
	for _, d := range runs {
		for _, m := range d.Metrics {
			k := key{m.Name, m.Source}
			if _, ok := at[k]; !ok {
				at[k] = len(out)
				out = append(out, m)
			}
			values[k] = append(values[k], m.Value)
		}
	}
	for k, i := range at {
		out[i].Value = stats.Median(values[k])
	}
	return out
}
