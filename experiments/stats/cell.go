package stats

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"specrun/experiments/record"
)

// CellRun is a run of a cell that is done.
type CellRun struct {
	Launch string // id
	Round  int
	Data   record.RunData
}

// CellMetric is one metric of a cell, from one source, by launch.
type CellMetric struct {
	Unit, Source string
	Nests        []Nest
}

// Launches are the values that cells are compared by.
func (m CellMetric) Launches() []Launch { return Medians(m.Nests) }

// Median is the middle of the launches' medians.
func (m CellMetric) Median() float64 { return Summarize(values(m.Launches())).Median }

// CellMetrics reduces runs to one number a launch and metric, launches in the
// order of their first run. Numbers of two sources are never mixed: the one that
// more runs have comes before the nearer one, see NearerSource.
func CellMetrics(runs []CellRun) map[string]CellMetric {
	type key struct{ metric, source string }
	type value struct {
		launch string
		round  int
		v      float64
	}
	byKey := map[key][]value{}
	units := map[key]string{}
	for _, r := range runs {
		for _, m := range r.Data.Metrics {
			if math.IsNaN(m.Value) || math.IsInf(m.Value, 0) {
				continue
			}
			k := key{m.Name, m.Source}
			byKey[k] = append(byKey[k], value{r.Launch, r.Round, m.Value})
			units[k] = m.Unit
		}
	}
	chosen := map[string]key{}
	for k := range byKey {
		was, ok := chosen[k.metric]
		if !ok || cmp.Or(cmp.Compare(len(byKey[was]), len(byKey[k])), NearerSource(k.source, was.source)) < 0 {
			chosen[k.metric] = k
		}
	}
	out := map[string]CellMetric{}
	for name, k := range chosen {
		m := CellMetric{Unit: units[k], Source: k.source}
		at := map[string]int{}
		for _, v := range byKey[k] {
			i, ok := at[v.launch]
			if !ok {
				i = len(m.Nests)
				at[v.launch] = i
				m.Nests = append(m.Nests, Nest{})
			}
			m.Nests[i].Round, m.Nests[i].Runs = v.round, append(m.Nests[i].Runs, v.v)
		}
		out[name] = m
	}
	return out
}

// sources of a metric, the one nearest to what it measures first.
var sources = [...]string{"profiler", "per_request", "client", "server_counters", "server_log", "derived"}

// NearerSource compares sources: negative when a is nearer to what it measures
// than b. Others come after the known ones, by name.
func NearerSource(a, b string) int {
	rank := func(source string) int {
		if i := slices.Index(sources[:], source); i >= 0 {
			return i
		}
		return len(sources)
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
}

// OfLength says that a metric depends on how long the outputs are.
func OfLength(metric string) bool {
	return slices.ContainsFunc([]string{"cycle_", "tpot", "output_throughput", "total_throughput", "steady_throughput", "request_", "duration", "itl",
		"gen_throughput", "profiler_throughput", "e2e"}, func(prefix string) bool { return strings.HasPrefix(metric, prefix) })
}

// Over are the metrics of a run over these positions. What depends on the length
// of outputs and cannot be had for them is left out.
func (p Positions) Over(d record.RunData) []record.Metric {
	if !p.Unequal {
		return d.Metrics
	}
	reduced := p.Reduce(d.Samples, d.Metrics)
	var out []record.Metric
	for _, m := range d.Metrics {
		if v, ok := reduced[m.Name]; ok {
			delete(reduced, m.Name) // one source: the one that Reduce took
			m.Value = v
			out = append(out, m)
		} else if !OfLength(m.Name) {
			out = append(out, m)
		}
	}
	return out
}
