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

// speedLines are the lines of a pair by which b may be called slower: TOTAL, time
// per token, rates, and other speeds that were asked for; phases of a cycle only
// where there is nothing else.
func (c *Comparison) speedLines(r *paired) []*ComparisonLine {
	var out, phases []*ComparisonLine
	for i := range c.Lines {
		l := &c.Lines[i]
		switch {
		case l.Cell != r.name || l.Ratio == nil || *l.Ratio <= 0 || !stats.IsSpeed(l.Metric) || strings.HasSuffix(l.Metric, relativeSuffix):
		case strings.HasPrefix(l.Metric, "cycle_") && l.Metric != "cycle_total":
			phases = append(phases, l)
		default:
			out = append(out, l)
		}
	}
	if len(out) == 0 {
		return phases
	}
	return out
}

// finding is what one cell says about b over a.
type finding struct {
	name   string
	line   *ComparisonLine
	slower float64 // time of b over that of a
	beside bool    // the line is not that of the objective
}

// told is what the speed lines of a pair say together: the line that is worst
// among those where b is separably slower, and the one furthest the other way. A
// longer cycle that yields more tokens is not slower: TOTAL does not count against
// a separable time per token or rate. Where no line is separable, same or unknown
// is that of the objective.
func (c *Comparison) told(r *paired) (slower, faster, unknown, same *finding) {
	main := c.objectiveLine(r)
	if main == nil {
		return nil, nil, nil, nil
	}
	lines := c.speedLines(r)
	tokens := map[bool]bool{} // by whether they say slower
	for _, l := range lines {
		if l.separable() && !strings.HasPrefix(l.Metric, "cycle_") {
			tokens[slowness(l.Metric, *l.Ratio) > 1] = true
		}
	}
	for _, l := range lines {
		f := &finding{r.name, l, slowness(l.Metric, *l.Ratio), l != main}
		isSlower := f.slower > 1
		switch {
		case !l.separable():
		case strings.HasPrefix(l.Metric, "cycle_") && tokens[!isSlower]:
		case isSlower && (slower == nil || f.further(slower)):
			slower = f
		case !isSlower && (faster == nil || f.further(faster)):
			faster = f
		}
	}
	f := &finding{r.name, main, slowness(main.Metric, *main.Ratio), false}
	switch {
	case slower != nil || faster != nil:
	case main.Separable == nil:
		unknown = f
	default:
		same = f
	}
	return slower, faster, unknown, same
}

// further says that a finding is further from no difference than another one of
// its pair; where they say the same, that of the objective is.
func (f *finding) further(than *finding) bool {
	const same = 0.001
	x, y := math.Abs(math.Log(f.slower)), math.Abs(math.Log(than.slower))
	if math.Abs(x-y) <= same {
		return !f.beside
	}
	return x > y
}

func (l *ComparisonLine) separable() bool { return l.Separable != nil && *l.Separable }

// decide says in a sentence what came out, and which cells are regressions: the
// sentence and the limit have the same number, how much more time b takes.
func (c *Comparison) decide(rows []*paired) {
	var slower, faster, unknown, same []finding
	add := func(to *[]finding, f *finding) {
		if f != nil {
			*to = append(*to, *f)
		}
	}
	c.speeds = 0
	for _, r := range rows {
		if c.objectiveLine(r) == nil {
			continue
		}
		c.speeds++
		s, f, u, e := c.told(r)
		add(&slower, s)
		add(&faster, f)
		add(&unknown, u)
		add(&same, e)
		if c.limit > 0 && s != nil && s.slower-1 > c.limit {
			text := fmt.Sprintf("%s %s %s", r.name, head(s.line.Metric), signed(*s.line.Ratio-1))
			if !lowestWins(s.line.Metric) {
				text += fmt.Sprintf(" (%s slower)", percent(s.slower-1))
			}
			c.Regressions = append(c.Regressions, text)
		}
	}
	c.Decision = c.say(slower, faster, unknown, same)
	if len(c.Missing) > 0 {
		c.Decision = strings.Join(c.Missing, "; ") + "; " + c.Decision
	}
}

// say is the sentence for what was found.
func (c *Comparison) say(slower, faster, unknown, same []finding) string {
	var parts []string
	if len(slower) > 0 {
		parts = append(parts, c.sayFound(slower, "slower"))
	}
	if len(faster) > 0 {
		parts = append(parts, c.sayFound(faster, "faster"))
	}
	switch {
	case c.speeds == 0:
		return c.withoutSpeed()
	case len(parts) > 0:
		return strings.Join(parts, "; ") + ": " + c.likelyText()
	case len(unknown) > 0:
		m := most(unknown)
		return fmt.Sprintf("not known whether b differs from a: %s %s in %s, but %s", head(m.line.Metric), signed(*m.line.Ratio-1), m.name, m.line.missing())
	}
	least := 0.0
	for _, f := range same {
		if f.line.MinEffect != nil {
			least = math.Max(least, *f.line.MinEffect)
		}
	}
	text, others := "no difference found between a and b", c.otherwise()
	if len(others) > 0 {
		text = "no difference in speed found between a and b, but " + strings.Join(others, ", ")
	}
	if least > 0 {
		text += fmt.Sprintf("; one of %s would have been found 8 times in 10", percent(least))
	}
	return text
}

// otherwise are the separable differences of what is no speed, a few of them.
func (c *Comparison) otherwise() []string {
	var found []string
	for _, l := range c.Lines {
		if l.Ratio != nil && l.separable() && !stats.IsSpeed(l.Metric) && !strings.HasSuffix(l.Metric, relativeSuffix) {
			found = append(found, fmt.Sprintf("%s %s in %s", head(l.Metric), signed(*l.Ratio-1), l.Cell))
		}
	}
	const shown = 3
	if len(found) > shown {
		found = append(found[:shown], fmt.Sprintf("and %d more", len(found)-shown))
	}
	return found
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
	if m.beside || !lowestWins(m.line.Metric) && *m.line.Ratio < 1 {
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
	found := c.otherwise()
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
	case len(c.Diff.Lines) == 0:
		return "nothing in provenance differs that could be the cause"
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
// speed that could be compared: such a comparison would never fail. A cell that b
// should have and has no result of is *MissingError then.
func (c *Comparison) Regression() error {
	if c.limit > 0 && c.speeds == 0 {
		return &NothingError{fmt.Sprintf("%s and %s have no speed that can be compared, so that a regression would not be seen", c.A.Ref, c.B.Ref),
			"--metric names a rate or a time that both have"}
	}
	switch {
	case c.limit > 0 && len(c.Regressions) == 0 && len(c.Missing) > 0:
		return &MissingError{Cells: c.Missing}
	case len(c.Regressions) == 0:
		return nil
	}
	return &RegressionError{Cells: slices.Concat(c.Regressions, c.Missing), Limit: c.limit}
}
