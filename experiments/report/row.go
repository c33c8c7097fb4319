package report

import (
	"math"
	"slices"

	"specrun/experiments/record"
	"specrun/experiments/stats"
)

// sources of a metric, the one nearest to what it measures first.
var sources = [...]string{"profiler", "per_request", "client", "server_log", "derived"}

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
	row.nests = map[string][]stats.Nest{}
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
		var nests []stats.Nest
		for _, id := range order {
			nests = append(nests, stats.Nest{Round: rounds[id], Runs: values[id]})
		}
		row.nests[name], row.launches[name] = nests, stats.Medians(nests)
		row.Metrics[name] = metricValue(units[k], stats.Summarize(valuesOf(row.launches[name])))
	}
}

func valuesOf(ls []stats.Launch) []float64 {
	out := make([]float64, len(ls))
	for i, l := range ls {
		out[i] = l.Value
	}
	return out
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
