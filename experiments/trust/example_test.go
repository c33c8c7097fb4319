package trust_test

import (
	"fmt"

	"specrun/experiments/record"
	"specrun/experiments/trust"
)

// A profiler that waits for the GPU and does not count the bonus token.
func ExampleAssess() {
	labels, checks := trust.Assess(trust.Input{
		Concurrency: 1, Steps: 3, Patches: []string{"story-v3"}, PatchLive: trust.Yes, Probe: trust.ProbeSync,
		Cycles: &trust.Cycles{Counted: 400, MeanBatch: 1},
		Metrics: []record.Metric{
			{Name: "cycle_total", Source: "profiler", Value: 31.6},
			{Name: "accept_len", Source: "profiler", Value: 0.98},
			{Name: "accept_len", Source: "server_log", Value: 2.1},
		},
	})
	for _, l := range labels {
		fmt.Println(l.Name)
	}
	for _, c := range checks {
		if c.Outcome == record.Fail {
			fmt.Println(c.Explanation)
		}
	}
	// Output:
	// sync-probe
	// disagree
	// profiler 0.98, server log 2.10: 53.3 % apart, limit 5.0 %; one apart: one of them does not count the bonus token
	// accept length 0.98 of the profiler, possible is 1 to 4; the bonus token is not counted
}
