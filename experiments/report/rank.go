package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"specrun/experiments/record"
	"specrun/experiments/stats"
)

// compared are the metrics that a cell and the baseline both have and that mean
// the same in both: a baseline has no cycle, and its accept length is 1 by
// definition.
var compared = [...]string{"output_throughput", "total_throughput", "request_throughput", "tpot", "tpot_mean", "tpot_median", "ttft_mean", "ttft_median"}

// compare sets the ratios to the baseline, each over the positions that the cell
// and its baseline both have.
func (s *Summary) compare() {
	ps, rows := map[string][]float64{}, map[string][]*CellRow{} // by metric
	for i := range s.Cells {
		row := &s.Cells[i]
		base := s.baselineOf(row)
		if base == nil || row.Baseline {
			continue
		}
		p := s.common(row, base)
		mine, theirs := s.over(row, p), s.over(base, p)
		for _, name := range compared {
			a, b := mine.launches[name], theirs.launches[name]
			if len(a) == 0 || len(b) == 0 {
				continue
			}
			c := s.versus(row, a, b, name)
			if math.IsNaN(c.Ratio) {
				continue
			}
			if row.VsBaseline == nil {
				row.VsBaseline, row.Doubt = map[string]float64{}, map[string]Doubt{}
			}
			row.VsBaseline[name] = c.Ratio
			row.Doubt[name] = Doubt{Lo: finite(c.Lo), Hi: finite(c.Hi), N: min(c.NA, c.NB), Paired: c.Paired,
				Separable: c.Separable, P: finite(c.P), MinEffect: finite(c.MinEffect), Method: c.Method, TooFew: c.TooFew}
			ps[name], rows[name] = append(ps[name], c.P), append(rows[name], row)
		}
	}
	for name, all := range ps {
		adjusted := stats.Holm(all)
		judged := 0
		for i, row := range rows[name] {
			d := row.Doubt[name]
			d.PHolm = finite(adjusted[i])
			if d.Separable != nil && d.PHolm != nil {
				separable := *d.PHolm < 1-stats.Confidence
				d.Separable = &separable
				judged++
			}
			row.Doubt[name] = d
		}
		if name == s.headline() {
			s.holm = judged
		}
	}
}

// versus compares launches of a row with others of the sweep.
func (s *Summary) versus(row *CellRow, a, b []stats.Launch, metric string) stats.Comparison {
	// A quotable row came after the rounds: it shares their numbers, not their time.
	c := stats.CompareWith(a, b, stats.Options{Interleaved: s.plan.interleaved() && !row.Quotable, Noise: s.remembered(row, metric)})
	if c.TooFew != "" {
		why := c.TooFew
		if n := s.remembered(row, metric); n != nil && min(len(a), len(b)) == 1 {
			if least := n.MinEffect(plannable); !math.IsNaN(least) {
				why += fmt.Sprintf("; --rounds %d would find %s", plannable, percent(least))
			}
		} else if min(len(a), len(b)) == 1 {
			why += fmt.Sprintf("; --rounds %d", plannable)
		}
		if !slices.Contains(s.tooFew, why) && (metric == s.headline() || metric == s.Objective) {
			s.tooFew = append(s.tooFew, why)
		}
	}
	return c
}

// plannable is how many rounds are advised where one launch says nothing.
const plannable = 3

// remembered is the noise between launches on the host of a row, nil when there is
// no memory.
func (s *Summary) remembered(row *CellRow, metric string) *stats.Noise {
	if s.options.Noise == nil {
		return nil
	}
	for _, r := range s.runs[row.cell.ID] {
		if r.State == record.RunDone {
			return s.options.Noise(r.Host, metric)
		}
	}
	return nil
}

// baselineOf finds the baseline that a cell compares with: one has as parameters
// only those of the benchmark, and these must be equal.
func (s *Summary) baselineOf(row *CellRow) *CellRow {
	for i := range s.Cells {
		base := &s.Cells[i]
		if !base.Baseline {
			continue
		}
		same := true
		for name, v := range base.Params {
			if other, ok := row.Params[name]; !ok || paramText(other) != paramText(v) {
				same = false
			}
		}
		if same {
			return base
		}
	}
	return nil
}

// lowestWins says which way an objective goes.
func lowestWins(metric string) bool {
	for _, prefix := range []string{"cycle_", "tpot", "ttft", "itl", "request_latency", "e2e"} {
		if strings.HasPrefix(metric, prefix) {
			return true
		}
	}
	return false
}

// rank finds the best row and how sure it is. Ties go to the earlier cell.
func (s *Summary) rank() {
	var order []int
	var failed []string
	var rows []*CellRow
	for i := range s.Cells {
		row := &s.Cells[i]
		_, measured := row.Metrics[s.Objective]
		switch {
		case row.Quotable:
		case row.Failed > 0:
			failed = append(failed, row.name)
		case measured:
			order, rows = append(order, i), append(rows, row)
		}
	}
	if len(order) == 0 {
		s.Verdict = fmt.Sprintf("no best cell: none without a failed run has %s", s.Objective)
		return
	}
	if strings.HasPrefix(s.Objective, "cycle_") {
		shapes := map[string]bool{}
		for _, i := range order {
			shapes[steps(s.Cells[i].cell, s.runs[s.Cells[i].cell.ID], s.data)] = true
		}
		if len(shapes) > 1 {
			s.Verdict = fmt.Sprintf("no best cell: %s does not rank cells of different steps, since a longer cycle may yield more tokens; use output_throughput", s.Objective)
			return
		}
	}
	caveat := s.equalize(rows)
	slices.SortStableFunc(order, func(a, b int) int {
		x, _ := s.value(&s.Cells[a])
		y, _ := s.value(&s.Cells[b])
		if lowestWins(s.Objective) {
			return cmp.Compare(x.Median, y.Median)
		}
		return cmp.Compare(y.Median, x.Median)
	})
	launches := func(i int) []stats.Launch { return s.Cells[i].ranked().launches[s.Objective] }
	s.Best, s.ranked = order[0], len(order)
	best := &s.Cells[s.Best]
	best.Best = true
	for n, i := range order {
		if n < len(order)-1 {
			s.Cells[i].SeparableFromNext = s.versus(best, launches(i), launches(order[n+1]), s.Objective).Separable
		}
		if n > 0 {
			s.Cells[i].fromBest = s.versus(best, launches(s.Best), launches(i), s.Objective)
		}
	}
	s.Verdict = s.verdict(order, caveat)
	if len(failed) > 0 {
		s.Verdict += fmt.Sprintf(" (not ranked for failed runs: %s)", strings.Join(failed, ", "))
	}
}

// verdict says in a sentence which cell is best, how sure that is, and what
// speaks against its numbers.
func (s *Summary) verdict(order []int, caveat string) string {
	best := &s.Cells[order[0]]
	m, _ := s.value(best)
	var b strings.Builder
	others := slices.ContainsFunc(s.Cells, func(r CellRow) bool { return !r.Baseline && r.Runs > 0 })
	if best.Baseline && others {
		b.WriteString("speculation does not pay: ")
	}
	if but := s.doubts(best, caveat); but != "" {
		fmt.Fprintf(&b, "best, but %s: %s with %s %s", but, best.name, number(m.Median, m.Unit), m.Unit)
	} else {
		fmt.Fprintf(&b, "best is %s with %s %s", best.name, number(m.Median, m.Unit), m.Unit)
	}
	if s.Objective != compared[0] {
		fmt.Fprintf(&b, " %s", s.Objective)
	}
	if best.equal != nil {
		b.WriteString(" over equal positions")
	}
	if len(order) == 1 {
		return b.String() + ", and no other cell was ranked"
	}
	next := &s.Cells[order[1]]
	nm, _ := s.value(next)
	fmt.Fprintf(&b, "; next is %s with %s", next.name, number(nm.Median, nm.Unit))
	c := next.fromBest
	apart := effect(c.Ratio) + " apart"
	const visible = 0.01
	if math.Abs(math.Abs(math.Log(c.Ratio))-math.Abs(math.Log(m.Median/nm.Median))) > visible { // of means, beside medians
		apart += " on average"
	}
	switch {
	case c.Separable == nil:
		b.WriteString(", not known to be worse after one launch (--rounds 3)")
	case *c.Separable:
		fmt.Fprintf(&b, ", separable: %s; smallest effect found 8 times in 10: %s", apart, percent(c.MinEffect))
	default:
		fmt.Fprintf(&b, ", not separable (~): %s; smallest effect found 8 times in 10: %s", apart, percent(c.MinEffect))
	}
	return b.String()
}

// doubting are the labels that say that a number itself may be wrong, the gravest
// first; others only say what it is a number of.
var doubting = [...]string{"disagree", "output-changed", "config-mismatch", "patch-unverified", "partial", "noisy", "throttled",
	"shared-host", "jit", "cache-warm", "mixed-batch", "short"}

// doubts says what speaks against the numbers of a row, "" when nothing does.
func (s *Summary) doubts(row *CellRow, caveat string) string {
	var parts []string
	for _, name := range doubting {
		if slices.Contains(row.Labels, name) {
			parts = append(parts, name)
		}
	}
	if caveat != "" {
		parts = append(parts, caveat)
	}
	if len(parts) == 0 && row.failedCheck != "" {
		return "check " + row.failedCheck + " failed"
	}
	return strings.Join(parts, " and ")
}

// steps gives the speculative steps of a cell as text: cycles of equal steps do
// equal work. It is what the server was started with, else the parameter.
func steps(c record.Cell, runs []record.Run, data map[string]record.RunData) string {
	for _, r := range runs {
		for _, f := range data[r.ID].Provenance {
			if f.Group == "flags" && strings.HasSuffix(f.Key, "speculative-num-steps") {
				return f.Value
			}
		}
	}
	if v, ok := c.Params["steps"]; ok {
		return paramText(v)
	}
	return ""
}

// effect is how far a ratio is from 1, whichever side is the larger.
func effect(ratio float64) string { return percent(math.Max(ratio, 1/ratio) - 1) }

func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
