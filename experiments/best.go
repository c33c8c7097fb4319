package experiments

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"specrun/experiments/record"
	"specrun/experiments/stats"
)

// Best is the ord of the plan's cell that a report calls the best: the best
// median over launches of the objective, among cells without a failed run, the
// earlier of equal ones. A metric of cycles does not rank cells of different
// steps. Results of cells that were added later do not count. False when there
// is none. It is pure.
func (p *Plan) Best(results []record.Result) (ord int, ok bool) {
	objective := objectiveIn(firstOf(p.Objective, defaultObjective), results)
	failed := map[int]bool{}
	byCell := map[int][]record.Result{}
	for _, r := range results {
		switch {
		case r.Cell.Ord >= len(p.Cells):
		case r.Run.State == record.RunFailed:
			failed[r.Cell.Ord] = true
		case r.Run.State == record.RunDone:
			byCell[r.Cell.Ord] = append(byCell[r.Cell.Ord], r)
		}
	}
	best, found := math.NaN(), false
	shapes := map[int]bool{}
	for _, c := range p.Cells {
		if failed[c.Ord] {
			continue
		}
		v, measured := medianOfLaunches(objective, byCell[c.Ord])
		if !measured {
			continue
		}
		shapes[steps(c)] = true
		if !found || v > best && !lowestWins(objective) || v < best && lowestWins(objective) {
			ord, best, found = c.Ord, v, true
		}
	}
	if strings.HasPrefix(objective, "cycle_") && len(shapes) > 1 {
		return 0, false
	}
	return ord, found
}

// objectiveIn is the metric that an objective names: tpot may be there as its
// mean only.
func objectiveIn(objective string, results []record.Result) string {
	mean := false
	for _, r := range results {
		for _, m := range r.Metrics {
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

// lowestWins says which way an objective goes.
func lowestWins(metric string) bool {
	return slices.ContainsFunc([]string{"cycle_", "tpot", "ttft", "itl", "request_latency", "e2e"},
		func(prefix string) bool { return strings.HasPrefix(metric, prefix) })
}

// nearness orders the sources of a metric, the one nearest to what it measures
// first.
var nearness = [...]string{"profiler", "per_request", "client", "server_log", "derived"}

// medianOfLaunches is the middle of the launches' medians, from the one source
// that most runs have.
func medianOfLaunches(metric string, runs []record.Result) (float64, bool) {
	bySource := map[string]map[string][]float64{} // source -> launch -> values
	count := map[string]int{}
	for _, r := range runs {
		for _, m := range r.Metrics {
			if m.Name != metric || math.IsNaN(m.Value) || math.IsInf(m.Value, 0) {
				continue
			}
			if bySource[m.Source] == nil {
				bySource[m.Source] = map[string][]float64{}
			}
			bySource[m.Source][r.Run.LaunchID] = append(bySource[m.Source][r.Run.LaunchID], m.Value)
			count[m.Source]++
		}
	}
	sources := sortedKeys(bySource)
	if len(sources) == 0 {
		return 0, false
	}
	rank := func(source string) int {
		if i := slices.Index(nearness[:], source); i >= 0 {
			return i
		}
		return len(nearness)
	}
	slices.SortStableFunc(sources, func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(rank(a), rank(b)))
	})
	var medians []float64
	for _, launch := range sortedKeys(bySource[sources[0]]) {
		medians = append(medians, stats.Median(bySource[sources[0]][launch]))
	}
	return stats.Median(medians), true
}
