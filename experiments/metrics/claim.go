package metrics

import (
	"math"
	"regexp"

	"specrun/experiments/record"
)

// A claim is what a profiler says of the speed, by its own definition. It is
// kept apart from what is computed of the profiler's sums by specrun's: a
// profiler that leaves out the bonus token claims an accept length of 0.87 where
// accept_len is 1.87.

// reRate is a block's row of tokens per second.
var reRate = regexp.MustCompile(`^[ \t]+(?:rate|throughput|speed)[ \t]*[:=][ \t]*([-+]?\d[\d.,]*(?:[eE][-+]?\d+)?)[ \t]*tok(?:ens)?/s(?:ec)?[ \t]*$`)

// rateWords are in every such row, one of them.
var rateWords = []string{"tok/s", "tokens/s"}

// rate attaches a printed rate to the block it stands in or right behind.
func (r *blockReader) rate(e *entry) bool {
	if len(e.msg) > maxRow || !containsAny(e.msg, rateWords) {
		return false
	}
	m := reRate.FindStringSubmatch(e.msg)
	if m == nil {
		return false
	}
	b := r.track(e).newest()
	if b == nil || !b.rate.IsNull() {
		return false
	}
	if f, ok := parseNumber(m[1], 0); ok {
		b.rate = Number(f)
		b.end = e.end
	}
	return true
}

// newest is the block that a row of no particular place belongs to; nil for none.
func (t *track) newest() *block {
	if n := len(t.open); n > 0 {
		return t.open[n-1]
	}
	return t.closed
}

// printedRate is a block's tok/s; NaN when it prints none.
func (b *block) printedRate() float64 {
	if b == nil || b.ambiguous {
		return nan
	}
	if f, ok := b.rate.Float(); ok {
		return f
	}
	return nan
}

// Yielded is how many tokens the counted cycles put out, bonus included, whatever
// the profiler counts; ok is false when it does not say.
func (r *ProfilerRow) Yielded() (tokens int, ok bool) {
	if r.Tokens < 0 || r.RequestCycles <= 0 {
		return 0, false
	}
	if !r.Bonus {
		return r.Tokens + r.RequestCycles, true
	}
	return r.Tokens, true
}

// claims sums what the rows of a rank claim.
type claims struct {
	tokens, requestCycles int     // as the profiler counts
	accept                float64 // printed accept length x cycles, of rows without sums
	acceptCycles          int
	rate, rateWall        float64 // printed tok/s x ms
	rateCycles            int
}

func (c *claims) add(r ProfilerRow, cycles int) {
	if r.Tokens >= 0 && r.RequestCycles > 0 {
		c.tokens += r.Tokens
		c.requestCycles += r.RequestCycles
	} else if !math.IsNaN(r.AcceptLen) {
		c.accept += r.AcceptLen * float64(cycles)
		c.acceptCycles += cycles
	}
	if !math.IsNaN(r.Rate) {
		c.rate += r.Rate * r.WallMs
		c.rateWall += r.WallMs
		c.rateCycles += cycles
	}
}

// metrics gives claimed_accept_len and claimed_throughput, as the profiler
// states them; a number that it does not state is absent.
func (c *claims) metrics() []record.Metric {
	var out []record.Metric
	put := func(name, unit string, v float64, n int) {
		out = append(out, record.Metric{Name: name, Unit: unit, Value: v, N: n, Source: sourceProfiler})
	}
	switch {
	case c.requestCycles > 0:
		put("claimed_accept_len", "tokens/step", float64(c.tokens)/float64(c.requestCycles), c.requestCycles)
	case c.acceptCycles > 0:
		put("claimed_accept_len", "tokens/step", c.accept/float64(c.acceptCycles), c.acceptCycles)
	}
	if c.rateWall > 0 {
		put("claimed_throughput", "tok/s", c.rate/c.rateWall, c.rateCycles)
	}
	return out
}
