package stats_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"specrun/experiments/record"
	"specrun/experiments/stats"
)

func TestContextSlope_FindsTheSlope(t *testing.T) {
	e := steep()
	samples, _ := e.run(1500, 900)
	s, ok := stats.ContextSlope(samples)
	if !ok || s.Rows < 40 {
		t.Fatalf("%+v %v", s, ok)
	}
	near(t, "slope", s.PerThousand, 4, 1e-6)
	near(t, "at context 0", s.At0, 20, 1e-6)
}

// The interval holds the true slope in 95 of 100 runs, give or take what 400 of
// them can show.
func TestContextSlope_IntervalHoldsTheTruth(t *testing.T) {
	e := steep()
	e.noise, e.rng = 0.01, rand.New(rand.NewPCG(7, 7))
	const runs = 400
	held := 0
	for range runs {
		samples, _ := e.run(300)
		s, ok := stats.ContextSlope(samples)
		if !ok || !(s.Lo < s.PerThousand && s.PerThousand < s.Hi) {
			t.Fatalf("%+v %v", s, ok)
		}
		if s.Lo <= 4 && 4 <= s.Hi {
			held++
		}
	}
	if held < runs*92/100 || held > runs*98/100 {
		t.Errorf("the interval holds the truth in %d of %d runs", held, runs)
	}
}

func TestContextSlope_NeedsThreeContexts(t *testing.T) {
	rows := func(contexts ...float64) []record.Sample {
		var out []record.Sample
		for i, c := range contexts {
			out = append(out, profiled(i+1, float64(i+1), 20+c/100, 25, c, 1, 40)...)
		}
		return out
	}
	for name, s := range map[string][]record.Sample{
		"none": nil, "two": rows(10, 20), "three of two contexts": rows(10, 20, 20), "no context": rows(math.NaN(), math.NaN(), math.NaN()),
	} {
		if got, ok := stats.ContextSlope(s); ok {
			t.Errorf("%s: %+v", name, got)
		}
	}
	s, ok := stats.ContextSlope(append(rows(10, 20, 35), profiled(9, 9, 99, 25, math.NaN(), 1, 40)...))
	if !ok || s.Rows != 3 || math.Abs(s.PerThousand-10) > 1e-9 {
		t.Errorf("%+v %v: a row without context is left out", s, ok)
	}
}

func TestContextSlope_OfOneBatchSize(t *testing.T) {
	var samples []record.Sample
	for i := range 10 { // more requests, more context, more time: not the context's doing
		c := float64(100 + 50*i)
		samples = append(samples, profiled(2*i+1, float64(i), 20+c/1000, 25, c, 1, 40)...)
		samples = append(samples, profiled(2*i+2, float64(i), 40+c/1000, 10, c+600, 4, 60)...)
	}
	s, ok := stats.ContextSlope(samples)
	if !ok || s.Rows != 10 || math.Abs(s.PerThousand-1) > 1e-6 {
		t.Errorf("%+v %v", s, ok)
	}
}

// Older stores have rows without a number: what stands at one time is one row.
func TestContextSlope_RowsWithoutNumber(t *testing.T) {
	e := steep()
	samples, _ := e.run(1500)
	for i := range samples {
		if samples[i].Source == "profiler" {
			samples[i].Labels = map[string]string{"rank": "0"}
		}
	}
	s, ok := stats.ContextSlope(samples)
	if !ok {
		t.Fatal("no slope")
	}
	near(t, "slope", s.PerThousand, 4, 1e-6)
}

func TestContextSlope_OfTheSlowestRank(t *testing.T) {
	e, slow := steep(), steep()
	slow.base = 25
	samples, _ := e.run(1000)
	other, _ := slow.run(1000)
	for i := range other {
		if other[i].Source == "profiler" {
			other[i].Labels = map[string]string{"rank": "3", "row": other[i].Labels["row"]}
		}
	}
	s, ok := stats.ContextSlope(append(samples, other...))
	if !ok {
		t.Fatal("no slope")
	}
	near(t, "slope", s.PerThousand, 5, 1e-6)
}

func TestByBatch(t *testing.T) {
	mixed := profiled(3, 3, 35, 10, 200, 2, 40)
	for i := range mixed {
		if mixed[i].Name == "batch_max" {
			mixed[i].Value = 3
		}
	}
	samples := append(profiled(1, 1, 20, 25, 100, 1, 50), profiled(2, 2, 30, 10, 150, 4, 80)...)
	samples = append(samples, mixed...)
	samples = append(samples, profiled(4, 4, 24, 75, 300, 1, 130)...)
	samples = append(samples, only(profiled(5, 5, 30, 30, 300, 4, 0), func(s record.Sample) bool { return s.Name != "tokens" && s.Name != "request_cycles" })...)
	got := stats.ByBatch(samples)
	if len(got) != 2 || got[0].Batch != 1 || got[1].Batch != 4 {
		t.Fatalf("%+v: want batch 1 and 4, the row of both 2 and 3 is neither's", got)
	}
	one, four := got[0], got[1]
	if one.Cycles != 100 || four.Cycles != 40 {
		t.Errorf("cycles %d and %d", one.Cycles, four.Cycles)
	}
	near(t, "cycle of one request", one.Total, 23, 1e-9)
	near(t, "accept length", one.AcceptLen, 1.8, 1e-9)
	near(t, "throughput", one.Throughput, 180./2300*1000, 1e-9)
	near(t, "cycle of four", four.Total, 30, 1e-9)
	near(t, "accept length of the row that says", four.AcceptLen, 2, 1e-9)
	near(t, "throughput over that row's time", four.Throughput, 80./300*1000, 1e-9)
	if got := stats.ByBatch(nil); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestByBatch_FromAnAcceptLength(t *testing.T) {
	row := only(profiled(1, 1, 20, 25, 100, 2, 0), func(s record.Sample) bool { return s.Name != "tokens" && s.Name != "request_cycles" })
	got := stats.ByBatch(append(row, record.Sample{AtUs: 1000, Name: "accept_len", Value: 1.5, Source: "profiler", Labels: row[0].Labels}))
	if len(got) != 1 || got[0].AcceptLen != 1.5 || math.Abs(got[0].Throughput-150) > 1e-9 {
		t.Errorf("%+v: 1.5 tokens of each of 2 requests in 20 ms", got)
	}
	got = stats.ByBatch(row)
	if len(got) != 1 || !math.IsNaN(got[0].AcceptLen) || !math.IsNaN(got[0].Throughput) {
		t.Errorf("%+v from a row without tokens", got)
	}
}
