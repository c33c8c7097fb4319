package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"specrun/experiments/record"
	"specrun/experiments/stats"
)

// Options bring in what the caller knows and stored results do not.
type Options struct {
	Objective  string                                  // "" = the one of the plan, else output_throughput
	Advice     func(label string) string               // what to do about a label; nil = nothing
	CellLabels func(runs, launches int) []record.Label // labels that depend on how often a cell was measured; nil = none
}

// Summary is a sweep in numbers.
type Summary struct {
	Sweep     record.Sweep
	Objective string // the metric that ranks
	Cells     []CellRow
	Best      int    // index into Cells, -1 = none
	Verdict   string // one sentence about the best cell, or why there is none

	failed  []failure
	labels  []labelNote
	checks  []string
	planned int // runs
}

// CellRow is one cell's line. It marshals to the JSON line of type cell, less
// the type.
type CellRow struct {
	Params            record.Params          `json:"params"`
	Baseline          bool                   `json:"baseline"`
	Best              bool                   `json:"best"`
	SeparableFromNext *bool                  `json:"separable_from_next"` // next in rank; nil: unknown, or not ranked
	Runs              int                    `json:"runs"`                // that are done
	Launches          int                    `json:"launches"`            // with a run that is done
	Failed            int                    `json:"failed"`              // runs
	Metrics           map[string]MetricValue `json:"metrics"`
	VsBaseline        map[string]float64     `json:"vs_baseline,omitempty"` // ratios
	Doubt             map[string]Doubt       `json:"vs_baseline_doubt,omitempty"`
	Labels            []string               `json:"labels"`

	cell     record.Cell
	name     string
	launches map[string][]stats.Launch // by metric
}

// MetricValue is a number with its doubt. Lo and Hi are nil when there are too
// few launches for an interval.
type MetricValue struct {
	Unit     string   `json:"unit"`
	Median   float64  `json:"median"`
	Lo       *float64 `json:"lo"`
	Hi       *float64 `json:"hi"`
	N        int      `json:"n"` // launches
	Interval *string  `json:"interval"`
	RankLo   *float64 `json:"rank_lo,omitempty"` // beside it, from 6 launches on
	RankHi   *float64 `json:"rank_hi,omitempty"`
}

// Doubt is what a ratio to the baseline is worth.
type Doubt struct {
	Lo        *float64 `json:"lo"`
	Hi        *float64 `json:"hi"`
	N         int      `json:"n"`          // rounds when paired, else launches of the side that has fewer
	Paired    bool     `json:"paired"`     // compared round by round
	Separable *bool    `json:"separable"`  // nil: launch-to-launch noise is unknown
	MinEffect *float64 `json:"min_effect"` // the smallest effect that could have been found, as a fraction
}

type failure struct {
	run  record.Run
	cell string
	at   record.Slot
}

type labelNote struct {
	name, reason, advice string
	cells                []string
}

// sources of a metric, the one nearest to what it measures first.
var sources = [...]string{"profiler", "per_request", "client", "server_log", "derived"}

// Summarize computes the rows of a sweep, the baseline first as the plan has it.
func Summarize(v record.SweepView, o Options) *Summary {
	plan := readPlan(v.Sweep.Plan)
	s := &Summary{Sweep: v.Sweep, Objective: o.Objective, Best: -1, planned: len(v.Slots)}
	if s.Objective == "" {
		s.Objective = plan.Objective
	}
	if s.Objective == "" {
		s.Objective = "output_throughput"
	}
	s.Objective = known(s.Objective, v.Data)
	slotOf := map[string]record.Slot{}
	for _, sl := range v.Slots {
		slotOf[sl.ID] = sl
	}
	runs := map[string][]record.Run{} // by cell
	for _, r := range v.Runs {
		cell := slotOf[r.SlotID].CellID
		runs[cell] = append(runs[cell], r)
	}
	varying := varyingParams(v.Cells)
	for _, c := range v.Cells {
		row := CellRow{Params: c.Params, Baseline: c.Baseline, cell: c, name: cellName(c, varying)}
		row.fill(runs[c.ID], slotOf, v.Data)
		if row.Params == nil {
			row.Params = record.Params{}
		}
		s.note(&row, runs[c.ID], slotOf, v.Data, o)
		s.Cells = append(s.Cells, row)
	}
	s.compare(plan.interleaved())
	s.rank(plan.interleaved(), v.Data, runs)
	return s
}

// plan is the part of a stored plan that a report needs.
type plan struct {
	Objective string `json:"objective"`
	Order     string `json:"order"`
	Rounds    int    `json:"rounds"`
}

// readPlan takes a plan that it cannot read for an empty one: an import has
// none, and a result is worth showing without it.
func readPlan(raw json.RawMessage) plan {
	var p plan
	if err := json.Unmarshal(raw, &p); err != nil {
		return plan{}
	}
	return p
}

func (p plan) interleaved() bool { return p.Order == "interleave" && p.Rounds > 1 }

// known finds the metric that an objective names: tpot is stored as tpot_mean.
func known(objective string, data map[string]record.RunData) string {
	mean := false
	for _, d := range data {
		for _, m := range d.Metrics {
			if m.Name == objective {
				return objective
			}
			mean = mean || m.Name == objective+"_mean"
		}
	}
	if mean {
		return objective + "_mean"
	}
	return objective
}

// fill counts the runs of a row and reduces its launches to numbers.
func (row *CellRow) fill(runs []record.Run, slotOf map[string]record.Slot, data map[string]record.RunData) {
	type key struct{ metric, source string }
	type value struct {
		launch string
		round  int
		v      float64
	}
	byKey := map[key][]value{}
	units := map[key]string{}
	launches := map[string]bool{}
	for _, r := range runs {
		switch r.State {
		case record.RunFailed:
			row.Failed++
		case record.RunDone:
			row.Runs++
			launches[r.LaunchID] = true
			for _, m := range data[r.ID].Metrics {
				if math.IsNaN(m.Value) || math.IsInf(m.Value, 0) {
					continue
				}
				k := key{m.Name, m.Source}
				byKey[k] = append(byKey[k], value{r.LaunchID, slotOf[r.SlotID].Round, m.Value})
				units[k] = m.Unit
			}
		}
	}
	row.Launches = len(launches)
	// One source for each metric: numbers of two sources are never mixed, and
	// the one that more runs have comes before the nearer one.
	chosen := map[string]key{}
	for k := range byKey {
		was, ok := chosen[k.metric]
		if !ok || len(byKey[k]) > len(byKey[was]) || len(byKey[k]) == len(byKey[was]) && sourceRank(k.source) < sourceRank(was.source) {
			chosen[k.metric] = k
		}
	}
	row.Metrics = map[string]MetricValue{}
	row.launches = map[string][]stats.Launch{}
	for name, k := range chosen {
		var order []string
		rounds, values := map[string]int{}, map[string][]float64{}
		for _, v := range byKey[k] {
			if _, ok := values[v.launch]; !ok {
				order = append(order, v.launch)
			}
			rounds[v.launch] = v.round
			values[v.launch] = append(values[v.launch], v.v)
		}
		var ls []stats.Launch
		var medians []float64
		for _, id := range order {
			m := stats.Median(values[id])
			ls, medians = append(ls, stats.Launch{Round: rounds[id], Value: m}), append(medians, m)
		}
		row.launches[name] = ls
		row.Metrics[name] = metricValue(units[k], stats.Summarize(medians))
	}
}

func sourceRank(source string) string {
	if i := slices.Index(sources[:], source); i >= 0 {
		return string(rune('0' + i))
	}
	return "9" + source // others after the known ones, in a fixed order
}

func metricValue(unit string, s stats.Summary) MetricValue {
	m := MetricValue{Unit: unit, Median: s.Median, N: s.N}
	if s.Interval != nil {
		m.Lo, m.Hi, m.Interval = &s.Interval.Lo, &s.Interval.Hi, &s.Interval.Kind
	}
	if s.Rank != nil {
		m.RankLo, m.RankHi = &s.Rank.Lo, &s.Rank.Hi
	}
	return m
}

// note collects what goes below the table: labels, failed checks, failed runs.
func (s *Summary) note(row *CellRow, runs []record.Run, slotOf map[string]record.Slot, data map[string]record.RunData, o Options) {
	row.Labels = []string{}
	add := func(l record.Label) {
		if !slices.Contains(row.Labels, l.Name) {
			row.Labels = append(row.Labels, l.Name)
		}
		i := slices.IndexFunc(s.labels, func(n labelNote) bool { return n.name == l.Name })
		if i < 0 {
			n := labelNote{name: l.Name, reason: l.Reason}
			if o.Advice != nil {
				n.advice = o.Advice(l.Name)
			}
			s.labels = append(s.labels, n)
			i = len(s.labels) - 1
		}
		if !slices.Contains(s.labels[i].cells, row.name) {
			s.labels[i].cells = append(s.labels[i].cells, row.name)
		}
	}
	if o.CellLabels != nil && row.Runs > 0 {
		for _, l := range o.CellLabels(row.Runs, row.Launches) {
			add(l)
		}
	}
	failedChecks := map[string]bool{}
	for _, r := range runs {
		switch r.State {
		case record.RunFailed:
			s.failed = append(s.failed, failure{run: r, cell: row.name, at: slotOf[r.SlotID]})
		case record.RunDone:
			for _, l := range data[r.ID].Labels {
				add(l)
			}
			for _, c := range data[r.ID].Checks {
				if c.Outcome == record.Fail && !failedChecks[c.Name] {
					failedChecks[c.Name] = true
					s.checks = append(s.checks, fmt.Sprintf("%s: %s: %s", row.name, c.Name, c.Explanation))
				}
			}
		}
	}
}

// varyingParams gives the parameters that tell the cells apart, sorted.
func varyingParams(cells []record.Cell) []string {
	seen := map[string]map[string]bool{}
	n := 0
	for _, c := range cells {
		if c.Baseline {
			continue
		}
		n++
		for name, v := range c.Params {
			if seen[name] == nil {
				seen[name] = map[string]bool{}
			}
			seen[name][paramText(v)] = true
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		if len(seen[name]) > 1 || n == 1 {
			out = append(out, name)
		}
	}
	return out
}

// cellName is a cell in one word or a few: its parameters that vary.
func cellName(c record.Cell, varying []string) string {
	var parts []string
	for _, name := range varying {
		if v, ok := c.Params[name]; ok {
			parts = append(parts, name+"="+paramText(v))
		}
	}
	if c.Baseline {
		parts = append([]string{"baseline"}, parts...)
	}
	if len(parts) == 0 {
		return fmt.Sprintf("cell %d", c.Ord)
	}
	return strings.Join(parts, " ")
}

func paramText(v any) string { return plain(fmt.Sprint(v)) }
