package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"specrun/experiments/stats"
)

// NoiseLevels says at which level a cell's noise arises. Standard deviations are
// fractions; nil is unknown.
type NoiseLevels struct {
	Within   *float64 `json:"within"`  // between runs of a launch
	Between  *float64 `json:"between"` // between launches, beyond what their runs explain
	Launch   *float64 `json:"launch"`  // between launches as they are compared
	Launches int      `json:"launches"`
	Runs     int      `json:"runs"`
}

// Outlier is a launch far from the others of its cell. It is kept.
type Outlier struct {
	Metric string  `json:"metric"`
	Round  int     `json:"round"` // from 1
	Value  float64 `json:"value"`
	Off    float64 `json:"off"` // from the median of the others, a fraction
}

// spread finds the levels of noise and the launches that lie far off. A cycle
// tells of a wild launch as well as a rate does, so each is named once.
func (s *Summary) spread() {
	for i := range s.Cells {
		row := &s.Cells[i]
		if nests := row.nests[s.Objective]; len(nests) > 0 {
			if l := stats.Split(nests); finite(l.Within) != nil || finite(l.Launch) != nil {
				row.Noise = map[string]NoiseLevels{s.Objective: {finite(l.Within), finite(l.Between), finite(l.Launch), l.Launches, l.Runs}}
			}
		}
		seen := map[int]bool{}
		for _, name := range []string{s.Objective, compared[0], "cycle_total"} {
			ls := s.still(row, name)
			for _, at := range stats.Outliers(valuesOf(ls)) {
				others := slices.Delete(slices.Clone(valuesOf(ls)), at, at+1)
				off := ls[at].Value/stats.Median(others) - 1
				if finite(off) == nil || seen[ls[at].Round] {
					continue
				}
				seen[ls[at].Round] = true
				row.Outliers = append(row.Outliers, Outlier{name, ls[at].Round + 1, ls[at].Value, off})
			}
		}
	}
}

// still are the launches of a row, less what the baseline's drift makes of them;
// none where that is not known. The rounds after a move are no outliers.
func (s *Summary) still(row *CellRow, metric string) []stats.Launch {
	if s.baselineMoved(row) == "" {
		return row.launches[metric]
	}
	ls, _, _ := stats.Normalize(row.launches[metric], s.baselineOf(row).launches[metric])
	return ls
}

// outlierNotes names them.
func (s *Summary) outlierNotes() []string {
	var out []string
	for _, row := range s.Cells {
		for _, o := range row.Outliers {
			word := "above"
			if o.Off < 0 {
				word = "below"
			}
			out = append(out, fmt.Sprintf("launch %d of %s is off: %s %s %s that of the others; kept", o.Round, row.name, head(o.Metric), percent(math.Abs(o.Off)), word))
		}
	}
	const most = 4
	if len(out) > most {
		return []string{fmt.Sprintf("%d launches lie far from the others of their cell; kept (--json names them)", len(out))}
	}
	return out
}

// levelsNote tells where the noise of the objective arises, "" when too little is
// known.
func (s *Summary) levelsNote() string {
	var parts []string
	for _, row := range s.Cells {
		l, ok := row.Noise[s.Objective]
		if !ok || l.Launch == nil && l.Within == nil {
			continue
		}
		text := row.name
		if l.Launch != nil {
			text += " " + percent(*l.Launch)
		} else {
			text += " ?"
		}
		if l.Within != nil {
			text += " (" + percent(*l.Within) + " within a launch)"
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("standard deviation of %s between launches: %s", head(s.Objective), strings.Join(parts, ", "))
}

// slopeNote says how TOTAL rises with the context, where the rows of a profiler
// show that beyond doubt and it is worth a thought.
func (s *Summary) slopeNote() string {
	const worth = 0.01 // of TOTAL, per 1,000 tokens
	lo, hi := math.Inf(1), math.Inf(-1)
	for i := range s.Cells {
		row := &s.Cells[i]
		var slopes []float64
		sure, runs := 0, 0
		for _, d := range s.done(row) {
			runs++
			if slope, ok := stats.ContextSlope(d.Samples); ok {
				slopes = append(slopes, slope.PerThousand)
				if slope.Lo > 0 {
					sure++
				}
			}
		}
		m := stats.Median(slopes)
		if 2*sure <= runs || m < worth*row.Metrics["cycle_total"].Median {
			continue
		}
		lo, hi = math.Min(lo, m), math.Max(hi, m)
	}
	switch text := number(lo, "ms"); {
	case math.IsInf(lo, 1):
		return ""
	case text == number(hi, "ms"):
		return "TOTAL rises by " + text + " ms per 1,000 tokens of context"
	default:
		return fmt.Sprintf("TOTAL rises by %s to %s ms per 1,000 tokens of context", text, number(hi, "ms"))
	}
}
