package experiments

import (
	"fmt"

	"specrun/experiments/bench"
	"specrun/experiments/record"
	"specrun/experiments/stats"
)

// slope is how TOTAL rises with the context over a profiler's rows; none when
// the rows do not show it.
func slope(samples []record.Sample) []record.Metric {
	s, ok := stats.ContextSlope(samples)
	if !ok {
		return nil
	}
	return []record.Metric{{Name: "cycle_total_slope", Unit: "ms/cyc per 1,000 tokens", Value: s.PerThousand, N: s.Rows, Source: "profiler"}}
}

// joined numbers the samples of several sources as one list.
func joined(lists ...[]record.Sample) []record.Sample {
	var out []record.Sample
	for _, list := range lists {
		out = append(out, list...)
	}
	for i := range out {
		out[i].Seq = i + 1
	}
	return out
}

// factsOfWindow are how the measured part was found: the warm-up before it, and
// what was cut off of it.
func factsOfWindow(w Window, r bench.Report, unsteady bool) []record.Fact {
	var out []record.Fact
	add := func(key, value string) { out = append(out, record.Fact{Group: "workload", Key: key, Value: value}) }
	if u := w.Warmup; u != nil {
		add("warmup_rule", u.Rule)
		add("warmup_outcome", warmupOutcome(*u))
	}
	if r.SteadyRule != "" {
		add("steady_window", r.SteadyRule)
	}
	if unsteady {
		add("note", "no row of the profiler lay wholly between ramp and drain: all rows of the benchmark are counted")
	}
	return out
}

// warmupOutcome is worded without numbers that differ from run to run for no
// reason: provenance is compared by its text.
func warmupOutcome(u bench.Warmup) string {
	switch {
	case !u.Auto:
		return fmt.Sprintf("%d requests sent", u.Sent)
	case u.Settled:
		return "settled"
	case u.Spread < 0:
		return fmt.Sprintf("not settled: none of %d requests could be compared", u.Sent)
	}
	return fmt.Sprintf("not settled: the last two still %.0f %% apart after %d requests", 100*u.Spread, u.Sent)
}
