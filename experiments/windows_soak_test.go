//go:build integration && soak

package experiments_test

import (
	"math"
	"testing"

	"specrun/experiments/lab"
	"specrun/experiments/stats"
)

func (m labRun) near(t *testing.T, name, source string, want, tolerance float64) {
	t.Helper()
	if got := m.metric(name, source); !(math.Abs(got/want-1) <= tolerance) {
		t.Errorf("%s of %s is %.4g, want %.4g within %.2g %%", name, source, got, want, 100*tolerance)
	}
}

// What runs on the practice host measure is what its model says. It needs a
// machine with little else to do.
func TestSoak_WindowsMeasureTheModel(t *testing.T) {
	t.Run("slope and acceptance", func(t *testing.T) {
		l := startLab(t, 1, func(s *lab.Settings) { s.ContextSlope, s.PlainSlope, s.Behind = 20, 10, 2000 })
		p := planFor(t, l.Host(), nil, "steps=2", "bench.warmup=auto", "bench.max_tokens=200")
		_, runs := measureOnLab(t, l, p)
		cell := runs[len(runs)-1]
		s, ok := stats.ContextSlope(cell.data.Samples)
		// verify takes 18 ms at 2 steps, and 20 % more at 1,000 tokens. Three times the
		// interval, which itself is right in 95 of 100 cases only.
		if !ok || math.Abs(s.PerThousand-3.6) > 3*(s.Hi-s.PerThousand) {
			t.Errorf("slope %+v, want 3.6 ms per 1,000 tokens", s)
		}
		cell.near(t, "accept_len", "per_request", 1.874, 0.02)
	})
	t.Run("four at once", func(t *testing.T) {
		l := startLab(t, 1, func(s *lab.Settings) { s.Behind, s.Prefill = 2000, 30 })
		p := planFor(t, l.Host(), nil, "steps=2", "bench.concurrency=4", "bench.requests=20", "bench.max_tokens=160")
		_, runs := measureOnLab(t, l, p)
		cell := runs[len(runs)-1]
		batches := stats.ByBatch(cell.data.Samples)
		if n := len(batches); n == 0 || batches[n-1].Batch != 4 {
			t.Fatalf("by batch: %+v", batches)
		}
		// While nothing is prefilled the client receives what the profiler's cycles of
		// four requests give.
		cell.near(t, "tpot_undisturbed", "client", 4000/batches[len(batches)-1].Throughput, 0.05)
		cell.near(t, "accept_len", "per_request", 1.874, 0.03)
	})
	t.Run("by the engine's own route", func(t *testing.T) {
		l := startLab(t, 0.2, nil)
		_, runs := measureOnLab(t, l, planFor(t, l.Host(), nil, "steps=3", "bench.endpoint=generate", "bench.requests=8"))
		runs[len(runs)-1].near(t, "accept_len", "per_request", 1.952, 0.03)
	})
	t.Run("a steep slope over equal positions", func(t *testing.T) {
		l := startLab(t, 1, func(s *lab.Settings) {
			s.ContextSlope, s.PlainSlope, s.LaunchNoise, s.Behind = 200, 200, 0, 2000
		})
		_, runs := measureOnLab(t, l, planFor(t, l.Host(), nil, "steps=2", "bench.max_tokens=100,200", "bench.requests=3"))
		byLength := map[int]labRun{}
		for _, m := range runs { // the baselines go first
			byLength[m.report.Job.MaxTokens] = m
		}
		long, short := byLength[200], byLength[100]
		positions := stats.CommonPositions(long.data.Samples, short.data.Samples)
		a, b := positions.Reduce(long.data.Samples, long.data.Metrics), positions.Reduce(short.data.Samples, short.data.Metrics)
		for name, tolerance := range map[string]float64{"tpot": 0.03, "cycle_total": 0.02, "output_throughput": 0.03} {
			if ratio := b[name] / a[name]; !(math.Abs(ratio-1) <= tolerance) {
				t.Errorf("%s of half as long outputs is %.3f of the others'", name, ratio)
			}
		}
		long.near(t, "cycle_total_slope", "profiler", 36, 0.15) // verify takes 18 ms at 2 steps, three times that at 1,000 tokens
	})
}
