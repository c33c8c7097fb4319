package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"specrun/experiments/stats"
)

// verdict says in a sentence which cell is best, how sure that is, and what
// speaks against its numbers.
func (s *Summary) verdict(order []int, caveat string) string {
	best := &s.Cells[order[0]]
	m, _ := s.value(best)
	var b strings.Builder
	others := slices.ContainsFunc(s.Cells, func(r CellRow) bool { return !r.Baseline && r.Runs > 0 })
	if best.Baseline && others {
		b.WriteString(s.payText(order))
	}
	but := s.doubts(best, caveat)
	if text := s.others(best, order); text != "" {
		but = strings.TrimPrefix(but+" and "+text, " and ")
	}
	if but != "" {
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
	apart := effect(m.Median/nm.Median) + " apart" // as the columns show
	if text := beside(c); text != "" {
		apart += " (" + text + ")"
	}
	switch {
	case c.Separable == nil:
		if min(c.NA, c.NB) == 1 {
			b.WriteString(", not known to be worse after one launch (--rounds 3)")
		} else {
			b.WriteString(", not known to be worse: " + c.TooFew)
		}
	case *c.Separable:
		fmt.Fprintf(&b, ", separable: %s; smallest effect found 8 times in 10: %s", apart, percent(c.MinEffect))
	default:
		fmt.Fprintf(&b, ", not separable (~): %s; smallest effect found 8 times in 10: %s", apart, percent(c.MinEffect))
	}
	return b.String()
}

// payText begins the sentence where the baseline is best: that speculation does
// not pay is claimed only where no cell that speculates might be as good.
func (s *Summary) payText(order []int) string {
	rivals := 0
	for _, i := range order[1:] {
		row := &s.Cells[i]
		if row.Baseline {
			continue
		}
		if rivals++; row.fromBest.Separable == nil || !*row.fromBest.Separable {
			return "speculation is not shown to pay: "
		}
	}
	if rivals == 0 {
		return "speculation is not shown to pay: " // no such cell could be ranked
	}
	return "speculation does not pay: "
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
	if !s.plan.interleaved() && slices.Contains(row.Labels, driftLabel) { // else rounds are compared
		parts = append(parts, driftLabel)
	}
	if len(s.retaken(row)) > 0 {
		parts = append(parts, "retried later")
	}
	if caveat != "" {
		parts = append(parts, caveat)
	}
	if len(parts) == 0 && row.failedCheck != "" {
		return "check " + row.failedCheck + " failed"
	}
	return strings.Join(parts, " and ")
}

// holds says that a comparison found a difference.
func holds(separable *bool) bool { return separable != nil && *separable }

// beside says what the means tell where that is not what the medians do: they are
// judged, since only they have an interval. "" where both tell the same.
func beside(c stats.Comparison) string {
	switch {
	case c.Contrary():
		return "by medians; launches on average the other way"
	case math.IsNaN(c.Lo) || math.IsNaN(c.Hi):
		return ""
	}
	const share = 0.1 // of the interval
	if math.Abs(math.Log(c.Mean/c.Ratio)) > share*math.Log(c.Hi/c.Lo) && percent(c.Mean-1) != percent(c.Ratio-1) {
		return effect(c.Mean) + " on average over launches"
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
