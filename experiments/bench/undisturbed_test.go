package bench

import (
	"math"
	"testing"
)

// A request that joins is prefilled, and the others stand still meanwhile: their
// time per token is that of the cycles beside it.
func TestUndisturbed_LeavesOutTheTimeOfPrefills(t *testing.T) {
	still := func(start, first, end int64) Request { // one token each 10 ms, but none from 205 to 305 ms
		q := Request{StartUs: start, FirstTokenUs: first, EndUs: end}
		for at := first; at <= end; at += 10_000 {
			if at == 210_000 {
				at = 310_000
			}
			q.ChunkUs = append(q.ChunkUs, at-start)
		}
		q.OutputTokens = 1 + 2*(len(q.ChunkUs)-1)
		return q
	}
	r := Report{Job: Job{Concurrency: 2}, Requests: []Request{
		still(0, 10_000, 700_000), still(0, 20_000, 200_000), still(203_000, 306_000, 606_000),
	}}
	r.steady()
	gaps := r.Undisturbed()
	// The first: of 60 gaps one goes from 20 ms, when the second had its first
	// token, one to 200 ms, one over the prefill.
	for _, g := range gaps[0] {
		if g.FromUs < 20_000 || g.FromUs < 306_000 && g.ToUs > 203_000 {
			t.Errorf("%+v has a prefill in it", g)
		}
		if g.ToUs-g.FromUs != 10_000 {
			t.Errorf("%+v", g)
		}
	}
	if len(gaps[0]) != 18+39 || len(gaps[1]) != 18 || len(gaps[2]) != 30 || gaps[2][0].Chunk != 0 {
		t.Errorf("%d, %d, %d gaps", len(gaps[0]), len(gaps[1]), len(gaps[2]))
	}
	if v, n := r.undisturbedTPOT(); n != 18+18+29+30 || math.Abs(v-5) > 1e-9 {
		t.Errorf("%v ms a token over %d gaps from %d to %d, want 5 ms of 10 ms gaps", v, n, r.SteadyStartUs, r.SteadyEndUs)
	}
	r.Job.Concurrency = 1
	if n := len(r.Undisturbed()[0]); n != len(r.Requests[0].ChunkUs)-1 {
		t.Errorf("%d gaps of one request at a time", n)
	}
	if _, n := r.undisturbedTPOT(); n != 0 {
		t.Error("one at a time: tpot says the same")
	}
}

func TestUndisturbed_OfFailedRequests(t *testing.T) {
	r := Report{Job: Job{Concurrency: 2}, Requests: []Request{
		{StartUs: 0, FirstTokenUs: 10, EndUs: 100, ChunkUs: []int64{10, 20, 30, 40}, OutputTokens: 4},
		{StartUs: 15, EndUs: 35, Error: "timeout"}, {StartUs: 5, Error: "never sent"},
	}}
	if gaps := r.Undisturbed(); len(gaps[0]) != 0 || gaps[1] != nil {
		t.Errorf("%+v: the other waited in all of them", gaps)
	}
	r.Requests[1].EndUs = 28
	if gaps := r.Undisturbed(); len(gaps[0]) != 1 || gaps[0][0] != (Gap{2, 30, 40}) {
		t.Errorf("%+v", gaps)
	}
}
