package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"specrun/experiments/record"
	"specrun/experiments/stats"
)

// Options bring in what the caller knows and stored results do not.
type Options struct {
	Objective  string                                 // "" = the one of the plan, else output_throughput
	Advice     func(label string) string              // what to do about a label; nil = nothing
	CellLabels func(record.CellFacts) []record.Label  // labels that depend on all launches of a cell; nil = none
	All        bool                                   // of one run, or of two compared: also what says nothing, see WriteRun and WriteDiff
	Noise      func(host, metric string) *stats.Noise // between launches on the host, as far as remembered; nil = nothing
	Probe      func(patchSHA, host string) *ProbeLine // the newest probe of a patch on a host, nil = none; nil = none at all
	LogTail    []string                               // of one failed run: the last lines of its server's log
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
	ranked  int // cells

	mayQuote map[int]bool // ords of the cells that are measured again for quoting if they are best
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
	Quotable          bool                   `json:"quotable,omitempty"` // measured for quoting, without profiling patches; not ranked

	quoteOf  int // ord of the cell that a quotable row is without its patches
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
	MinEffect *float64 `json:"min_effect"` // the smallest effect that is found 8 times in 10, as a fraction
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
	varying := VaryingParams(v.Cells)
	for _, c := range v.Cells {
		row := CellRow{Params: c.Params, Baseline: c.Baseline, cell: c, name: CellName(c, varying)}
		row.fill(runs[c.ID], slotOf, v.Data)
		if row.Params == nil {
			row.Params = record.Params{}
		}
		s.Cells = append(s.Cells, row)
	}
	for i := range s.Cells { // a baseline is known only when all rows are
		s.note(&s.Cells[i], runs[s.Cells[i].cell.ID], slotOf, v.Data, o)
	}
	s.quotes(plan)
	s.compare(plan.interleaved())
	if v.Sweep.Kind == kindAA { // whose cells are all the same twice: there is nothing to rank
		s.Verdict = s.AA().text()
		return s
	}
	s.rank(plan.interleaved(), v.Data, runs)
	return s
}

// plan is the part of a stored plan that a report needs.
type plan struct {
	Objective string `json:"objective"`
	Order     string `json:"order"`
	Rounds    int    `json:"rounds"`
	Quotes    []struct {
		Of   int `json:"of"`
		Cell struct {
			Ord int `json:"ord"`
		} `json:"cell"`
	} `json:"quotes"`
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

// VaryingParams gives the parameters that tell the cells apart, sorted.
func VaryingParams(cells []record.Cell) []string {
	seen := map[string]map[string]bool{}
	has := map[string]int{}
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
			has[name]++
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		if len(seen[name]) > 1 || has[name] < n || n == 1 {
			out = append(out, name)
		}
	}
	return out
}

// CellName is a cell in one word or a few: its parameters that vary.
func CellName(c record.Cell, varying []string) string {
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
