package bench

import (
	"fmt"
	"math"
	"slices"
)

// steady finds the part of the load in which it was whole, by the rule that
// r.SteadyRule then says in words: the ramp ends when as many requests as are
// sent at once have had their first token; the drain begins when fewer are in
// flight and none is left to send. At concurrency 1 there is neither.
func (r *Report) steady() {
	r.SteadyStartUs, r.SteadyEndUs = 0, 0
	c := min(r.Job.Concurrency, len(r.Requests))
	if c == 1 {
		r.SteadyRule = "each request from its first token to its last"
		for _, q := range r.done() {
			if r.SteadyStartUs == 0 || q.FirstTokenUs < r.SteadyStartUs {
				r.SteadyStartUs = q.FirstTokenUs
			}
			r.SteadyEndUs = max(r.SteadyEndUs, q.EndUs)
		}
		return
	}
	var firsts []int64
	lastStart := int64(0)
	for _, q := range r.Requests {
		if q.FirstTokenUs > 0 {
			firsts = append(firsts, q.FirstTokenUs)
		}
		lastStart = max(lastStart, q.StartUs)
	}
	drain := int64(math.MaxInt64)
	for _, q := range r.Requests {
		if q.EndUs > lastStart {
			drain = min(drain, q.EndUs)
		}
	}
	slices.Sort(firsts)
	switch {
	case c == 0 || len(firsts) < c:
		r.SteadyRule = fmt.Sprintf("none: fewer than %d requests had a first token", r.Job.Concurrency)
	case firsts[c-1] >= drain:
		r.SteadyRule = fmt.Sprintf("none: the first of %d requests ended before all had their first token", c)
	default:
		r.SteadyStartUs, r.SteadyEndUs = firsts[c-1], drain
		r.SteadyRule = fmt.Sprintf("from the moment when %d requests had had their first token until fewer than %d were in flight with none left to send", c, c)
	}
}

// steadyThroughput is in tokens per second over n requests: at concurrency 1
// decode tokens over decode time, else the decode tokens of the steady window
// over its length. n is 0 when there is no such window.
func (r Report) steadyThroughput() (v float64, n int) {
	if r.SteadyEndUs <= r.SteadyStartUs {
		return 0, 0
	}
	tokens, us := 0.0, 0.0
	for _, q := range r.done() {
		if len(q.Positions) == 0 {
			if q.OutputTokens > 1 {
				return 0, 0 // how its tokens lie in time is not known
			}
			continue
		}
		from, to := max(q.FirstTokenUs, r.SteadyStartUs), min(q.EndUs, r.SteadyEndUs)
		if from >= to {
			continue
		}
		tokens += q.tokensUntil(float64(to-q.FirstTokenUs)) - q.tokensUntil(float64(from-q.FirstTokenUs))
		us += float64(to - from)
		n++
	}
	if min(r.Job.Concurrency, len(r.Requests)) > 1 {
		us = float64(r.SteadyEndUs - r.SteadyStartUs)
	}
	if tokens <= 0 || us <= 0 {
		return 0, 0
	}
	return tokens / us * 1e6, n
}
