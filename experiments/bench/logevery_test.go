package bench_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"specrun/experiments/bench"
)

// A server that prints by the clock is given the time for its last interval,
// after the warm-up and after the measured requests; others are not waited for.
func TestRun_LogOfAServerThatPrintsByTheClock(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		every   time.Duration
		prints  bool
		phase   string
		logEnds int64
	}{
		"printed":         {300 * time.Millisecond, true, bench.PhaseMeasure, 250},
		"after a warm-up": {300 * time.Millisecond, true, bench.PhaseWarm, 250},
		"never printed":   {50 * time.Millisecond, false, bench.PhaseMeasure, 150},
		"with responses":  {0, false, bench.PhaseMeasure, 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var answered atomic.Int64
			var last atomic.Pointer[time.Time]
			f := newFake(t, func(n int, body map[string]any, w *writer) {
				five(n, body, w)
				now := time.Now()
				last.Store(&now)
				answered.Add(1)
			})
			j := job(f)
			j.LogEvery, j.Phase = c.every, c.phase
			want := int64(j.Requests)
			if c.phase == bench.PhaseWarm {
				want = int64(j.Warmup)
			}
			r, err := bench.Run(t.Context(), j, bench.Options{LogSize: func(context.Context) (int64, error) {
				// The line of the last request comes late, and the interval well after the
				// log has rested behind that.
				if answered.Load() == want && c.every > 0 {
					switch since := time.Since(*last.Load()); {
					case since > 800*time.Millisecond && c.prints:
						return 250, nil
					case since > 300*time.Millisecond:
						return 150, nil
					}
				}
				return 100, nil
			}})
			if err != nil || r.LogEnd != c.logEnds {
				t.Errorf("the log ends at %d, want %d; %v", r.LogEnd, c.logEnds, err)
			}
		})
	}
}
