package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"specrun/experiments/record"
	"specrun/experiments/stats"
)

// compared are the metrics that a cell and the baseline both have and that mean
// the same in both: a baseline has no cycle, and its accept length is 1 by
// definition.
var compared = [...]string{"output_throughput", "total_throughput", "request_throughput", "tpot", "tpot_mean", "tpot_median", "ttft_mean", "ttft_median",
	"steady_throughput"}

// compare sets the ratios to the baseline, each over the positions that the cell
// and its baseline both have.
func (s *Summary) compare() {
	ps, rows := map[string][]float64{}, map[string][]*CellRow{} // by metric
	for i := range s.Cells {
		row := &s.Cells[i]
		base := s.baselineOf(row)
		if base == nil || row.Baseline {
			continue
		}
		p := s.common(row, base)
		mine, theirs := s.over(row, p), s.over(base, p)
		for _, name := range compared {
			a, b := mine.launches[name], theirs.launches[name]
			if len(a) == 0 || len(b) == 0 {
				continue
			}
			c := s.versus(row, base, a, b, name)
			if math.IsNaN(c.Ratio) {
				continue
			}
			if row.VsBaseline == nil {
				row.VsBaseline, row.Doubt = map[string]float64{}, map[string]Doubt{}
			}
			row.VsBaseline[name] = c.Ratio
			if name == s.headline() && c.Contrary() {
				s.contrary = append(s.contrary, row.name)
			}
			row.Doubt[name] = Doubt{Mean: finite(c.Mean), Lo: finite(c.Lo), Hi: finite(c.Hi), N: min(c.NA, c.NB), Paired: c.Paired,
				Separable: c.Separable, P: finite(c.P), RankP: finite(c.RankP), MinEffect: finite(c.MinEffect), Method: c.Method, TooFew: c.TooFew}
			ps[name], rows[name] = append(ps[name], c.P), append(rows[name], row)
		}
	}
	for name, all := range ps {
		adjusted := stats.Holm(all)
		judged := 0
		for i, row := range rows[name] {
			d := row.Doubt[name]
			d.PHolm = finite(adjusted[i])
			if d.Separable != nil && d.PHolm != nil {
				separable := *d.PHolm < 1-stats.Confidence
				d.Separable = &separable
				judged++
			}
			row.Doubt[name] = d
		}
		if name == s.headline() {
			s.holm = judged
		}
	}
}

// judgeWith takes over what was found of the ratios among all cells of a sweep.
func (s *Summary) judgeWith(all map[string]*CellRow) {
	for i := range s.Cells {
		if row := all[s.Cells[i].cell.ID]; row != nil {
			s.Cells[i].VsBaseline, s.Cells[i].Doubt = row.VsBaseline, row.Doubt
		}
	}
}

// versus compares launches of a row with those of another one.
func (s *Summary) versus(row, other *CellRow, a, b []stats.Launch, metric string) stats.Comparison {
	// A quotable row has rounds of its own, after the others, and so has what was
	// retried.
	inTurn := s.plan.interleaved() && !row.Quotable && len(s.retaken(row))+len(s.retaken(other)) == 0
	c := stats.CompareWith(a, b, stats.Options{Interleaved: inTurn, Noise: s.remembered(row, metric)})
	if c.TooFew != "" && (metric == s.headline() || metric == s.Objective) {
		why := c.TooFew
		if min(len(a), len(b)) == 1 {
			why += fmt.Sprintf("; --rounds %d", plannable)
			if least := s.remembered(row, metric).MinEffect(plannable); !math.IsNaN(least) {
				why += " would find " + percent(least)
			}
		}
		if !slices.Contains(s.tooFew, why) {
			s.tooFew = append(s.tooFew, why)
		}
	}
	return c
}

// ranksNote tells the p-values by ranks beside the others, "" when there are too
// few launches for any.
func (s *Summary) ranksNote() string {
	var parts []string
	for _, row := range s.Cells {
		if d, ok := row.Doubt[s.headline()]; ok && d.RankP != nil && d.P != nil {
			parts = append(parts, fmt.Sprintf("%s %s (%s)", row.name, pText(d.RankP), pText(d.P)))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "p by ranks, beside that by t: " + strings.Join(parts, ", ") + "; where they are far apart one launch is wild"
}

// plannable is how many rounds are advised where one launch says nothing.
const plannable = 3

// remembered is the noise between launches on the host of a row, nil when there is
// no memory.
func (s *Summary) remembered(row *CellRow, metric string) *stats.Noise {
	if s.options.Noise == nil {
		return nil
	}
	for _, r := range s.runs[row.cell.ID] {
		if r.State == record.RunDone {
			return s.options.Noise(r.Host, metric)
		}
	}
	return nil
}

// baselineOf finds the baseline that a cell compares with: one has as parameters
// only those of the benchmark, and these must be equal.
func (s *Summary) baselineOf(row *CellRow) *CellRow {
	cells := make([]record.Cell, len(s.Cells))
	for i := range s.Cells {
		cells[i] = s.Cells[i].cell
	}
	if i := stats.BaselineOf(cells, row.cell); i >= 0 {
		return &s.Cells[i]
	}
	return nil
}
