package stats

import "testing"

func TestDirectionOf(t *testing.T) {
	for metric, want := range map[string]struct {
		direction Direction
		speed     bool
	}{
		"output_throughput": {Higher, true}, "steady_throughput": {Higher, true}, "gen_throughput": {Higher, true}, "request_throughput": {Higher, true},
		"output_throughput_per_user": {Higher, true}, "profiler_throughput": {Higher, true},
		"cycle_total": {Lower, true}, "cycle_verify": {Lower, true}, "tpot": {Lower, true}, "tpot_p99": {Lower, true}, "ttft_mean": {Lower, true},
		"itl_median": {Lower, true}, "request_latency_p90": {Lower, true},
		"accept_len": {Higher, false},
		"tpot_std":   {}, "cycle_total_slope": {}, "total_output_tokens": {}, "completed": {}, "context_mean": {}, "gpu_temp_max": {}, "duration": {},
		"gap_ratio": {}, "cached_tokens": {}, "concurrency": {}, "": {},
	} {
		if d, s := DirectionOf(metric), IsSpeed(metric); d != want.direction || s != want.speed {
			t.Errorf("%q: %v, speed %v; want %v, %v", metric, d, s, want.direction, want.speed)
		}
	}
}
