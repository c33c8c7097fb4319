package stats

import (
	"cmp"
	"math"
	"slices"

	"specrun/experiments/record"
)

// BatchLine is what a run's cycles with one number of requests gave.
type BatchLine struct {
	Batch, Cycles int
	Total         float64 // ms per cycle
	AcceptLen     float64 // tokens per request and cycle, the bonus one included; NaN unknown
	Throughput    float64 // tokens per second over these cycles; NaN unknown
}

// ByBatch splits a run by the number of requests in a cycle, least first. Only
// rows with one number throughout count: one that mixes two is neither's. With
// several ranks it is the slowest one's.
func ByBatch(samples []record.Sample) []BatchLine {
	type sums struct{ cycles, wall, tokens, requestCycles, yieldWall float64 }
	by := map[int]*sums{}
	for _, r := range profilerRows(samples) {
		b := r.batch()
		if !(b >= 1) {
			continue
		}
		s := by[int(b)]
		if s == nil {
			s = &sums{}
			by[int(b)] = s
		}
		s.cycles += r.cycles
		s.wall += r.wall()
		if tokens, n, ok := r.yield(); ok {
			s.tokens, s.requestCycles, s.yieldWall = s.tokens+tokens, s.requestCycles+n, s.yieldWall+r.wall()
		}
	}
	var out []BatchLine
	for b, s := range by {
		line := BatchLine{Batch: b, Cycles: int(s.cycles), Total: s.wall / s.cycles, AcceptLen: math.NaN(), Throughput: math.NaN()}
		if s.requestCycles > 0 {
			line.AcceptLen, line.Throughput = s.tokens/s.requestCycles, s.tokens/s.yieldWall*1000
		}
		out = append(out, line)
	}
	slices.SortFunc(out, func(a, b BatchLine) int { return cmp.Compare(a.Batch, b.Batch) })
	return out
}
