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
	All        bool                                   // also what says little: levels of noise of a sweep, see also WriteRun and WriteDiff
	Noise      func(host, metric string) *stats.Noise // between launches on the host, as far as remembered; nil = nothing
	Probe      func(patchSHA, host string) *ProbeLine // the probe of a patch on a host, see BestProbe, nil = none; nil = none at all
	Normalise  bool                                   // show beside raw numbers what they were if the baseline had stood still
	LogTail    []string                               // of one failed run: the last lines of its server's log
	Width      int                                    // of the terminal that it is written to; 0 = none, or not known

	judged map[string]*CellRow // by cell: the rows of the whole sweep, of which this is a part
}

// Summary is a sweep in numbers.
type Summary struct {
	Sweep     record.Sweep
	Objective string // the metric that ranks
	Cells     []CellRow
	Best      int    // index into Cells, -1 = none
	Verdict   string // one sentence about the best cell, or why there is none

	options   Options
	plan      plan
	runs      map[string][]record.Run // by cell
	slotOf    map[string]record.Slot
	data      map[string]record.RunData
	positions stats.Positions // that the ranked cells and their baselines have in common

	failed      []failure
	labels      []labelNote
	checks      []checkNote
	remarks     []string   // about the comparison as a whole
	tooFew      []string   // why a ? is unknown
	mixedSource string     // the metric whose rows have no source in common, "" = none
	contrary    []string   // rows that are ahead of the baseline by medians and behind by means, or the reverse
	holm        int        // comparisons in vs baseline that were judged together
	planned     int        // runs
	ranked      int        // cells
	loads       []loadPart // where cells differ in their work; Best and Verdict are then of all of them

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
	// Equal are the numbers that the cell is ranked by where outputs are not
	// equally long: over the positions that all cells have.
	Equal      *EqualValues           `json:"over_equal_positions,omitempty"`
	Normalised map[string]MetricValue `json:"normalised,omitempty"` // as if the baseline had stood still
	Outliers   []Outlier              `json:"outliers,omitempty"`
	Noise      map[string]NoiseLevels `json:"noise,omitempty"` // of the objective
	Probe      *ProbeLine             `json:"probe,omitempty"` // what a patch of the cell costs on the host, if that is known
	Labels     []string               `json:"labels"`
	Quotable   bool                   `json:"quotable,omitempty"` // measured for quoting, without profiling patches; not ranked

	quoteOf  int // ord of the cell that a quotable row is without its patches
	cell     record.Cell
	name     string
	launches map[string][]stats.Launch // by metric
	nests    map[string][]stats.Nest   // by metric: the runs of each launch
	sources  map[string]string         // by metric: who measured it
	equal    *CellRow                  // over the positions that all ranked cells have; nil: the row itself
	fromBest stats.Comparison          // the best row over this one

	failedCheck string // the first of its runs, "" = none
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
	Mean      *float64 `json:"mean_ratio"` // of the geometric means, round by round when paired; the ratio is of medians
	Lo        *float64 `json:"lo"`         // of mean_ratio
	Hi        *float64 `json:"hi"`
	N         int      `json:"n"`          // rounds when paired, else launches of the side that has fewer
	Paired    bool     `json:"paired"`     // compared round by round
	Separable *bool    `json:"separable"`  // by PHolm; nil: launch-to-launch noise is unknown
	P         *float64 `json:"p"`          // of this comparison alone
	PHolm     *float64 `json:"p_holm"`     // as one of those of all cells
	RankP     *float64 `json:"rank_p"`     // of this comparison alone, by ranks; from 6 launches on
	MinEffect *float64 `json:"min_effect"` // the smallest effect that this comparison alone finds 8 times in 10, as a fraction
	Method    string   `json:"method,omitempty"`
	TooFew    string   `json:"too_few,omitempty"` // why Separable is nil
}

type failure struct {
	run  record.Run
	cell string
	at   record.Slot
}

// checkNote is a check that failed: how in the first cell, and where else.
type checkNote struct {
	name, explanation string
	cells             []string
}

type labelNote struct {
	name, advice string
	reasons      []labelReason
}

// Summarize computes the rows of a sweep, the baseline first as the plan has it.
func Summarize(v record.SweepView, o Options) *Summary {
	s := &Summary{Sweep: v.Sweep, Objective: o.Objective, Best: -1, options: o, plan: readPlan(v.Sweep.Plan),
		runs: map[string][]record.Run{}, slotOf: map[string]record.Slot{}, data: v.Data}
	if s.Objective == "" {
		s.Objective = s.plan.Objective
	}
	for _, sl := range v.Slots {
		if !sl.Closed {
			s.planned++
		}
		s.slotOf[sl.ID] = sl
	}
	for _, r := range v.Runs {
		cell := s.slotOf[r.SlotID].CellID
		s.runs[cell] = append(s.runs[cell], r)
	}
	s.oneSource(acceptLen, v.Cells)
	varying := VaryingParams(v.Cells)
	for _, c := range v.Cells {
		row := CellRow{Params: c.Params, Baseline: c.Baseline, cell: c, name: CellName(c, varying)}
		row.fill(s.runs[c.ID], s.slotOf, s.data)
		if row.Params == nil {
			row.Params = record.Params{}
		}
		s.Cells = append(s.Cells, row)
	}
	s.Objective = stats.ObjectiveIn(s.Objective, s.candidates())
	s.quotes(s.plan)
	s.spread()
	s.probes()
	s.normalise()
	for i := range s.Cells { // a baseline is known only when all rows are
		s.note(&s.Cells[i])
	}
	s.compare()
	if o.judged != nil {
		s.judgeWith(o.judged)
	}
	s.remarks = append(s.remarks, s.engineNotes()...)
	if v.Sweep.Kind == kindAA { // whose cells are all the same twice: there is nothing to rank
		s.Verdict = s.AA().text()
		return s
	}
	s.rank()
	s.byLoad(v, o)
	return s
}

// plan is the part of a stored plan that a report needs.
type plan struct {
	Objective string `json:"objective"`
	Order     string `json:"order"`
	Rounds    int    `json:"rounds"`
	Host      struct {
		Name string `json:"name"`
	} `json:"host"`
	Cells []struct {
		Ord    int `json:"ord"`
		Server struct {
			Patches []plannedPatch `json:"patches"`
		} `json:"server"`
		Bench map[string]json.RawMessage `json:"bench"`
	} `json:"cells"`
	Quotes []struct {
		Of   int `json:"of"`
		Cell struct {
			Ord   int                        `json:"ord"`
			Bench map[string]json.RawMessage `json:"bench"`
		} `json:"cell"`
	} `json:"quotes"`
}

// plannedPatch is a patch of a cell, as the plan has it.
type plannedPatch struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	Probe  string `json:"probe"`  // none, light, events, sync
	Folder string `json:"folder"` // that it was read from, when its name alone does not lead there
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

// isQuote says that the cell was measured after the rounds, for quoting.
func (p plan) isQuote(ord int) bool {
	for _, q := range p.Quotes {
		if q.Cell.Ord == ord {
			return true
		}
	}
	return false
}

func (p plan) interleaved() bool { return p.Order == "interleave" && p.Rounds > 1 }

// VaryingParams gives the parameters that tell the cells apart, sorted: those
// that differ, or all of them when that would leave a cell without a name.
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
	all := slices.Sorted(maps.Keys(seen))
	var out []string
	for _, name := range all {
		if len(seen[name]) > 1 || has[name] < n {
			out = append(out, name)
		}
	}
	for _, c := range cells {
		if !c.Baseline && !slices.ContainsFunc(out, func(name string) bool { _, ok := c.Params[name]; return ok }) {
			return all
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
