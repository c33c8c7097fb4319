package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"specrun/experiments/stats"
)

// objectiveLine is the line of a pair by which b is called faster or slower: that
// of the objective when it is a speed, else of the nearest speed that both sides
// have. Nil when there is none.
func (c *Comparison) objectiveLine(r *paired) *ComparisonLine {
	for _, name := range []string{c.Objective, "output_throughput", "tpot", "tpot_mean", "cycle_total", "gen_throughput"} {
		for i := range c.Lines {
			l := &c.Lines[i]
			if l.Cell == r.name && l.Metric == name && l.Ratio != nil && stats.IsSpeed(name) {
				return l
			}
		}
	}
	// What was asked for instead.
	for i := range c.Lines {
		if l := &c.Lines[i]; l.Cell == r.name && l.Ratio != nil && stats.IsSpeed(l.Metric) {
			return l
		}
	}
	return nil
}

// finding is what one cell says about b over a.
type finding struct {
	name   string
	line   *ComparisonLine
	slower float64 // time of b over that of a
}

// decide says in a sentence what came out, and which cells are regressions.
func (c *Comparison) decide(rows []*paired) {
	var slower, faster, unknown, same []finding
	for _, r := range rows {
		l := c.objectiveLine(r)
		if l == nil {
			continue
		}
		f := finding{r.name, l, slowness(l.Metric, *l.Ratio)}
		switch {
		case l.Separable == nil:
			unknown = append(unknown, f)
		case !*l.Separable:
			same = append(same, f)
		case f.slower > 1:
			slower = append(slower, f)
		default:
			faster = append(faster, f)
		}
		worse := *l.Ratio - 1
		if !lowestWins(l.Metric) {
			worse = 1 - *l.Ratio
		}
		if c.limit > 0 && l.Separable != nil && *l.Separable && worse > c.limit {
			c.Regressions = append(c.Regressions, fmt.Sprintf("%s %s %s", r.name, head(l.Metric), signed(*l.Ratio-1)))
		}
	}
	c.speeds = len(slower) + len(faster) + len(unknown) + len(same)
	var parts []string
	if len(slower) > 0 {
		parts = append(parts, c.sayFound(slower, "slower"))
	}
	if len(faster) > 0 {
		parts = append(parts, c.sayFound(faster, "faster"))
	}
	switch {
	case c.speeds == 0:
		c.Decision = c.withoutSpeed()
		return
	case len(parts) > 0:
		c.Decision = strings.Join(parts, "; ") + ": " + c.likelyText()
		return
	case len(unknown) > 0:
		m := most(unknown)
		c.Decision = fmt.Sprintf("not known whether b differs from a: %s %s in %s, but %s", head(m.line.Metric), signed(*m.line.Ratio-1), m.name, m.line.missing())
		return
	}
	least := 0.0
	for _, f := range same {
		if f.line.MinEffect != nil {
			least = math.Max(least, *f.line.MinEffect)
		}
	}
	c.Decision = "no difference found between a and b"
	if least > 0 {
		c.Decision += fmt.Sprintf("; one of %s would have been", percent(least))
	}
}

// missing says why a line has no verdict.
func (l *ComparisonLine) missing() string {
	if min(l.A.N, l.B.N) == 1 {
		return "a side has one launch, and launches differ (--rounds 3)"
	}
	return l.TooFew
}

// most is the finding that is furthest from no difference.
func most(fs []finding) finding {
	return slices.MaxFunc(fs, func(x, y finding) int {
		return cmp.Compare(math.Abs(math.Log(x.slower)), math.Abs(math.Log(y.slower)))
	})
}

// sayFound says in how many cells b is slower or faster and by how much time. A
// rate falls by a smaller fraction than the time that it stands for rises, so that
// it is told too, as the table and a limit have it.
func (c *Comparison) sayFound(fs []finding, word string) string {
	m := most(fs)
	by := strings.ReplaceAll(fmt.Sprintf("%.1f %%", 100*(math.Max(m.slower, 1/m.slower)-1)), ".0 %", " %")
	if p := 100 * (math.Max(m.slower, 1/m.slower) - 1); p >= 10 {
		by = fmt.Sprintf("%.0f %%", p)
	}
	rate := ""
	if !lowestWins(m.line.Metric) && *m.line.Ratio < 1 {
		rate = head(m.line.Metric) + " " + signed(*m.line.Ratio-1)
	}
	switch {
	case len(fs) > 1:
		return fmt.Sprintf("b is %s than a in %d of %d cells, by up to %s (%s)", word, len(fs), c.speeds, by, strings.TrimSuffix(m.name+", "+rate, ", "))
	case c.speeds > 1:
		by += " " + word + " than a in " + m.name
	default:
		by += " " + word + " than a"
	}
	if rate != "" {
		by += " (" + rate + ")"
	}
	return "b is " + by
}

// withoutSpeed says what came out where nothing that was compared is a speed.
func (c *Comparison) withoutSpeed() string {
	var found []string
	for _, l := range c.Lines {
		if l.Ratio != nil && l.Separable != nil && *l.Separable {
			found = append(found, fmt.Sprintf("%s %s in %s", head(l.Metric), signed(*l.Ratio-1), l.Cell))
		}
	}
	const shown = 3
	if len(found) > shown {
		found = append(found[:shown], fmt.Sprintf("and %d more", len(found)-shown))
	}
	if len(found) == 0 {
		return "no speed that could be compared, and no other difference found"
	}
	return "b differs from a: " + strings.Join(found, ", ") + "; that is no speed, so that neither is called faster"
}

// likelyText names the likeliest cause of a difference, or two that are about as
// likely.
func (c *Comparison) likelyText() string {
	ls := c.Diff.Likely()
	switch {
	case len(ls) == 0 && len(c.Diff.Unknown) > 0:
		return "the cause cannot be known, since one side has no " + strings.Join(c.Diff.Unknown, ", ")
	case len(ls) == 0:
		return fmt.Sprintf("no known cause among %s in provenance", plural(len(c.Diff.Lines), "difference"))
	}
	const about = 0.9
	text := "likely " + causeText(ls[0])
	if len(ls) > 1 && ls[1].Weight >= about*ls[0].Weight {
		text += " or " + causeText(ls[1])
	}
	return text
}

func causeText(l DifferenceLine) string {
	short := func(v *string) string {
		if v == nil {
			return "not set"
		}
		return firstLine(shortHashes(side(v)))
	}
	text := fmt.Sprintf("%s %s", plain(l.Group), plain(l.Key))
	if l.Group == "env" || l.Group == "flags" {
		text = plain(l.Key)
	}
	if a, b := short(l.A), short(l.B); len(a)+len(b) < 40 {
		text += fmt.Sprintf(" (%s -> %s)", a, b)
	}
	return text
}

// RegressionError says that cells are slower than a limit allows, by more than
// noise.
type RegressionError struct {
	Cells []string // with by how much
	Limit float64
}

func (e *RegressionError) Error() string {
	return fmt.Sprintf("regression beyond %s: %s", percent(e.Limit), strings.Join(e.Cells, "; "))
}

// Hint says what to do next.
func (e *RegressionError) Hint() string {
	return "the likeliest causes stand above; measure both again, interleaved, before you act on it"
}

// Regression is *RegressionError when a cell is slower than CompareOptions.Limit
// allows and separable from the reference; nil otherwise, also when that cannot
// be told after one launch. With a limit it is *NothingError where no cell has a
// speed that could be compared: such a comparison would never fail.
func (c *Comparison) Regression() error {
	if c.limit > 0 && c.speeds == 0 {
		return &NothingError{fmt.Sprintf("%s and %s have no speed that can be compared, so that a regression would not be seen", c.A.Ref, c.B.Ref),
			"--metric names a rate or a time that both have"}
	}
	if len(c.Regressions) == 0 {
		return nil
	}
	return &RegressionError{Cells: c.Regressions, Limit: c.limit}
}
