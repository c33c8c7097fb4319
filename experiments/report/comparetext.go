package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// UnmatchedLine is the JSON line of type unmatched: a cell that one side has.
type UnmatchedLine struct {
	Cell string `json:"cell"`
	Side string `json:"side"` // a or b
}

// DecisionLine is the JSON line of type decision.
type DecisionLine struct {
	Text        string   `json:"text"`
	Flags       []string `json:"flags"`       // what makes the two sides hard to compare
	Notes       []string `json:"notes"`       // about positions and the baseline
	Regressions []string `json:"regressions"` // cells beyond --fail-on-regression
	Missing     []string `json:"missing"`     // cells that b should have and has no result of
}

// Unmatched are the cells that only one side has.
func (c *Comparison) Unmatched() []UnmatchedLine {
	var out []UnmatchedLine
	for _, name := range c.OnlyA {
		out = append(out, UnmatchedLine{name, "a"})
	}
	for _, name := range c.OnlyB {
		out = append(out, UnmatchedLine{name, "b"})
	}
	return out
}

// DecisionLine gives the last line; empty lists are [], not null.
func (c *Comparison) DecisionLine() DecisionLine {
	list := func(v []string) []string { return append([]string{}, v...) }
	return DecisionLine{c.Decision, list(c.Flags), list(c.Notes), list(c.Regressions), list(c.Missing)}
}

// WriteText writes a comparison: what was compared, what makes that doubtful, the
// numbers, what differs, and as last line the decision.
func (c *Comparison) WriteText(w io.Writer, o Options) error {
	var b strings.Builder
	sides := grid{}
	sides.add(c.A.head("a")...)
	sides.add(c.B.head("b")...)
	if err := sides.write(&b); err != nil {
		return err
	}
	wrapped := func(prefix, text, indent string) {
		for _, line := range Wrap(prefix+plain(text), o.noteWidth(), indent) {
			b.WriteString(line + "\n")
		}
	}
	if len(c.Flags) > 0 {
		b.WriteString("\n")
		for _, f := range c.Flags {
			wrapped("! ", f, "  ")
		}
	}
	b.WriteString("\n")
	marks := map[string]bool{}
	if err := c.writeLines(&b, marks, o.All); err != nil {
		return err
	}
	b.WriteString("\n")
	note := func(format string, args ...any) { wrapped("  ", fmt.Sprintf(format, args...), "     ") }
	for _, text := range c.Notes {
		note("%s", text)
	}
	if c.Gap != nil {
		note("gap: %s", c.Gap.Explanation)
	}
	c.footnotes(note, marks, o)
	c.Diff.write(&b, o.All)
	fmt.Fprintf(&b, "\n%s\n", o.fit(plain(c.Decision)))
	_, err := io.WriteString(w, b.String())
	return err
}

// writeLines writes the table, the name of a cell once.
// With all set, the p-value by ranks stands beside the other, where there is one.
func (c *Comparison) writeLines(w io.Writer, marks map[string]bool, all bool) error {
	g := grid{right: []bool{false, false, true, true, true, false, true, true, true, true}}
	titles := []string{"cell", "", "a", "b", "b/a", "", "p", "n", "could find"}
	byRank := all && slices.ContainsFunc(c.Lines, func(l ComparisonLine) bool { return l.RankP != nil })
	if byRank {
		titles = append(titles, "p by ranks")
	}
	g.add(titles...)
	was := ""
	for _, l := range c.Lines {
		name := l.Cell
		if name == was {
			name = ""
		}
		was = l.Cell
		metric := head(l.Metric)
		if m, ok := strings.CutSuffix(l.Metric, relativeSuffix); ok {
			metric = head(m) + " / baseline"
		}
		if l.Unit != "" && l.Unit != "x" && l.Unit != "tokens/step" && !strings.HasSuffix(metric, l.Unit) {
			metric += " " + l.Unit
		}
		cells := []string{name, plain(metric), l.A.text(l.Unit, marks), l.B.text(l.Unit, marks), l.change(marks), l.interval(),
			pText(l.PHolm), count(l.A.N, l.B.N), effectText(l.MinEffect)}
		if byRank {
			cells = append(cells, pText(l.RankP))
		}
		g.add(cells...)
	}
	return g.write(w)
}

func count(a, b int) string {
	if a == b {
		return fmt.Sprint(a)
	}
	return fmt.Sprintf("%d/%d", a, b)
}

func effectText(v *float64) string {
	if v == nil {
		return ""
	}
	return percent(*v)
}

func pText(p *float64) string {
	switch {
	case p == nil:
		return ""
	case *p < 0.001:
		return "<0.001"
	}
	return fmt.Sprintf("%.3f", *p)
}

// text is a number with its interval.
func (v SideValue) text(unit string, marks map[string]bool) string {
	if v.Median == nil {
		return "-"
	}
	t := number(*v.Median, unit)
	if unit == "x" {
		t = fmt.Sprintf("%.3f", *v.Median)
	}
	if v.Lo == nil || v.Hi == nil || *v.Median == 0 {
		return t
	}
	marks["±"] = true
	half := math.Max(*v.Hi / *v.Median - 1, 1 - *v.Lo / *v.Median)
	return t + " ±" + strings.ReplaceAll(percent(half), " ", "")
}

// change is b over a in percent, with the mark of its doubt.
func (l *ComparisonLine) change(marks map[string]bool) string {
	if l.Ratio == nil {
		return "-"
	}
	return signed(*l.Ratio-1) + doubtful(l.Separable, marks)
}

func (l *ComparisonLine) interval() string {
	if l.Ratio == nil || l.Lo == nil || l.Hi == nil {
		return ""
	}
	bare := func(v float64) string { return strings.TrimSuffix(signed(v-1), " %") }
	return fmt.Sprintf("(%s..%s)", bare(*l.Lo), bare(*l.Hi))
}

// footnotes explain what the table uses, and nothing else.
func (c *Comparison) footnotes(note func(string, ...any), marks map[string]bool, o Options) {
	if marks["±"] {
		note("b/a: of the medians over launches, as shown; ± and (..): 95 %% intervals, (..) and p of the means")
	}
	if marks["~"] {
		note("~  not separable: the difference may be noise")
	}
	if marks["?"] {
		note("?  unknown: %s%s", c.tooFew(), c.advice())
	}
	var refused []string
	for _, l := range c.Lines {
		if why := cmp.Or(l.Note, l.TooFew); l.Ratio == nil && why != "" && !slices.Contains(refused, why) {
			refused = append(refused, why)
			note("-  %s", why)
		}
	}
	methods, tested := []string{}, false
	for _, l := range c.Lines {
		if l.Method != "" && !slices.Contains(methods, l.Method) {
			methods = append(methods, l.Method)
		}
		tested = tested || l.MinEffect != nil
	}
	if len(methods) > 0 {
		text := "p  by " + methods[0]
		if len(methods) > 1 {
			text += ", of some lines otherwise (--json has each)"
		}
		if least, most := c.judged(); most > 1 {
			cells := fmt.Sprint(most)
			if least < most {
				cells = fmt.Sprintf("%d to %d", least, most)
			}
			text += fmt.Sprintf("; adjusted for %s cells (Holm)", cells)
		}
		note("%s", text)
	}
	if o.All && slices.ContainsFunc(c.Lines, func(l ComparisonLine) bool { return l.RankP != nil }) {
		note("p by ranks: of each line alone, from 6 launches on; far from p where one launch is wild")
	}
	if tested {
		note("could find: the smallest effect that would have been found 8 times in 10")
	}
	for _, side := range []struct {
		letter string
		labels func(ComparisonLine) []string
	}{{"a", func(l ComparisonLine) []string { return l.LabelsA }}, {"b", func(l ComparisonLine) []string { return l.LabelsB }}} {
		var all []string
		for _, l := range c.Lines {
			all = append(all, side.labels(l)...)
		}
		slices.Sort(all)
		if all = slices.Compact(all); len(all) > 0 {
			note("labels of %s: %s", side.letter, strings.Join(all, ", "))
		}
	}
	if len(c.OnlyA) > 0 {
		note("only in a: %s", cellsText(c.OnlyA))
	}
	if len(c.OnlyB) > 0 {
		note("only in b: %s", cellsText(c.OnlyB))
	}
}

// judged is how many cells are judged together, of the metrics the one with the
// fewest and the one with the most: a baseline has no TOTAL.
func (c *Comparison) judged() (least, most int) {
	count := map[string]int{}
	for _, l := range c.Lines {
		if l.P != nil {
			count[l.Metric]++
		}
	}
	for _, n := range count {
		if least == 0 || n < least {
			least = n
		}
		most = max(most, n)
	}
	return least, most
}

// tooFew is the reason why something is unknown.
func (c *Comparison) tooFew() string {
	for _, l := range c.Lines {
		if l.Ratio != nil && l.TooFew != "" {
			return l.TooFew
		}
	}
	return "the noise between launches is not known"
}

// advice is what to do about what is unknown: more launches, where there is but
// one.
func (c *Comparison) advice() string {
	for _, l := range c.Lines {
		if l.Ratio != nil && l.Separable == nil && min(l.A.N, l.B.N) == 1 {
			return "; --rounds 3"
		}
	}
	return ""
}
