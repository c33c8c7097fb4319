package report

import (
	"fmt"
	"maps"
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

// GapFactor is how the speed that a profiler states becomes the one measured
// without it: Ratio is the product of the others.
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
	Ratio     *float64  `json:"ratio"` // b / a; null when it would say nothing
	Lo        *float64  `json:"lo"`
	Hi        *float64  `json:"hi"`
	Separable *bool     `json:"separable"`  // null: a side has one launch
	P         *float64  `json:"p"`          // of this comparison alone
	PHolm     *float64  `json:"p_holm"`     // adjusted for the number of cells; separable is judged by it
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

	interleaved bool
	limit       float64
}

// NothingError says that two sides have nothing to compare.
type NothingError struct{ Reason, Next string }

func (e *NothingError) Error() string { return e.Reason }

// Hint says what to do next.
func (e *NothingError) Hint() string { return e.Next }

// Compare compares two sides; a is the reference. It fails with *UnlikeError when
// they did other work or on other hardware, unless that is forced, and with
// *NothingError when they have no cell or no number in common.
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
		mismatch = append(mismatch, unlike(p.name, a.measured([]record.Cell{p.a}), b.measured([]record.Cell{p.b}))...)
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
		for _, name := range c.metrics(rows[i], o.Metrics) {
			c.Lines = append(c.Lines, c.line(rows[i], name, o))
		}
		if o.Normalise {
			c.normalised(rows[i], o)
		}
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

// paired is a cell of both sides in numbers.
type paired struct {
	pair
	left, right  []record.RunData
	rowA, rowB   CellRow
	flags        []string
	sources      bySource
	positions    stats.Positions
	tokA, tokB   float64 // output tokens of a request, as the positions tell
	shapesDiffer bool    // other steps: a cycle is other work
	hostA        string
}

// pair reduces the runs of a cell to what both sides have in common.
func (c *Comparison) pair(p pair) *paired {
	r := &paired{pair: p}
	r.left, r.right = c.A.done(p.a), c.B.done(p.b)
	var samples [][]record.Sample
	for _, d := range slices.Concat(r.left, r.right) {
		samples = append(samples, d.Samples)
	}
	r.positions = stats.CommonPositions(samples...)
	r.tokA, r.tokB = requestTokens(r.left), requestTokens(r.right)
	r.sources = commonSources(r.left, r.right)
	r.rowA, r.rowB = c.A.row(p.a, r.positions, r.sources), c.B.row(p.b, r.positions, r.sources)
	r.shapesDiffer = steps(p.a, c.A.runsOf(p.a), c.A.View.Data) != steps(p.b, c.B.runsOf(p.b), c.B.View.Data) && c.A.Kind != SideFile && c.B.Kind != SideFile
	hosts := c.A.hosts(p.a)
	if len(hosts) > 0 {
		r.hostA = hosts[0]
	}
	_, totalA := r.rowA.Metrics["cycle_total"]
	_, totalB := r.rowB.Metrics["cycle_total"]
	r.flags = flagsOf(r.left, r.right, hosts, c.B.hosts(p.b), totalA && totalB)
	for _, f := range r.flags {
		c.flag(f)
	}
	return r
}

// done are the runs of a cell that have numbers.
func (s *Side) done(cell record.Cell) (out []record.RunData) {
	for _, r := range s.runsOf(cell) {
		if r.State == record.RunDone {
			out = append(out, s.View.Data[r.ID])
		}
	}
	return out
}

// bySource are the sources of each metric that both sides of a pair have.
type bySource map[string]map[string]bool

// commonSources finds what both sides have of each metric, so that a number of the
// profiler is never compared with one of the client.
func commonSources(a, b []record.RunData) bySource {
	of := func(runs []record.RunData) bySource {
		out := bySource{}
		for _, d := range runs {
			for _, m := range d.Metrics {
				if out[m.Name] == nil {
					out[m.Name] = map[string]bool{}
				}
				out[m.Name][m.Source] = true
			}
		}
		return out
	}
	left, right := of(a), of(b)
	for name, sources := range left {
		maps.DeleteFunc(sources, func(source string, _ bool) bool { return !right[name][source] })
	}
	return left
}

// mixed says that a metric has no source in common, nil being no pair.
func (s bySource) mixed(name string) bool { return s != nil && len(s[name]) == 0 }

func (s bySource) keep(ms []record.Metric) []record.Metric {
	if s == nil {
		return ms
	}
	return slices.DeleteFunc(slices.Clone(ms), func(m record.Metric) bool { return !s.mixed(m.Name) && !s[m.Name][m.Source] })
}

// row is a cell in numbers, over the positions that all runs of a comparison have
// and from sources that both sides have. Where the positions are not the whole
// run, metrics that cannot be had for them are left out.
func (s *Side) row(cell record.Cell, p stats.Positions, common bySource) CellRow {
	slotOf := map[string]record.Slot{}
	for _, sl := range s.View.Slots {
		slotOf[sl.ID] = sl
	}
	runs, data := s.runsOf(cell), map[string]record.RunData{}
	for _, r := range runs {
		d := s.View.Data[r.ID]
		if p.Unequal {
			d.Metrics = overPositions(d, p)
		}
		data[r.ID] = record.RunData{Metrics: common.keep(d.Metrics)}
	}
	row := CellRow{Params: cell.Params, Baseline: cell.Baseline, cell: cell}
	row.fill(runs, slotOf, data)
	return row
}

// ofLength are the metrics that depend on how long the outputs are.
func ofLength(name string) bool {
	for _, prefix := range []string{"cycle_", "tpot", "output_throughput", "total_throughput", "steady_throughput", "request_", "duration", "itl", "gen_throughput", "profiler_throughput", "e2e"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

func overPositions(d record.RunData, p stats.Positions) []record.Metric {
	values := p.Reduce(d.Samples, d.Metrics)
	var out []record.Metric
	for _, m := range d.Metrics {
		if v, ok := values[m.Name]; ok {
			delete(values, m.Name) // one source: the one that Reduce took
			m.Value = v
			out = append(out, m)
		} else if !ofLength(m.Name) {
			out = append(out, m)
		}
	}
	return out
}

// requestTokens is how many tokens the outputs of runs have on average; 0 when
// that is not known.
func requestTokens(runs []record.RunData) float64 {
	var all []float64
	for _, d := range runs {
		if p := stats.CommonPositions(d.Samples); len(p.Tokens) > 0 {
			all = append(all, float64(p.Most)/float64(len(p.Tokens)))
			continue
		}
		total, completed := 0.0, 0.0
		for _, m := range d.Metrics {
			switch m.Name {
			case "total_output_tokens":
				total = m.Value
			case "completed":
				completed = m.Value
			}
		}
		if total > 0 && completed > 0 {
			all = append(all, total/completed)
		}
	}
	if m := stats.Median(all); m > 0 {
		return m
	}
	return 0
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
		l.Note = "measured in two ways: no source of it is common to both"
		c.flag(head(name) + " of a and of b come from other sources")
	}
	if name == "cycle_total" && r.shapesDiffer {
		l.Ratio, l.Lo, l.Hi, l.Separable, l.P, l.MinEffect, l.Method = nil, nil, nil, nil, nil, nil, ""
		l.TooFew, l.Note = "", "not compared: cycles of different steps do different work"
	}
	return l
}

// compareLaunches gives the line of two sets of launches.
func (c *Comparison) compareLaunches(r *paired, name string, a, b []stats.Launch, o CompareOptions) ComparisonLine {
	opts := stats.Options{Interleaved: c.interleaved}
	if o.Noise != nil {
		opts.Noise = o.Noise(r.hostA, name)
	}
	v := stats.CompareWith(b, a, opts)
	l := ComparisonLine{Cell: r.name, Baseline: r.a.Baseline && r.b.Baseline, Metric: name, Ratio: finite(v.Ratio), Lo: finite(v.Lo), Hi: finite(v.Hi),
		Separable: v.Separable, P: finite(v.P), MinEffect: finite(v.MinEffect), Method: v.Method, TooFew: v.TooFew,
		LabelsA: labelNames(r.left), LabelsB: labelNames(r.right), Flags: append([]string{}, r.flags...)}
	if r.positions.Unequal && ofLength(name) {
		l.Note = "over the positions that both sides have"
	}
	return l
}

func sideValue(m MetricValue) SideValue {
	return SideValue{Median: finite(m.Median), Lo: m.Lo, Hi: m.Hi, N: m.N}
}

// normalised adds the metrics that a baseline has too, each launch divided by the
// baseline of its round: what is left when the host was faster or slower.
func (c *Comparison) normalised(r *paired, o CompareOptions) {
	if r.a.Baseline || r.b.Baseline {
		return
	}
	base := [2]*record.Cell{c.A.baseline(r.a), c.B.baseline(r.b)}
	if base[0] == nil || base[1] == nil {
		c.note("%s: no baseline on both sides to normalise by", r.name)
		return
	}
	for _, name := range c.metrics(r, o.Metrics) {
		if name != "output_throughput" && name != "tpot" && name != "tpot_mean" {
			continue // a baseline has none, or it means something else there
		}
		var relative [2][]stats.Launch
		for i, s := range []*Side{&c.A, &c.B} {
			cell := r.rowA.launches[name]
			if i == 1 {
				cell = r.rowB.launches[name]
			}
			whole := s.whole()
			relative[i] = perBaseline(cell, whole.row(*base[i], stats.Positions{}, nil).launches[name])
		}
		if len(relative[0]) == 0 || len(relative[1]) == 0 {
			continue
		}
		l := c.compareLaunches(r, name, relative[0], relative[1], o)
		l.Metric, l.Unit = name+"_per_baseline", "x"
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
	logs := 0.0
	for _, l := range base {
		logs += math.Log(l.Value)
	}
	mean := math.Exp(logs / float64(len(base)))
	for i := range normal {
		normal[i].Value /= mean
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

// whole is the side with all cells and runs of its sweep.
func (s *Side) whole() *Side {
	w := *s
	w.Cells, w.Run = nil, ""
	return &w
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
