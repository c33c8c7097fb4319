package report

import (
	"fmt"
	"math"
	"strings"

	"specrun/experiments/record"
	"specrun/experiments/stats"
)

// AALine is the JSON line of type aa, less the type: how often an A/A sweep
// called a cell different from itself.
type AALine struct {
	Sweep    string   `json:"sweep"`
	Metric   string   `json:"metric"`
	Compared int      `json:"compared"` // cells
	Called   int      `json:"called"`   // of them, different from themselves
	Expected float64  `json:"expected"` // by chance, of those compared
	Cells    []AACell `json:"cells"`
	// NoiseSD is between launches of one cell, as a fraction; nil below two.
	NoiseSD *float64 `json:"noise_sd"`
	NoiseDF int      `json:"noise_df"`
	Noise   string   `json:"noise_basis"`
}

// AACell is one cell of an A/A sweep, arm b over arm a.
type AACell struct {
	Params    record.Params `json:"params"`
	Baseline  bool          `json:"baseline"`
	Ratio     *float64      `json:"ratio"`
	Lo        *float64      `json:"lo"`
	Hi        *float64      `json:"hi"`
	P         *float64      `json:"p"`
	Separable *bool         `json:"separable"` // nil: one launch each says nothing

	name string
}

// kindAA is the kind of an A/A sweep.
const kindAA = "aa"

// armParam tells the two arms of a cell apart.
const armParam = "arm"

// AA compares the arms of each cell of an A/A sweep in the objective. Whatever it
// calls different is a false call.
func (s *Summary) AA() AALine {
	l := AALine{Sweep: s.Sweep.ID, Metric: s.Objective, Cells: []AACell{}}
	if strings.HasPrefix(l.Metric, "cycle_") && !s.everyRowHas(l.Metric) {
		l.Metric = compared[0] // a baseline has no cycle
	}
	var groups [][]float64
	for i := range s.Cells {
		a := &s.Cells[i]
		b := s.otherArm(a)
		if a.Params[armParam] != "a" || b == nil {
			continue
		}
		c := stats.Compare(b.launches[l.Metric], a.launches[l.Metric], true)
		cell := AACell{Params: record.Params{}, Baseline: a.Baseline, Ratio: finite(c.Ratio), Lo: finite(c.Lo), Hi: finite(c.Hi), P: finite(c.P),
			Separable: c.Separable, name: strings.TrimSpace(strings.Replace(a.name, armParam+"=a", "", 1))}
		for k, v := range a.Params {
			if k != armParam {
				cell.Params[k] = v
			}
		}
		if cell.name == "" { // nothing but the arm varies
			cell.name = allParams(record.Cell{Params: cell.Params})
		}
		l.Cells = append(l.Cells, cell)
		if c.Separable != nil {
			l.Compared++
			if *c.Separable {
				l.Called++
			}
		}
		var group []float64
		for _, launch := range append(append([]stats.Launch(nil), a.launches[l.Metric]...), b.launches[l.Metric]...) {
			group = append(group, launch.Value)
		}
		groups = append(groups, group)
	}
	l.Expected = (1 - stats.Confidence) * float64(l.Compared)
	noise := stats.PoolNoise(groups)
	l.NoiseSD, l.NoiseDF, l.Noise = finite(noise.SD), noise.DF, noise.Basis
	return l
}

func (s *Summary) everyRowHas(metric string) bool {
	for _, row := range s.Cells {
		if len(row.launches[metric]) == 0 {
			return false
		}
	}
	return true
}

// otherArm is arm b of the cell whose arm a is given.
func (s *Summary) otherArm(a *CellRow) *CellRow {
	for i := range s.Cells {
		b := &s.Cells[i]
		if b.Params[armParam] != "b" || b.Baseline != a.Baseline || len(b.Params) != len(a.Params) {
			continue
		}
		same := true
		for k, v := range a.Params {
			same = same && (k == armParam || paramText(b.Params[k]) == paramText(v))
		}
		if same {
			return b
		}
	}
	return nil
}

// surprising is how rarely so many false calls come about by chance.
const surprising = 0.05

// text says it to people, in lines.
func (l AALine) text() string {
	var b strings.Builder
	note := func(format string, args ...any) {
		for _, line := range Wrap(fmt.Sprintf(format, args...), noteWidth, "  ") {
			b.WriteString(line + "\n")
		}
	}
	if l.Compared == 0 {
		note("A/A in %s: one launch of each arm, so nothing can be called different: --rounds 3", l.Metric)
	} else {
		note("A/A in %s: %d of %s called different from itself; %.1f %% are by chance", l.Metric, l.Called, plural(l.Compared, "cell"), 100*(1-stats.Confidence))
		for _, c := range l.Cells {
			if c.Separable != nil && *c.Separable {
				note("  %s: arm b is %s from arm a", c.name, signedPercent(*c.Ratio-1))
			}
		}
		if tail(l.Compared, l.Called, 1-stats.Confidence) < surprising {
			note("that is more than chance explains: launches that follow each other differ, by heat, a cache or other load")
		}
	}
	if l.NoiseSD != nil {
		note("noise between launches of one cell: %s (standard deviation, %s)", percent(*l.NoiseSD), l.Noise)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// tail is the chance of at least k calls in n comparisons that each call falsely
// with chance p.
func tail(n, k int, p float64) float64 {
	below := 0.0
	for i := range k {
		lg := func(x int) float64 { v, _ := math.Lgamma(float64(x) + 1); return v }
		below += math.Exp(lg(n) - lg(i) - lg(n-i) + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
	}
	return 1 - below
}
