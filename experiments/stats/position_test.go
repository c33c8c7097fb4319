package stats_test

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"specrun/experiments/record"
	"specrun/experiments/stats"
)

// engine imitates a server whose cycle rises with the context, and what is
// recorded of a run on it: request by request, rows of 25 cycles that are cut at
// a request's end, positions at each 32 tokens.
type engine struct {
	base   float64 // ms per cycle at context 0
	slope  float64 // fraction of base per 1,000 tokens
	accept float64 // tokens a cycle
	noise  float64 // of a cycle
	ttft   float64 // ms
	rng    *rand.Rand
}

const promptTokens = 50

// run gives a run's samples and the metrics that specrun would compute from it.
func (e engine) run(outputs ...int) ([]record.Sample, []record.Metric) {
	var samples []record.Sample
	var decode, tokens, after, wall, cycles float64
	row, now := 0, 0.0
	for index, n := range outputs {
		request := strconv.Itoa(index)
		at := func(name string, v float64, labels ...string) {
			l := map[string]string{"request": request}
			for i := 0; i+1 < len(labels); i += 2 {
				l[labels[i]] = labels[i+1]
			}
			samples = append(samples, record.Sample{Name: name, Unit: "ms", Value: v, Source: "client", Labels: l})
		}
		at("request_ttft", e.ttft)
		k, elapsed, carry, next := 0, 0.0, 0.0, 32
		var rowCycles, rowWall, rowContext, rowTokens float64
		flush := func() {
			if rowCycles == 0 {
				return
			}
			row++
			samples = append(samples, profiled(row, now, rowWall/rowCycles, rowCycles, rowContext/rowCycles, 1, rowTokens)...)
			wall, cycles = wall+rowWall, cycles+rowCycles
			rowCycles, rowWall, rowContext, rowTokens = 0, 0, 0, 0
		}
		for k < n-1 {
			context := float64(promptTokens + k)
			cycle := e.base * (1 + e.slope*context/1000)
			if e.noise > 0 {
				cycle *= 1 + e.noise*e.rng.NormFloat64()
			}
			carry += e.accept
			got := min(int(carry), n-1-k)
			carry -= math.Floor(carry)
			for ; next <= k+got; next += 32 {
				if next < n-1 {
					at("decode_elapsed", elapsed+cycle*float64(next-k)/float64(got), "position", strconv.Itoa(next))
				}
			}
			k, elapsed, now = k+got, elapsed+cycle, now+cycle
			rowCycles, rowWall, rowContext, rowTokens = rowCycles+1, rowWall+cycle, rowContext+context, rowTokens+float64(got)
			if rowCycles == 25 {
				flush()
			}
		}
		flush()
		at("decode_elapsed", elapsed, "position", strconv.Itoa(n-1), "end", "true")
		decode, tokens, after = decode+elapsed, tokens+float64(n), after+float64(n-1)
	}
	latency := decode + e.ttft*float64(len(outputs))
	return samples, []record.Metric{
		{Name: "output_throughput", Source: "client", Value: tokens / latency * 1000},
		{Name: "tpot", Source: "client", Value: decode / after},
		{Name: "concurrency", Source: "client", Value: 1},
		{Name: "cycle_total", Source: "profiler", Value: wall / cycles},
	}
}

// profiled are the samples of one row.
func profiled(row int, at, total, cycles, context, batch, tokens float64) []record.Sample {
	labels := map[string]string{"rank": "0", "row": strconv.Itoa(row)}
	var out []record.Sample
	for _, v := range []struct {
		name  string
		value float64
	}{{"cycle_total", total}, {"cycles", cycles}, {"context", context}, {"batch_min", batch}, {"batch_max", batch}, {"tokens", tokens}, {"request_cycles", cycles * batch}} {
		if !math.IsNaN(v.value) {
			out = append(out, record.Sample{AtUs: int64(at * 1000), Name: v.name, Value: v.value, Source: "profiler", Labels: labels})
		}
	}
	return out
}

func only(samples []record.Sample, keep func(record.Sample) bool) []record.Sample {
	var out []record.Sample
	for _, s := range samples {
		if keep(s) {
			out = append(out, s)
		}
	}
	return out
}

func valueOf(ms []record.Metric, name string) float64 {
	for _, m := range ms {
		if m.Name == name {
			return m.Value
		}
	}
	return math.NaN()
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got/want-1) > tolerance {
		t.Errorf("%s is %.5g, want %.5g within %.2g %%", what, got, want, 100*tolerance)
	}
}

func steep() engine { return engine{base: 20, slope: 0.2, accept: 1.874, ttft: 30} }

func TestReduce_AHalfAsLongOutputIsNotFaster(t *testing.T) {
	e := steep()
	long, longMetrics := e.run(2000, 1500, 1001)
	short, shortMetrics := e.run(1000, 750, 500)
	if ratio := valueOf(shortMetrics, "tpot") / valueOf(longMetrics, "tpot"); ratio > 0.95 {
		t.Fatalf("the shorter run is %.3f of the longer one before: nothing to take out", ratio)
	}
	p := stats.CommonPositions(long, short)
	if !p.Unequal || p.Least != 2250 || p.Most != 4501 || p.Tokens["0"] != 999 || p.Tokens["1"] != 749 || p.Tokens["2"] != 499 {
		t.Fatalf("%+v", p)
	}
	a, b := p.Reduce(long, longMetrics), p.Reduce(short, shortMetrics)
	for _, name := range []string{"output_throughput", "tpot", "cycle_total"} {
		near(t, name+" of the short run over the long one's", b[name]/a[name], 1, 0.003)
	}
}

func TestReduce_KeepsARealDifferenceOfUnequalRuns(t *testing.T) {
	slow, fast := steep(), steep()
	fast.base = slow.base * 0.9
	long, longMetrics := slow.run(2000, 1500)
	short, shortMetrics := fast.run(1000, 800)
	p := stats.CommonPositions(long, short)
	a, b := p.Reduce(long, longMetrics), p.Reduce(short, shortMetrics)
	near(t, "tpot", b["tpot"]/a["tpot"], 0.9, 0.004)
	near(t, "cycle_total", b["cycle_total"]/a["cycle_total"], 0.9, 0.004)
}

// Cells of different steps have rows of different width in tokens.
func TestReduce_RowsOfOtherWidth(t *testing.T) {
	narrow, wide := steep(), steep()
	wide.accept = 3.3
	a, am := narrow.run(1200)
	b, bm := wide.run(610)
	p := stats.CommonPositions(a, b)
	near(t, "cycle_total", p.Reduce(b, bm)["cycle_total"]/p.Reduce(a, am)["cycle_total"], 1, 0.003)
}

func TestReduce_EqualLengthsGiveTheRunsOwnNumbers(t *testing.T) {
	e := steep()
	a, am := e.run(500, 301)
	b, bm := e.run(500, 301)
	p := stats.CommonPositions(a, b)
	if p.Unequal || p.Least != 801 || p.Most != 801 {
		t.Fatalf("%+v", p)
	}
	bm[1].Value = 123 // whatever the metric says
	got := p.Reduce(b, bm)
	if got["tpot"] != 123 || got["output_throughput"] != valueOf(am, "output_throughput") || got["cycle_total"] != valueOf(am, "cycle_total") {
		t.Errorf("%v", got)
	}
	// The sums agree with the metrics where both are the same thing.
	p.Unequal = true
	got = p.Reduce(a, am)
	near(t, "tpot", got["tpot"], valueOf(am, "tpot"), 1e-9)
	near(t, "output_throughput", got["output_throughput"], valueOf(am, "output_throughput"), 1e-9)
}

func TestCommonPositions_AMissingRequestIsUnequal(t *testing.T) {
	e := steep()
	a, am := e.run(400, 400, 400)
	b := only(a, func(s record.Sample) bool { return s.Labels["request"] != "1" })
	for name, runs := range map[string][][]record.Sample{"later": {a, b}, "first": {b, a}} {
		p := stats.CommonPositions(runs...)
		if _, there := p.Tokens["1"]; !p.Unequal || there || len(p.Tokens) != 2 || p.Least != 800 || p.Most != 1200 {
			t.Errorf("%s: %+v", name, p)
		}
		if got := p.Reduce(b, am); got["tpot"] == 0 {
			t.Errorf("%s: no tpot over the two that both have", name)
		}
	}
}

func TestCommonPositions_ThreeRunsHaveTheShortestOfAll(t *testing.T) {
	e := steep()
	a, _ := e.run(400, 100)
	b, _ := e.run(300, 200)
	c, _ := e.run(350, 150)
	p := stats.CommonPositions(a, b, c)
	if p.Tokens["0"] != 299 || p.Tokens["1"] != 99 || p.Least != 500 || p.Most != 500 || !p.Unequal {
		t.Errorf("equal sums hide unequal outputs: %+v", p)
	}
}

func TestCommonPositions_WithoutPositionsNothingIsKnown(t *testing.T) {
	e := steep()
	a, am := e.run(400)
	old := only(a, func(s record.Sample) bool { return s.Source == "profiler" })
	p := stats.CommonPositions(a, old)
	if p.Unequal || len(p.Tokens) != 0 || p.Least != 0 {
		t.Errorf("%+v", p)
	}
	if got := p.Reduce(old, am); got["tpot"] != valueOf(am, "tpot") {
		t.Errorf("%v: the run's own number is all there is", got)
	}
	if p := stats.CommonPositions(); p.Unequal || len(p.Tokens) != 0 {
		t.Errorf("no runs: %+v", p)
	}
}

// A baseline has no rows: its client's numbers are reduced all the same, and the
// others' rows give the contexts.
func TestReduce_ABaselineWithoutRows(t *testing.T) {
	e := steep()
	cell, cellMetrics := e.run(1000)
	plain, plainMetrics := engine{base: 11.3, slope: 0.1, accept: 1}.run(500)
	plain = only(plain, func(s record.Sample) bool { return s.Source == "client" })
	p := stats.CommonPositions(plain, cell)
	if math.IsNaN(p.ContextLo) {
		t.Fatalf("%+v", p)
	}
	got := p.Reduce(plain, plainMetrics)
	if _, has := got["cycle_total"]; has || got["tpot"] == 0 {
		t.Errorf("baseline: %v", got)
	}
	if got := p.Reduce(cell, cellMetrics); got["cycle_total"] == 0 {
		t.Errorf("cell: %v", got)
	}
}

func TestReduce_WithoutContextNoCycleTotal(t *testing.T) {
	e := steep()
	a, am := e.run(800)
	b, bm := e.run(400)
	blind := func(s record.Sample) bool { return s.Name != "context" }
	a, b = only(a, blind), only(b, blind)
	p := stats.CommonPositions(a, b)
	got := p.Reduce(b, bm)
	if v, has := got["cycle_total"]; has || !math.IsNaN(p.ContextLo) {
		t.Errorf("cycle_total %v of rows without context: %+v", v, p)
	}
	near(t, "tpot", got["tpot"]/p.Reduce(a, am)["tpot"], 1, 0.003)
}

func TestReduce_NotItsPositions(t *testing.T) {
	e := steep()
	a, _ := e.run(800)
	b, _ := e.run(400)
	short, shortMetrics := e.run(100)
	if got := stats.CommonPositions(a, b).Reduce(short, shortMetrics); len(got) > 1 {
		t.Errorf("a run shorter than the common positions: %v", got)
	}
	_, has := stats.CommonPositions(a, b).Reduce(a, nil)["output_throughput"]
	if has {
		t.Error("output_throughput without the requests in flight")
	}
}

func TestReduce_SingleTokens(t *testing.T) {
	e := steep()
	a, am := e.run(1, 200)
	b, bm := e.run(64, 200)
	p := stats.CommonPositions(a, b)
	if p.Tokens["0"] != 0 || !p.Unequal {
		t.Fatalf("%+v", p)
	}
	x, y := p.Reduce(a, am), p.Reduce(b, bm)
	near(t, "tpot", x["tpot"], y["tpot"], 1e-9)
	near(t, "output_throughput", x["output_throughput"], y["output_throughput"], 1e-9)
}
