package metrics

import (
	"fmt"
	"math"

	"specrun/experiments/record"
)

// SpecLine is one interval of vLLM's speculation, as its log has it: what was
// drafted and accepted since the line before it of the same engine.
type SpecLine struct {
	Offset, End int64   // bytes
	At          float64 // seconds, as DecodeLine; 0 = none
	Accepted    float64 // draft tokens
	Drafted     float64
	AcceptLen   float64   // printed, with the bonus token; NaN when there was no draft
	Positions   []float64 // acceptance of each position of a draft, 0 to 1
}

// drafts estimates how many drafts the interval had, of steps tokens each. Drafts
// may be shorter, so the printed acceptance of the positions, which is per draft,
// goes first.
func (l *SpecLine) drafts(steps int) float64 {
	sum := 0.0
	for _, p := range l.Positions {
		sum += p
	}
	switch {
	case sum > 0 && l.Accepted > 0:
		return l.Accepted / sum
	case l.AcceptLen > 1 && l.Accepted > 0:
		return l.Accepted / (l.AcceptLen - 1)
	case l.Drafted == 0:
		return 0
	case steps > 0:
		return l.Drafted / float64(steps)
	}
	return math.NaN()
}

// Speculated is what the lines of a window sum up to.
type Speculated struct {
	Lines             int
	Accepted, Drafted float64 // tokens
	Drafts            float64 // NaN unknown
	Metrics           []record.Metric
	// Notes say why a number is missing that the lines seem to hold.
	Notes []string
}

// SummariseSpeculation sums the lines wholly inside a window: their means are
// never averaged. Steps is the longest draft, 0 when it is not known. The first
// line stands for the time since the one before it, which may have begun before
// the window; the last activity of a window has no line when the server did not
// print it before the window ended.
func SummariseSpeculation(lines []SpecLine, w Window, steps int) Speculated {
	var s Speculated
	var positions []float64
	uncounted := 0
	for i := range lines {
		l := &lines[i]
		if !w.holds(l.Offset, l.End) {
			continue
		}
		n := l.drafts(steps)
		if math.IsNaN(n) {
			uncounted++
		}
		s.Lines++
		s.Accepted, s.Drafted, s.Drafts = s.Accepted+l.Accepted, s.Drafted+l.Drafted, s.Drafts+n
		for at, p := range l.Positions {
			for len(positions) <= at {
				positions = append(positions, 0)
			}
			positions[at] += p * n
		}
	}
	if s.Lines == 0 {
		return s
	}
	if uncounted > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("the server's log gives no accept_len: in %d of %d intervals nothing was accepted, and how long a draft is, which would tell how many there were, is not known", uncounted, s.Lines))
	}
	s.Metrics = SpeculationMetrics(sourceServer, s.Lines, s.Drafts, s.Drafted, s.Accepted, positions)
	return s
}

// SpeculationMetrics are the numbers of speculation out of counts, whoever
// counted: n says of how many readings, positions are the accepted tokens of each
// position of a draft. accept_len counts the bonus token and is per draft: a step
// that had nothing to draft from is none.
func SpeculationMetrics(source string, n int, drafts, drafted, accepted float64, positions []float64) []record.Metric {
	var out []record.Metric
	put := func(name, unit string, v float64) {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			out = append(out, record.Metric{Name: name, Unit: unit, Value: v, N: n, Source: source})
		}
	}
	put("accepted_tokens", "tokens", accepted)
	put("draft_tokens", "tokens", drafted)
	if drafts > 0 {
		put("accept_len", "tokens/step", 1+accepted/drafts)
		for i, p := range positions {
			put(fmt.Sprintf("accept_pos_%d", i+1), "ratio", p/drafts)
		}
	}
	if drafted > 0 {
		put("draft_acceptance_rate", "percent", 100*accepted/drafted)
	}
	return out
}
