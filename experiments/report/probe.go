package report

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"specrun/experiments/record"
	"specrun/experiments/stats"
)

// Verdicts of a probe.
const (
	Negligible = "negligible" // the interval of the ratio lies within probeTolerance
	Distorts   = "distorts"   // separable from 1, and further from it than that
	Unclear    = "unclear"
)

// probeTolerance is how much longer a token may take with a patch that counts as
// harmless.
const probeTolerance = 0.02

// ProbeLine is the JSON line of type probe, less the type: what a patch costs.
// Ratios are with the patch over without it. Nil is what is not known.
type ProbeLine struct {
	Sweep       string            `json:"sweep"`
	Patch       string            `json:"patch"`
	Version     string            `json:"version"`
	SHA256      string            `json:"sha256"`
	Host        string            `json:"host"`
	At          string            `json:"at"`             // when the probe was begun, RFC 3339
	Engine      string            `json:"engine_version"` // that was measured; "" = not known
	Model       string            `json:"model"`          // that was loaded; "" = not known
	Params      record.Params     `json:"params"`         // of the cell, the patch apart
	Ratio       *float64          `json:"ratio"`          // of the time per token
	Lo          *float64          `json:"lo"`
	Hi          *float64          `json:"hi"`
	P           *float64          `json:"p"`
	MinEffect   *float64          `json:"min_effect"`
	Verdict     string            `json:"verdict"`
	MsPerCycle  *float64          `json:"ms_per_cycle"` // that the patch costs, from the time per token and the accept length
	MsLo        *float64          `json:"ms_lo"`
	MsHi        *float64          `json:"ms_hi"`
	TPOTWith    *float64          `json:"tpot_with"` // ms, as the client saw it
	TPOTWithout *float64          `json:"tpot_without"`
	CycleWith   *float64          `json:"cycle_with"`            // ms, as the patch itself counts cycles
	Implied     *float64          `json:"cycle_implied"`         // ms, TPOT with the patch x accept length: what cycle_with should be
	ByTotal     *float64          `json:"ms_per_cycle_by_total"` // cycle_with less the cycle without the patch that tokens imply; null where cycle_with is no cycle's time
	AcceptLen   *float64          `json:"accept_len"`            // of the runs with the patch, not as the patch counts
	Pairs       int               `json:"pairs"`                 // rounds with both sides
	Failed      int               `json:"failed"`                // runs
	Numbers     map[string]string `json:"numbers"`               // usable, indicative, not usable or unknown
	Why         map[string]string `json:"why"`
	Labels      []string          `json:"labels"`
	Note        string            `json:"note,omitempty"` // what the comparison had to leave out

	probe   string // of the patch: sync, events, light
	several bool   // requests at once
}

// probeSide is one of the two cells of a probe.
type probeSide struct {
	tpot    []stats.Launch
	metrics map[string]map[string][]float64 // by name and source
}

// ErrNoProbe says that a sweep is not one of a cell without and with a patch.
var ErrNoProbe = errors.New("no probe: it has no cell without and with one patch")

// Probe computes what a patch costs from the runs of a probe. What it does not
// need to know of the patch beyond the stored plan it does not ask.
func Probe(v record.SweepView, noise *stats.Noise) (ProbeLine, error) {
	l, without, with, err := probeCells(v)
	if err != nil {
		return l, fmt.Errorf("sweep %s: %w", v.Sweep.ID, err)
	}
	runs := map[string][]record.Run{}
	rounds := map[string]int{}
	labels := map[string]bool{}
	cellOf := map[string]string{}
	for _, s := range v.Slots {
		cellOf[s.ID], rounds[s.ID] = s.CellID, s.Round
	}
	var samples [][]record.Sample
	for _, r := range v.Runs {
		switch r.State {
		case record.RunFailed:
			l.Failed++
		case record.RunDone:
			runs[cellOf[r.SlotID]] = append(runs[cellOf[r.SlotID]], r)
			samples = append(samples, v.Data[r.ID].Samples)
			for _, label := range v.Data[r.ID].Labels {
				labels[label.Name] = true
			}
		}
	}
	positions := stats.CommonPositions(samples...)
	if positions.Unequal {
		l.Note = fmt.Sprintf("outputs are not equally long (%d to %d tokens): compared over the positions that all runs have", positions.Least, positions.Most)
	}
	a, b := newSide(runs[without.ID], rounds, v.Data, positions), newSide(runs[with.ID], rounds, v.Data, positions)
	l.At = stamp(v.Sweep.CreatedUs)
	for _, runs := range runs {
		for _, r := range runs {
			l.Engine = cmp.Or(l.Engine, strings.Join(factValues([]record.RunData{v.Data[r.ID]}, "code", "engine_version"), ", "))
			l.Model = cmp.Or(l.Model, strings.Join(factValues([]record.RunData{v.Data[r.ID]}, "workload", "model"), ", "))
		}
	}
	l.Labels = slices.Sorted(maps.Keys(labels))
	if l.Labels == nil {
		l.Labels = []string{}
	}
	c := stats.CompareWith(b.tpot, a.tpot, stats.Options{Interleaved: true, Noise: noise})
	l.Pairs = len(pairs(b.tpot, a.tpot))
	// The patch is the only thing between the launches of a pair, so the pairs
	// decide, not the medians beside each other: the interval is of this ratio.
	l.Ratio, l.Lo, l.Hi, l.P, l.MinEffect = finite(c.Mean), finite(c.Lo), finite(c.Hi), finite(c.P), finite(c.MinEffect)
	l.TPOTWith, l.TPOTWithout = middle(b.tpot), middle(a.tpot)
	l.Verdict = verdictOf(c)
	if accept, _, ok := b.pick("accept_len", "per_request", "server_log", "profiler"); ok {
		l.AcceptLen = &accept
		l.perCycle(pairs(b.tpot, a.tpot), accept)
	}
	if total, _, ok := b.pick("cycle_total", "profiler"); ok {
		l.CycleWith, l.several = &total, b.several()
		if tpot, ok := b.timePerToken(); ok && l.AcceptLen != nil {
			l.Implied = finite(tpot * *l.AcceptLen)
		}
		if l.totalHolds() && l.TPOTWithout != nil {
			l.ByTotal = finite(total - *l.TPOTWithout**l.AcceptLen)
		}
	}
	l.judge(a, b)
	return l, nil
}

// probeCells finds the two cells, and the patch in the stored plan.
func probeCells(v record.SweepView) (l ProbeLine, without, with record.Cell, err error) {
	var plan struct {
		Host  struct{ Name string }
		Cells []struct {
			Ord    int
			Server struct {
				Patches []struct{ Name, Version, SHA256, Probe string }
			}
		}
	}
	if err := json.Unmarshal(v.Sweep.Plan, &plan); err != nil {
		return l, without, with, fmt.Errorf("its plan: %w", err)
	}
	l = ProbeLine{Sweep: v.Sweep.ID, Host: plan.Host.Name, Params: record.Params{}, Numbers: map[string]string{}, Why: map[string]string{}}
	found := 0
	for _, c := range v.Cells {
		for _, p := range plan.Cells {
			switch {
			case p.Ord != c.Ord:
			case len(p.Server.Patches) == 0:
				without = c
				found |= 1
			case len(p.Server.Patches) == 1:
				with = c
				found |= 2
				l.Patch, l.Version, l.SHA256, l.probe = p.Server.Patches[0].Name, p.Server.Patches[0].Version, p.Server.Patches[0].SHA256, p.Server.Patches[0].Probe
			}
		}
	}
	if found != 3 || len(v.Cells) != 2 {
		return l, without, with, ErrNoProbe
	}
	maps.Copy(l.Params, with.Params)
	delete(l.Params, "patches")
	return l, without, with, nil
}

func newSide(runs []record.Run, rounds map[string]int, data map[string]record.RunData, p stats.Positions) probeSide {
	s := probeSide{metrics: map[string]map[string][]float64{}}
	for _, r := range runs {
		d := data[r.ID]
		for _, m := range d.Metrics {
			if s.metrics[m.Name] == nil {
				s.metrics[m.Name] = map[string][]float64{}
			}
			if finite(m.Value) != nil {
				s.metrics[m.Name][m.Source] = append(s.metrics[m.Name][m.Source], m.Value)
			}
		}
		tpot, ok := math.NaN(), false
		if p.Unequal {
			tpot, ok = p.Reduce(d.Samples, d.Metrics)["tpot"]
		} else if m, has := preferred(d.Metrics)["tpot"]; has {
			tpot, ok = m.Value, true
		} else if m, has := preferred(d.Metrics)["tpot_mean"]; has {
			tpot, ok = m.Value, true
		}
		if ok && finite(tpot) != nil {
			s.tpot = append(s.tpot, stats.Launch{Round: rounds[r.SlotID], Value: tpot})
		}
	}
	return s
}

// pick is the median over runs of a metric from the first of the sources that has
// it.
func (s probeSide) pick(metric string, sources ...string) (v float64, source string, ok bool) {
	for _, source := range sources {
		if values := s.metrics[metric][source]; len(values) > 0 {
			return stats.Median(values), source, true
		}
	}
	return math.NaN(), "", false
}

// pairs gives the values of each round that both have; one run each.
func pairs(a, b []stats.Launch) [][2]float64 {
	var out [][2]float64
	for _, x := range a {
		for _, y := range b {
			if x.Round == y.Round {
				out = append(out, [2]float64{x.Value, y.Value})
			}
		}
	}
	return out
}

func middle(ls []stats.Launch) *float64 {
	values := make([]float64, len(ls))
	for i, l := range ls {
		values[i] = l.Value
	}
	return finite(stats.Median(values))
}

func verdictOf(c stats.Comparison) string {
	switch {
	case c.Separable == nil:
		return Unclear
	case c.Lo >= 1-probeTolerance && c.Hi <= 1+probeTolerance: // never with NaN
		return Negligible
	case *c.Separable && math.Abs(c.Mean-1) > probeTolerance:
		return Distorts
	}
	return Unclear
}

// minForInterval launches or rounds give an interval.
const minForInterval = 3

// perCycle says what the patch costs in a cycle: the difference of the times per
// token, pair by pair, times the tokens of a cycle.
func (l *ProbeLine) perCycle(pairs [][2]float64, accept float64) {
	n := float64(len(pairs))
	if n == 0 {
		return
	}
	mean, ss := 0.0, 0.0
	for _, p := range pairs {
		mean += (p[0] - p[1]) * accept / n
	}
	for _, p := range pairs {
		d := (p[0]-p[1])*accept - mean
		ss += d * d
	}
	l.MsPerCycle = &mean
	if len(pairs) >= minForInterval {
		half := stats.Quantile(n-1) * math.Sqrt(ss/(n-1)/n)
		lo, hi := mean-half, mean+half
		l.MsLo, l.MsHi = &lo, &hi
	}
}
