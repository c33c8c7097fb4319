package stats

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"

	"specrun/experiments/record"
)

// row is one summary of a profiler, put together again from its samples. What
// the profiler did not say is NaN.
type row struct {
	rank               string
	total              float64 // ms per cycle
	cycles             float64
	context            float64
	batchMin, batchMax float64
	tokens             float64
	requestCycles      float64
	acceptLen          float64
}

// wall is the time of all its cycles, ms.
func (r row) wall() float64 { return r.total * r.cycles }

// batch is its number of requests throughout, NaN when it is not known or
// changed.
func (r row) batch() float64 {
	if r.batchMin == r.batchMax {
		return r.batchMin
	}
	return math.NaN()
}

// yield is the tokens and request-cycles that its accept length rests on.
func (r row) yield() (tokens, requestCycles float64, ok bool) {
	if r.requestCycles > 0 && !math.IsNaN(r.tokens) {
		return r.tokens, r.requestCycles, true
	}
	n := r.cycles * r.batch()
	return r.acceptLen * n, n, r.acceptLen > 0 && n > 0
}

// profilerRows gives the rows that say how many cycles took how long, in their
// order, of the rank whose cycles are longest: a group of ranks is as fast as its
// slowest one, and data-parallel ranks have cycles of their own.
func profilerRows(samples []record.Sample) []row {
	type key struct{ rank, row string }
	at := map[key]int{}
	var all []row
	for _, s := range samples {
		if s.Source != "profiler" {
			continue
		}
		k := key{s.Labels["rank"], s.Labels["row"]}
		if k.row == "" {
			if s.AtUs == 0 {
				continue // without number and time nothing says which belong together
			}
			k.row = "at " + strconv.FormatInt(s.AtUs, 10)
		}
		i, ok := at[k]
		if !ok {
			i = len(all)
			at[k] = i
			nan := math.NaN()
			all = append(all, row{rank: k.rank, total: nan, cycles: nan, context: nan, batchMin: nan, batchMax: nan, tokens: nan, requestCycles: nan, acceptLen: nan})
		}
		if f := all[i].field(s.Name); f != nil {
			*f = s.Value
		}
	}
	wall, cycles := map[string]float64{}, map[string]float64{}
	all = slices.DeleteFunc(all, func(r row) bool { return !(r.cycles > 0) || !(r.total > 0) || math.IsInf(r.total, 0) })
	for _, r := range all {
		wall[r.rank] += r.wall()
		cycles[r.rank] += r.cycles
	}
	ranks := slices.Sorted(maps.Keys(wall))
	if len(ranks) < 2 {
		return all
	}
	slowest := slices.MaxFunc(ranks, func(a, b string) int { return cmp.Compare(wall[a]/cycles[a], wall[b]/cycles[b]) })
	return slices.DeleteFunc(all, func(r row) bool { return r.rank != slowest })
}

func (r *row) field(name string) *float64 {
	switch name {
	case "cycle_total":
		return &r.total
	case "cycles":
		return &r.cycles
	case "context":
		return &r.context
	case "batch_min":
		return &r.batchMin
	case "batch_max":
		return &r.batchMax
	case "tokens":
		return &r.tokens
	case "request_cycles":
		return &r.requestCycles
	case "accept_len":
		return &r.acceptLen
	}
	return nil
}
