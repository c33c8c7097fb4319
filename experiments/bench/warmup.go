package bench

import (
	"context"
	"fmt"
	"math"
)

// Warmup is how the server was warmed up before the measured requests.
type Warmup struct {
	Auto    bool    `json:"auto"`    // judged; else a given number, sent unseen
	Sent    int     `json:"sent"`    // requests
	Settled bool    `json:"settled"` // Auto: two successive rounds of requests agreed
	Spread  float64 `json:"spread"`  // Auto: how far the last two compared were apart, as a fraction; -1 none could be compared
	Rule    string  `json:"rule"`    // in words
}

// The rule of the automatic warm-up. Rows and tokens rise in cost with the
// position inside a request, so only whole requests are compared, over the
// positions that all of them have.
const (
	warmMost      = 5    // rounds in all: one dropped, four more
	warmAgree     = 0.02 // of the mean
	warmFewChunks = 8    // below it a time per chunk is chance
)

const warmRule = "auto: the first is dropped, then until two successive ones agree within 2 % in time per chunk at equal positions, at most 4 more"

// WarmupMost is the greatest and WarmupLikely the usual number of requests of
// an automatic warm-up: it sends rounds of as many requests as are measured at
// once.
func WarmupMost(concurrency int) int { return warmMost * concurrency }

// WarmupLikely is what an automatic warm-up of a server in order sends.
func WarmupLikely(concurrency int) int { return 3 * concurrency }

func (j Job) warmupMost() int {
	if j.WarmupAuto {
		return WarmupMost(j.Concurrency)
	}
	return j.Warmup
}

// warm sends the warm-up requests. Those with an error are counted by the
// caller.
func (b *benchmark) warm(ctx context.Context, texts []string) (w Warmup, sent []Request, stalled bool) {
	if !b.job.WarmupAuto {
		sent, stalled = b.load(ctx, PhaseWarm, texts)
		return Warmup{Sent: len(sent), Spread: -1, Rule: fmt.Sprintf("%d requests, not judged", len(sent))}, sent, stalled
	}
	w, sent, stalled = warmUp(texts, b.job.Concurrency, func(texts []string) ([]Request, bool) {
		out, stalled := b.load(ctx, PhaseWarm, texts)
		b.earlier += len(texts)
		return out, stalled || ctx.Err() != nil
	})
	b.earlier = 0
	return w, sent, stalled && ctx.Err() == nil
}

// warmUp sends rounds of texts until two successive ones agree. send says with
// its second result that nothing more is to be sent.
func warmUp(texts []string, concurrency int, send func([]string) ([]Request, bool)) (w Warmup, sent []Request, stopped bool) {
	w = Warmup{Auto: true, Spread: -1, Rule: warmRule}
	if concurrency > 1 {
		w.Rule += fmt.Sprintf(" (rounds of %d requests at once)", concurrency)
	}
	var before []Request
	for n := 0; len(texts) > 0 && n < warmMost && !w.Settled; n++ {
		size := min(concurrency, len(texts))
		round, stop := send(texts[:size])
		texts = texts[size:]
		for i := range round {
			round[i].Index = w.Sent + i
		}
		w.Sent += len(round)
		sent = append(sent, round...)
		if stop {
			return w, sent, true
		}
		if n >= 2 { // the first one is dropped
			if spread := apart(before, round); !math.IsNaN(spread) {
				w.Spread, w.Settled = spread, spread <= warmAgree
			}
		}
		before = round
	}
	return w, sent, false
}

// apart is the distance of two rounds of requests in time per chunk over their
// mean, over the positions that all requests of both have; NaN when that cannot
// be had: a request failed, or is too short. A chunk is what one cycle gave, so
// acceptance does not matter.
func apart(a, b []Request) float64 {
	common := math.MaxInt
	for _, list := range [][]Request{a, b} {
		if len(list) == 0 {
			return math.NaN()
		}
		for _, q := range list {
			if !q.ok() || len(q.Positions) == 0 {
				return math.NaN()
			}
			common = min(common, q.Positions[len(q.Positions)-1].Tokens)
		}
	}
	ta, tb := perChunk(a, common), perChunk(b, common)
	return math.Abs(ta-tb) / ((ta + tb) / 2)
}

// perChunk is the time per chunk until each request's position k, in us.
func perChunk(list []Request, k int) float64 {
	us, chunks := 0.0, 0.0
	for _, q := range list {
		t := q.elapsed(float64(k))
		n := q.chunksUntil(t)
		if n < warmFewChunks {
			return math.NaN()
		}
		us, chunks = us+t, chunks+n
	}
	return us / chunks
}
