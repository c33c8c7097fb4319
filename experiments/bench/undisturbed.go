package bench

import (
	"cmp"
	"slices"
	"sort"
)

// Gap is the time between two successive chunks of a request, in microseconds
// since the epoch.
type Gap struct {
	Chunk        int // the earlier chunk's number, from 0
	FromUs, ToUs int64
}

// Undisturbed gives the gaps of each request, in the order of Requests, in whose
// time no request waited for its first token: a prefill stops the decoding of
// all others, so that only these gaps are those of decode cycles, as a profiler
// counts them. At concurrency 1 they are all there are. A failed request has
// none.
func (r Report) Undisturbed() [][]Gap {
	var waits waits
	if r.Job.Concurrency > 1 {
		waits = r.waits()
	}
	out := make([][]Gap, len(r.Requests))
	for i, q := range r.Requests {
		if !q.ok() {
			continue
		}
		for k := range len(q.ChunkUs) - 1 {
			g := Gap{k, q.StartUs + q.ChunkUs[k], q.StartUs + q.ChunkUs[k+1]}
			if !waits.touch(g) {
				out[i] = append(out[i], g)
			}
		}
	}
	return out
}

// waits are times, sorted and apart from each other.
type waits [][2]int64

// waits are those in which a request had been sent and no token of it had come.
// Its own gaps lie behind.
func (r Report) waits() waits {
	var all waits
	for _, q := range r.Requests {
		end := q.FirstTokenUs
		if end == 0 { // none ever came
			end = q.EndUs
		}
		if end > q.StartUs { // else it was never sent
			all = append(all, [2]int64{q.StartUs, end})
		}
	}
	slices.SortFunc(all, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
	var out waits
	for _, w := range all {
		if n := len(out); n > 0 && w[0] <= out[n-1][1] {
			out[n-1][1] = max(out[n-1][1], w[1])
			continue
		}
		out = append(out, w)
	}
	return out
}

// touch says whether a gap has time in common with one of them.
func (w waits) touch(g Gap) bool {
	i := sort.Search(len(w), func(i int) bool { return w[i][1] > g.FromUs })
	return i < len(w) && w[i][0] < g.ToUs
}

// leastGaps is below what a time per token is chance.
const leastGaps = 20

// undisturbedTPOT is the time per token in ms over the n undisturbed gaps that
// lie in the steady window; n is 0 when there are too few, and at concurrency 1,
// where tpot says the same.
func (r Report) undisturbedTPOT() (v float64, n int) {
	if min(r.Job.Concurrency, len(r.Requests)) <= 1 || r.SteadyEndUs <= r.SteadyStartUs {
		return 0, 0
	}
	us, tokens := 0.0, 0.0
	for i, gaps := range r.Undisturbed() {
		q := r.Requests[i]
		for _, g := range gaps {
			if g.FromUs >= r.SteadyStartUs && g.ToUs <= r.SteadyEndUs {
				us += float64(g.ToUs - g.FromUs)
				tokens += float64(q.OutputTokens-1) / float64(len(q.ChunkUs)-1)
				n++
			}
		}
	}
	if n < leastGaps || tokens <= 0 {
		return 0, 0
	}
	return us / 1000 / tokens, n
}
