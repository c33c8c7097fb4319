package experiments

import (
	"math"
	"testing"

	"specrun/experiments/bench"
	"specrun/experiments/metrics"
	"specrun/experiments/record"
)

func metricOf(ms []record.Metric, name string) (record.Metric, bool) {
	for _, m := range ms {
		if m.Name == name {
			return m, true
		}
	}
	return record.Metric{}, false
}

// vllmReport is a benchmark of two requests with 101 and 51 tokens.
func vllmReport() bench.Report {
	return bench.Report{
		Requests: []bench.Request{
			{StartUs: 0, FirstTokenUs: 100_000, EndUs: 1_100_000, OutputTokens: 101, ChunkUs: make([]int64, 50)},
			{StartUs: 1_200_000, FirstTokenUs: 1_300_000, EndUs: 1_800_000, OutputTokens: 51, ChunkUs: make([]int64, 25)},
		},
		ServerCounters: map[string]float64{"spec_verify_calls": 60, "spec_draft_tokens": 170, "spec_accepted_tokens": 75,
			"spec_accepted_pos_0": 40, "spec_accepted_pos_1": 25, "spec_accepted_pos_2": 10},
	}
}

func TestCountedSpeculation(t *testing.T) {
	t.Parallel()
	ms := countedSpeculation(vllmReport())
	for name, want := range map[string]float64{"accept_len": 2.25, "accept_pos_1": 40 / 60., "accept_pos_3": 10 / 60., "draft_acceptance_rate": 7500 / 170., "accepted_tokens": 75, "draft_tokens": 170} {
		m, ok := metricOf(ms, name)
		if !ok || math.Abs(m.Value-want) > 1e-9 || m.Source != sourceCounters || m.N != 60 {
			t.Errorf("%s: %+v, want %v", name, m, want)
		}
	}
	// 150 tokens behind the first ones, 75 of them accepted: 75 cycles in 1.5 s.
	if m, ok := metricOf(ms, "cycle_derived"); !ok || m.Value != 20 || m.Source != "derived" || m.N != 75 {
		t.Errorf("cycle: %+v", m)
	}
	r := vllmReport()
	r.Failed = 1
	if _, ok := metricOf(countedSpeculation(r), "cycle_derived"); ok {
		t.Error("a failed request's accepted tokens are in the counters, its tokens are not in the report")
	}
	r = vllmReport()
	r.Requests[1].ChunkUs = r.Requests[1].ChunkUs[:1]
	if m, ok := metricOf(countedSpeculation(r), "cycle_derived"); ok {
		t.Errorf("%v of a request that has no time, but accepted tokens", m.Value)
	}
	r = vllmReport()
	r.ServerCounters = map[string]float64{"spec_verify_calls": 60} // SGLang has no more
	if ms := countedSpeculation(r); len(ms) != 0 {
		t.Errorf("%+v", ms)
	}
}

func TestAcceptanceSums(t *testing.T) {
	t.Parallel()
	got := acceptanceSums(vllmReport(), metrics.Speculated{Lines: 2, Drafted: 170, Accepted: 75})
	if got == nil || got.LogDrafted != 170 || got.CountedDrafted != 170 || got.CountedAccepted != 75 || got.LogLines != 2 {
		t.Errorf("%+v", got)
	}
	if acceptanceSums(bench.Report{}, metrics.Speculated{Lines: 2, Drafted: 170}) != nil {
		t.Error("a server without counters has nothing to compare")
	}
}
