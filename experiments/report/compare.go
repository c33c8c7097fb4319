package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"specrun/experiments/record"
	"specrun/experiments/stats"
)

// CompareOptions bring in what the caller knows and stored results do not.
type CompareOptions struct {
	Metrics   []string                                       // to compare; nil = TOTAL, accept length, tok/s and TPOT
	Force     bool                                           // compare also what is not alike
	Normalise bool                                           // beside the values those divided by the baseline of their round
	Limit     float64                                        // a cell that is slower by more than this fraction, and separably, is a regression; 0 = none is
	Noise     func(host, metric string) *stats.Noise         // launch-to-launch noise that is remembered; nil = none
	Gap       func(with, without []record.Metric) *GapFactor // splits what a profiler claims from what was measured without it; nil = not asked
}

// GapFactor is the JSON line of type gap: how the speed that a profiler states
// becomes the one measured without it. Ratio is the product of the others.
type GapFactor struct {
	Ratio       float64 `json:"ratio"`
	Acceptance  float64 `json:"acceptance"`
	Cycle       float64 `json:"cycle"`
	Probe       float64 `json:"probe"`
	Rest        float64 `json:"rest"`
	Explanation string  `json:"explanation"`
}

// SideValue is a number of one side with its interval.
type SideValue struct {
	Median *float64 `json:"median"` // null: the side has no such number
	Lo     *float64 `json:"lo"`
	Hi     *float64 `json:"hi"`
	N      int      `json:"n"` // launches
}

// ComparisonLine is the JSON line of type comparison: one metric of one cell, b
// over a.
type ComparisonLine struct {
	Cell      string    `json:"cell"`
	Baseline  bool      `json:"baseline"`
	Metric    string    `json:"metric"`
	Unit      string    `json:"unit"`
	A         SideValue `json:"a"`
	B         SideValue `json:"b"`
	Ratio     *float64  `json:"ratio"`      // b / a, of the medians; null when it would say nothing
	Mean      *float64  `json:"mean_ratio"` // of the geometric means, which lo, hi and p are of
	Lo        *float64  `json:"lo"`
	Hi        *float64  `json:"hi"`
	Separable *bool     `json:"separable"`  // null: a side has one launch
	P         *float64  `json:"p"`          // of this comparison alone
	PHolm     *float64  `json:"p_holm"`     // adjusted for the number of cells; separable is judged by it
	RankP     *float64  `json:"rank_p"`     // by ranks alone, from 6 launches on: far from p where one launch is wild
	MinEffect *float64  `json:"min_effect"` // the smallest effect that would have been found 8 times in 10
	Method    string    `json:"method"`
	TooFew    string    `json:"too_few,omitempty"` // why separable is null
	Note      string    `json:"note,omitempty"`    // why ratio is null, or over which positions it was taken
	LabelsA   []string  `json:"labels_a"`
	LabelsB   []string  `json:"labels_b"`
	Flags     []string  `json:"flags"` // what makes the two sides hard to compare
}

// Comparison is all that is said of two sides.
type Comparison struct {
	A, B        Side
	Objective   string
	Lines       []ComparisonLine
	OnlyA       []string // cells
	OnlyB       []string
	Flags       []string // of any cell, each once
	Notes       []string // about positions and the baseline
	Gap         *GapFactor
	Diff        Diff
	Decision    string
	Regressions []string // cells that are slower than the limit allows, with by how much
	Missing     []string // cells that a has a result of and b, which has the cell, has none: in words

	interleaved bool
	limit       float64
	speeds      int // cells in which a speed was compared
}

// NothingError says that two sides have nothing to compare.
type NothingError struct{ Reason, Next string }

func (e *NothingError) Error() string { return e.Reason }

// Hint says what to do next.
func (e *NothingError) Hint() string { return e.Next }

// Compare compares two sides; a is the reference. It fails with *UnlikeError when
// they did other work or on other hardware, unless that is forced, and with
// *NothingError when they have no cell or no number in common; with a limit, where
// b has no result of any common cell, with *MissingError.
func Compare(a, b Side, o CompareOptions) (*Comparison, error) {
	c := &Comparison{A: a, B: b, limit: o.Limit, Objective: readPlan(a.View.Sweep.Plan).Objective,
		interleaved: a.View.Sweep.ID == b.View.Sweep.ID && a.Kind != SideFile && readPlan(a.View.Sweep.Plan).interleaved()}
	if c.Objective == "" {
		c.Objective = compared[0]
	}
	var pairs []pair
	pairs, c.OnlyA, c.OnlyB = match(&a, &b)
	if len(pairs) == 0 {
		return nil, &NothingError{fmt.Sprintf("%s and %s have no cell in common: %s / %s", a.Ref, b.Ref, strings.Join(c.OnlyA, ", "), strings.Join(c.OnlyB, ", ")),
			"compare single cells, such as k3v7/steps=2"}
	}
	var mismatch []Unlike
	for _, p := range pairs {
		mismatch = append(mismatch, unlike(p.name, a.done(p.a), b.done(p.b))...)
	}
	slices.SortFunc(mismatch, func(x, y Unlike) int { return strings.Compare(x.String(), y.String()) })
	mismatch = slices.CompactFunc(mismatch, func(x, y Unlike) bool { return x.String() == y.String() })
	if len(mismatch) > 0 && !o.Force {
		return nil, &UnlikeError{A: a.Ref, B: b.Ref, Keys: mismatch}
	}
	for _, u := range mismatch {
		c.flag("not alike: " + u.String())
	}
	rows := make([]*paired, len(pairs))
	for i, p := range pairs {
		rows[i] = c.pair(p)
		c.sayFailed(rows[i])
		for _, name := range c.metrics(rows[i], o.Metrics) {
			c.Lines = append(c.Lines, c.line(rows[i], name, o))
		}
		if o.Normalise {
			c.normalised(rows[i], o)
		}
		c.sayZero(rows[i])
	}
	if len(c.Lines) == 0 && len(c.Missing) > 0 && o.Limit > 0 {
		return nil, &MissingError{Cells: c.Missing}
	}
	if len(c.Lines) == 0 {
		return nil, c.nothing(rows, o.Metrics)
	}
	c.holm()
	c.sayPositions(rows)
	c.sayBaseline(rows, o)
	c.sayGap(rows, o)
	c.Diff = DiffSides(a, b)
	c.decide(rows)
	if c.sayShared(rows) {
		c.Decision = "a and b are the same runs: there is nothing to tell apart"
	}
	return c, nil
}

func (c *Comparison) flag(text string) {
	if !slices.Contains(c.Flags, text) {
		c.Flags = append(c.Flags, text)
	}
}

func (c *Comparison) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(c.Notes, text) {
		c.Notes = append(c.Notes, text)
	}
}

// shown are the metrics of a comparison and how they are called.
var shown = []struct{ metric, head string }{
	{"cycle_total", "TOTAL"}, {"accept_len", "accept len"}, {"output_throughput", "tok/s"}, {"tpot", "TPOT"}, {"tpot_mean", "TPOT"}, {"gen_throughput", "gen tok/s"},
}

func head(metric string) string {
	for _, s := range shown {
		if s.metric == metric {
			return s.head
		}
	}
	return metric
}

// metrics of a pair: those asked for, else the primary ones that both have, and
// what comes nearest when they have none.
func (c *Comparison) metrics(r *paired, asked []string) []string {
	both := func(name string) bool {
		_, a := r.rowA.Metrics[name]
		_, b := r.rowB.Metrics[name]
		return a && b
	}
	if asked != nil {
		return slices.DeleteFunc(slices.Clone(asked), func(name string) bool { return !both(name) })
	}
	var out []string
	for _, s := range shown {
		switch {
		case !both(s.metric),
			s.metric == "tpot_mean" && slices.Contains(out, "tpot"),
			s.metric == "gen_throughput" && slices.Contains(out, "output_throughput"):
		default:
			out = append(out, s.metric)
		}
	}
	if !slices.Contains(out, c.Objective) && both(c.Objective) {
		out = append(out, c.Objective)
	}
	return out
}

// line compares one metric of a pair.
func (c *Comparison) line(r *paired, name string, o CompareOptions) ComparisonLine {
	l := c.compareLaunches(r, name, r.rowA.launches[name], r.rowB.launches[name], o)
	l.Unit = r.rowA.Metrics[name].Unit
	l.A, l.B = sideValue(r.rowA.Metrics[name]), sideValue(r.rowB.Metrics[name])
	if r.sources.mixed(name) {
		l.refuse(head(name) + " is not compared: a and b measured it in two ways")
		c.flag(head(name) + " of a and of b come from other sources")
	}
	if name == "cycle_total" && r.shapesDiffer {
		l.refuse("TOTAL of different steps is not compared: a longer cycle may yield more tokens")
	}
	return l
}

// refuse leaves the two numbers and takes away what is said of them together.
func (l *ComparisonLine) refuse(why string) {
	l.Ratio, l.Mean, l.Lo, l.Hi, l.Separable, l.P, l.RankP, l.MinEffect, l.Method, l.TooFew = nil, nil, nil, nil, nil, nil, nil, nil, "", ""
	l.Note = why
}

// compareLaunches gives the line of two sets of launches.
func (c *Comparison) compareLaunches(r *paired, name string, a, b []stats.Launch, o CompareOptions) ComparisonLine {
	opts := stats.Options{Interleaved: c.interleaved}
	opts.Noise = r.remembered(name, o)
	v := stats.CompareWith(b, a, opts)
	l := ComparisonLine{Cell: r.name, Baseline: r.a.Baseline && r.b.Baseline, Metric: name, Ratio: finite(v.Ratio), Mean: finite(v.Mean), Lo: finite(v.Lo), Hi: finite(v.Hi),
		Separable: v.Separable, P: finite(v.P), RankP: finite(v.RankP), MinEffect: finite(v.MinEffect), Method: v.Method, TooFew: v.TooFew,
		LabelsA: labelNames(r.left), LabelsB: labelNames(r.right), Flags: append([]string{}, r.flags...)}
	if r.positions.Unequal && stats.OfLength(name) {
		l.Note = "over the positions that both sides have"
	}
	if v.Contrary() {
		c.note("%s: %s %s by medians; launches on average the other way: not separable", r.name, head(name), signed(v.Ratio-1))
	}
	return l
}

func sideValue(m MetricValue) SideValue {
	return SideValue{Median: finite(m.Median), Lo: m.Lo, Hi: m.Hi, N: m.N}
}

// holm adjusts the p-values for the number of cells, metric by metric: of many
// cells one would otherwise look different by chance.
func (c *Comparison) holm() {
	byMetric := map[string][]int{}
	for i, l := range c.Lines {
		byMetric[l.Metric] = append(byMetric[l.Metric], i)
	}
	for _, at := range byMetric {
		ps := make([]float64, len(at))
		for k, i := range at {
			ps[k] = math.NaN()
			if c.Lines[i].P != nil {
				ps[k] = *c.Lines[i].P
			}
		}
		for k, p := range stats.Holm(ps) {
			l := &c.Lines[at[k]]
			l.PHolm = finite(p)
			if l.Separable != nil && *l.Separable && p >= 1-stats.Confidence {
				no := false
				l.Separable = &no
			}
		}
	}
}

// nothing says why there is no line.
func (c *Comparison) nothing(rows []*paired, asked []string) error {
	if asked != nil {
		seen := map[string]bool{}
		var names []string
		for _, r := range rows {
			for name := range r.rowA.Metrics {
				if _, ok := r.rowB.Metrics[name]; ok && !seen[name] {
					seen[name] = true
					names = append(names, name)
				}
			}
		}
		if len(names) > 0 {
			slices.Sort(names)
			return &NothingError{fmt.Sprintf("no cell has %s on both sides", strings.Join(asked, ", ")), "both have: " + strings.Join(names, ", ")}
		}
	}
	for _, s := range []*Side{&c.A, &c.B} {
		n := 0
		for _, cell := range s.cells() {
			n += len(s.done(cell))
		}
		if n == 0 {
			return &NothingError{s.Ref + " has no run that is done", "specrun diff shows what differs without numbers"}
		}
	}
	return &NothingError{fmt.Sprintf("%s and %s have no number in common", c.A.Ref, c.B.Ref), "specrun show lists the numbers of a run"}
}
