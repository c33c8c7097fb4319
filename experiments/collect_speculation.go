package experiments

import (
	"fmt"
	"math"

	"specrun/experiments/bench"
	"specrun/experiments/metrics"
	"specrun/experiments/record"
	"specrun/experiments/trust"
)

// sourceCounters are the server's own counters, read before and after a
// benchmark.
const sourceCounters = "server_counters"

// countedSpeculation are the numbers of speculation by the server's counters, over exactly
// the benchmark's requests.
func countedSpeculation(r bench.Report) []record.Metric {
	c := r.ServerCounters
	drafts, drafted := c["spec_verify_calls"], c["spec_draft_tokens"]
	if drafts <= 0 || drafted <= 0 { // SGLang counts verify steps only
		return nil
	}
	var positions []float64
	for {
		n, ok := c[fmt.Sprintf("spec_accepted_pos_%d", len(positions))]
		if !ok {
			break
		}
		positions = append(positions, n)
	}
	out := metrics.SpeculationMetrics(sourceCounters, int(math.Round(drafts)), drafts, drafted, c["spec_accepted_tokens"], positions)
	if m, ok := derivedCycle(r); ok {
		out = append(out, m)
	}
	return out
}

// derivedCycle is the mean time of a decode cycle of an engine that does not
// state it: the requests' time from the first to the last token over their
// cycles. A cycle yields its accepted tokens and one more, whether it had a draft
// or not, so they are the tokens behind each request's first less the accepted
// ones. Time in which another request's prefill stood in the way is in it. The
// accepted tokens of a request whose tokens all came at once, so that it has no
// time, cannot be told from those of others: then there is none.
func derivedCycle(r bench.Report) (record.Metric, bool) {
	if r.Failed > 0 {
		return record.Metric{}, false // its accepted tokens were counted, too
	}
	var ms, tokens float64
	for _, q := range r.Requests {
		if q.OutputTokens > 1 && len(q.ChunkUs) == 1 {
			return record.Metric{}, false
		}
		if q.OutputTokens > 1 {
			ms += float64(q.EndUs-q.FirstTokenUs) / 1000
			tokens += float64(q.OutputTokens - 1)
		}
	}
	cycles := tokens - r.ServerCounters["spec_accepted_tokens"]
	if cycles <= 0 || ms <= 0 {
		return record.Metric{}, false
	}
	return record.Metric{Name: "cycle_derived", Unit: "ms/cyc", Value: ms / cycles, N: int(math.Round(cycles)), Source: "derived"}, true
}

// acceptanceSums puts the sums of the log beside those of the counters; nil when
// one of them has none.
func acceptanceSums(r bench.Report, s metrics.Speculated) *trust.Sums {
	drafted, ok := r.ServerCounters["spec_draft_tokens"]
	if !ok || drafted == 0 && s.Drafted == 0 {
		return nil
	}
	return &trust.Sums{LogLines: s.Lines, LogDrafted: s.Drafted, LogAccepted: s.Accepted,
		CountedDrafted: drafted, CountedAccepted: r.ServerCounters["spec_accepted_tokens"]}
}
