package stats

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"specrun/experiments/record"
)

// Positions is what all runs of a comparison have in common. A cycle costs more
// the longer the context, so a run whose outputs are longer is slower for that
// reason alone: runs with unequal outputs are compared over the positions that
// all of them have.
type Positions struct {
	// Tokens, by request: the tokens after its first one that every run has.
	Tokens map[string]int
	// ContextLo and ContextHi bound the contexts that the profiler rows of every
	// run with such rows reach; NaN when there is no such range.
	ContextLo, ContextHi float64
	Unequal              bool // some request's output is longer in one run than in another, or missing
	Least, Most          int  // output tokens of the run with fewest, and with most; 0 unknown
}

// CommonPositions finds what runs have in common, given the samples of each.
// When one of them has no positions at all (it was read from a log, or stored by
// an older specrun) Tokens is empty and nothing is known to be unequal.
func CommonPositions(runs ...[]record.Sample) Positions {
	p := Positions{Tokens: map[string]int{}, ContextLo: math.NaN(), ContextHi: math.NaN()}
	p.contexts(runs)
	all := make([]map[string]*curve, len(runs))
	for i, samples := range runs {
		all[i] = curves(samples)
		if len(all[i]) == 0 {
			return p
		}
	}
	if len(all) == 0 {
		return p
	}
	for i, run := range all {
		total := 0
		for _, c := range run {
			total += c.end().tokens + 1
		}
		if i == 0 {
			p.Least = total
		}
		p.Least, p.Most = min(p.Least, total), max(p.Most, total)
	}
	for request, c := range all[0] {
		least, most, everywhere := c.end().tokens, c.end().tokens, true
		for _, other := range all[1:] {
			o := other[request]
			if o == nil {
				everywhere = false
				break
			}
			least, most = min(least, o.end().tokens), max(most, o.end().tokens)
		}
		if everywhere {
			p.Tokens[request] = least
		}
		p.Unequal = p.Unequal || !everywhere || least != most
	}
	for _, other := range all[1:] {
		p.Unequal = p.Unequal || len(other) != len(all[0])
	}
	return p
}

// contexts finds the range that the rows of all runs with rows reach.
func (p *Positions) contexts(runs [][]record.Sample) {
	for _, samples := range runs {
		lo, hi := math.Inf(1), math.Inf(-1)
		for _, r := range profilerRows(samples) {
			if !math.IsNaN(r.context) {
				lo, hi = min(lo, r.context), max(hi, r.context)
			}
		}
		if lo > hi {
			continue
		}
		if math.IsNaN(p.ContextLo) {
			p.ContextLo, p.ContextHi = lo, hi
		}
		p.ContextLo, p.ContextHi = max(p.ContextLo, lo), min(p.ContextHi, hi)
	}
	if p.ContextLo > p.ContextHi {
		p.ContextLo, p.ContextHi = math.NaN(), math.NaN()
	}
}

// The metrics that Reduce gives, with whose number of them counts.
var reduced = []struct{ name, source string }{{"output_throughput", "client"}, {"tpot", "client"}, {"cycle_total", "profiler"}}

// Reduce gives output_throughput (tok/s), tpot and cycle_total (ms) of one run
// over these positions only, of its samples and metrics; a metric is absent when
// that cannot be had. Where nothing is unequal they are the run's own metrics.
//
// output_throughput is the common tokens over the time the requests took for
// them, times the requests that were in flight on average. cycle_total is that of
// the rows inside the common contexts, moved along the run's own slope to the
// middle of them, since rows are too coarse to end where two runs do.
func (p Positions) Reduce(samples []record.Sample, ms []record.Metric) map[string]float64 {
	out := map[string]float64{}
	if !p.Unequal {
		for _, r := range reduced {
			if v, ok := metricOf(ms, r.name, r.source); ok {
				out[r.name] = v
			}
		}
		return out
	}
	if v, ok := p.cycleTotal(profilerRows(samples)); ok {
		out["cycle_total"] = v
	}
	if len(p.Tokens) == 0 {
		return out
	}
	all := curves(samples)
	var tokens, timed, decode, latency float64
	ttft := true
	for request, k := range p.Tokens {
		c := all[request]
		if c == nil || c.end().tokens < k {
			return out // not one of the runs that these are the positions of
		}
		elapsed := c.at(k)
		if k > 0 {
			decode, timed = decode+elapsed, timed+float64(k)
		}
		tokens, latency = tokens+float64(k)+1, latency+c.ttft+elapsed
		ttft = ttft && c.hasTTFT
	}
	if timed > 0 && decode > 0 {
		out["tpot"] = decode / timed
	}
	if inFlight, ok := metricOf(ms, "concurrency", "client"); ok && ttft && latency > 0 {
		out["output_throughput"] = inFlight * tokens / latency * 1000
	}
	return out
}

// cycleTotal is the time of a cycle in the middle of the common contexts.
func (p Positions) cycleTotal(rows []row) (float64, bool) {
	var wall, cycles, context float64
	for _, r := range rows {
		if r.context >= p.ContextLo && r.context <= p.ContextHi {
			wall, cycles, context = wall+r.wall(), cycles+r.cycles, context+r.cycles*r.context
		}
	}
	if cycles == 0 {
		return math.NaN(), false
	}
	v := wall / cycles
	if s, ok := fitSlope(rows); ok {
		v += s.PerThousand / 1000 * ((p.ContextLo+p.ContextHi)/2 - context/cycles)
	}
	return v, true
}

func metricOf(ms []record.Metric, name, source string) (float64, bool) {
	for _, m := range ms {
		if m.Name == name && m.Source == source && !math.IsNaN(m.Value) && !math.IsInf(m.Value, 0) {
			return m.Value, true
		}
	}
	return math.NaN(), false
}

// point says when so many tokens after the first one had come, in ms since it.
type point struct {
	tokens  int
	elapsed float64
}

// curve is one request: its time to first token, and how it went on.
type curve struct {
	ttft    float64
	hasTTFT bool
	points  []point
	ended   bool
}

// curves are the requests of a run whose whole course is known.
func curves(samples []record.Sample) map[string]*curve {
	out := map[string]*curve{}
	of := func(s record.Sample) *curve {
		c := out[s.Labels["request"]]
		if c == nil {
			c = &curve{}
			out[s.Labels["request"]] = c
		}
		return c
	}
	for _, s := range samples {
		if s.Source != "client" || s.Labels["request"] == "" {
			continue
		}
		switch s.Name {
		case "request_ttft":
			c := of(s)
			c.ttft, c.hasTTFT = s.Value, true
		case "decode_elapsed":
			k, err := strconv.Atoi(s.Labels["position"])
			if err != nil || k < 0 {
				continue
			}
			c := of(s)
			c.points = append(c.points, point{k, s.Value})
			c.ended = c.ended || s.Labels["end"] == "true"
		}
	}
	for request, c := range out {
		if !c.ended {
			delete(out, request)
			continue
		}
		slices.SortFunc(c.points, func(a, b point) int { return cmp.Compare(a.tokens, b.tokens) })
	}
	return out
}

func (c *curve) end() point { return c.points[len(c.points)-1] }

// at is the time until k tokens after the first one. Between the kept positions it
// follows a monotone cubic: time per token rises with the context, and a straight
// line would make a request that goes on look slower there than one that ends.
func (c *curve) at(k int) float64 {
	points := append([]point{{}}, c.points...)
	i := slices.IndexFunc(points, func(p point) bool { return p.tokens >= k })
	switch {
	case i < 0:
		return c.end().elapsed
	case i == 0 || points[i].tokens == k:
		return points[i].elapsed
	}
	from, to := points[i-1], points[i]
	h := float64(to.tokens - from.tokens)
	d0, d1 := slopeAt(points, i-1), slopeAt(points, i)
	t := float64(k-from.tokens) / h
	return from.elapsed*(1+2*t)*(1-t)*(1-t) + to.elapsed*t*t*(3-2*t) + h*t*(1-t)*(d0*(1-t)-d1*t)
}

// slopeAt is the time per token at a point: between its neighbours, and at the
// ends what continues them, without turning round. A context makes neighbours
// differ by little; where they differ by more, one of them has a stall, which is
// not to bend the other.
func slopeAt(points []point, i int) float64 {
	secant := func(i int) (s, h float64) { // of the segment that ends at i
		h = float64(points[i].tokens - points[i-1].tokens)
		return (points[i].elapsed - points[i-1].elapsed) / h, h
	}
	const stall = 1.5
	end := func(near, far int) float64 {
		s, h := secant(near)
		if far < 1 || far >= len(points) {
			return s
		}
		next, g := secant(far)
		if math.Max(s, next) > stall*math.Min(s, next) {
			return math.Min(s, next)
		}
		return math.Min(3*s, math.Max(0, ((2*h+g)*s-h*next)/(h+g)))
	}
	switch i {
	case 0:
		return end(1, 2)
	case len(points) - 1:
		return end(i, i-1)
	}
	a, h := secant(i)
	b, g := secant(i + 1)
	if !(a > 0 && b > 0) || math.Max(a, b) > stall*math.Min(a, b) {
		return math.Max(0, math.Min(a, b))
	}
	return 3 * (h + g) / ((2*g+h)/a + (g+2*h)/b)
}
