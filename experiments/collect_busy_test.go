package experiments

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"specrun/experiments/bench"
	"specrun/experiments/record"
	"specrun/experiments/trust"
)

// busy is a server that decodes for several clients at once, as engines do: what
// waits is prefilled before the next cycle, and all others stand still meanwhile.
// Times are ms.
type busy struct {
	at, requests  int // at once, in all
	least, most   int // tokens of a request
	prefill       float64
	cycle, each   float64 // of one request, and more for each further one
	slope         float64 // more for each token of context, of one request
	slow          float64 // factor on all cycles of the second half of the time; 0 is 1
	profilerShort float64 // by how much the profiler's intervals are too short, a fraction
	noBonus       bool
}

type busyRequest struct {
	bench.Request
	tokens, of int
	due        float64 // reaches the server
}

// run gives the client's report, and the profiler's rows as the log has them.
func (b busy) run(hash string) (r bench.Report, log string) {
	rng := rand.New(rand.NewPCG(1, 2))
	us := func(ms float64) int64 { return 100_000_000 + int64(1000*ms) }
	const way = 0.7 // to the client
	all := make([]*busyRequest, 0, b.requests)
	send := func(at float64) {
		q := &busyRequest{of: b.least + rng.IntN(b.most-b.least+1), due: at + way}
		q.Index, q.StartUs, q.PromptTokens, q.CachedTokens = len(all), us(at), 20, 0
		all = append(all, q)
	}
	for range b.at {
		send(0)
	}
	var waiting, running []*busyRequest
	next, now := 0, 0.0
	var row struct {
		cycles, tokens, batch int
		wall, from, to        float64
		requests              int
	}
	flush := func() {
		if row.cycles > 0 {
			log += fmt.Sprintf(`{"specrun":"profile","schema":1,"profiler":"profiling-v4","version":"1","hash":"%s","worker":"v1","rank":0,"t_start":%f,"t_end":%f,"cycles":%d,"wall_ms":%f,"batch_sum":%d,"batch_min":%d,"batch_max":%d,"tokens":%d,"steps":2,"bonus":%v,"request_cycles":%d}`,
				hash, 100+row.from/1000, 100+row.to/1000, row.cycles, row.wall*(1-b.profilerShort), row.requests, row.batch, row.batch, row.tokens, !b.noBonus, row.requests) + "\n"
		}
		row.cycles, row.tokens, row.wall, row.requests = 0, 0, 0, 0
	}
	var began float64 // of the cycle before, whose interval is not known yet
	var yielded int
	counts := false // its interval goes on to the next cycle
	for {
		for ; next < len(all) && all[next].due <= now; next++ {
			waiting = append(waiting, all[next])
		}
		switch {
		case len(waiting) > 0:
			flush()
			counts = false
			now += b.prefill * float64(len(waiting))
			for _, q := range waiting {
				q.tokens, q.FirstTokenUs = 1, us(now+way)
				q.ChunkUs = []int64{q.FirstTokenUs - q.StartUs}
			}
			running, waiting = append(running, waiting...), nil
			continue
		case len(running) == 0 && next == len(all):
			flush()
			for _, q := range all {
				r.Requests = append(r.Requests, q.Request)
			}
			return r, log
		case len(running) == 0:
			now = all[next].due
			continue
		}
		if counts {
			if row.cycles == 0 {
				row.from, row.batch = began, len(running)
			}
			row.cycles, row.tokens, row.wall, row.to = row.cycles+1, row.tokens+yielded, row.wall+now-began, now
			row.requests += len(running)
			if row.cycles == 25 {
				flush()
			}
		}
		began, yielded = now, 0
		cycle := b.cycle + b.each*float64(len(running)-1)
		for _, q := range running {
			cycle += b.slope * float64(q.tokens)
		}
		if b.slow > 0 && len(all) > b.requests/2 {
			cycle *= b.slow
		}
		now += cycle
		counts = true
		running = slices.DeleteFunc(running, func(q *busyRequest) bool {
			n := 1 + rng.IntN(3)
			yielded += n
			q.tokens = min(q.tokens+n, q.of)
			q.VerifyCalls++
			q.ChunkUs = append(q.ChunkUs, us(now+way)-q.StartUs)
			if q.tokens < q.of {
				return false
			}
			q.EndUs, q.OutputTokens = us(now+way), q.tokens
			if len(all) < b.requests {
				send(now + way + 0.2)
			}
			flush()
			counts = false
			return true
		})
		if b.noBonus {
			yielded -= len(running)
		}
	}
}

// window makes what Collect gets of it.
func (b busy) window(t *testing.T) Window {
	return window(t, func(r *bench.Report, w *Window) {
		made, log := b.run(w.Patches.Patches[0].SHA256[:12])
		w.Log, w.LogStart = []byte(log), 10
		r.Requests, r.Job.Concurrency, w.Cell.Bench.Concurrency = made.Requests, b.at, b.at
		r.LogStart, r.LogEnd = 10, 10+int64(len(log))
		var firsts []int64
		last := int64(0)
		for _, q := range made.Requests {
			firsts = append(firsts, q.FirstTokenUs)
			last, r.EndUs = max(last, q.StartUs), max(r.EndUs, q.EndUs)
		}
		slices.Sort(firsts)
		r.SteadyStartUs, r.SteadyEndUs = firsts[b.at-1], r.EndUs
		for _, q := range made.Requests {
			if q.EndUs > last {
				r.SteadyEndUs = min(r.SteadyEndUs, q.EndUs)
			}
		}
	})
}

// A busy server that tells the truth is believed, however much of its time goes
// to prefills, ramp and drain; one that does not is not.
func TestCollect_SeveralAtOnce(t *testing.T) {
	t.Parallel()
	usual := busy{at: 8, requests: 40, least: 150, most: 250, prefill: 30, cycle: 24, each: 0.3}
	for _, c := range []struct {
		name   string
		change func(*busy)
		label  string
		part   string
		steady record.Outcome
		claim  record.Outcome
	}{
		{name: "prefills of 30 ms", change: func(*busy) {}, steady: record.Pass, claim: record.Pass},
		{name: "no time for prefills", change: func(b *busy) { b.prefill = 0.1 }, steady: record.Pass, claim: record.Pass},
		{name: "prefills that take most of the time", change: func(b *busy) { b.prefill = 400 }, steady: record.Pass, claim: record.Pass},
		{name: "prefills of two seconds", change: func(b *busy) { b.prefill = 2000 }, steady: record.Pass, claim: record.Pass},
		{name: "outputs of one length", change: func(b *busy) { b.least = b.most }, steady: record.Pass, claim: record.Pass},
		{name: "cycles that cost more with the context", change: func(b *busy) { b.slope = 0.0006 }, steady: record.Pass, claim: record.Pass},
		{name: "batches that cost much", change: func(b *busy) { b.each = 2 }, steady: record.Pass, claim: record.Pass},
		{name: "two at once, few requests", change: func(b *busy) { b.at, b.requests = 2, 5 }, steady: record.Pass, claim: record.Pass},
		{name: "a profiler whose cycles are too short", change: func(b *busy) { b.profilerShort = 0.1 }, label: trust.Disagree, part: trust.CheckSteady, steady: record.Fail, claim: record.Fail},
		{name: "a profiler without the bonus", change: func(b *busy) { b.noBonus = true }, label: trust.Disagree, part: trust.CheckClaim, steady: record.Pass, claim: record.Fail},
		{name: "a server that became slower", change: func(b *busy) { b.slow = 1.1 }, label: trust.Noisy, part: "of three requests", steady: record.Pass, claim: record.Pass},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := usual
			c.change(&b)
			d, names := labels(t, b.window(t))
			for _, want := range []struct {
				check string
				is    record.Outcome
			}{{trust.CheckSteady, c.steady}, {trust.CheckClaim, c.claim}} {
				if got := check(t, d, want.check); got.Outcome != want.is {
					t.Errorf("%s: %s: %s", got.Name, got.Outcome, got.Explanation)
				}
			}
			for _, name := range []string{trust.Disagree, trust.Noisy} {
				if name != c.label && slices.Contains(strings.Fields(names), name) {
					t.Errorf("labels: %+v", d.Labels)
				}
			}
			if c.label != "" && !slices.ContainsFunc(d.Labels, func(l record.Label) bool { return l.Name == c.label && strings.Contains(l.Reason, c.part) }) {
				t.Errorf("no %s with %q: %+v", c.label, c.part, d.Labels)
			}
		})
	}
}
