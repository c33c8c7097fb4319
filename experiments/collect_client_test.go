package experiments

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"specrun/experiments/bench"
	"specrun/experiments/record"
	"specrun/experiments/trust"
)

const twoDecode = "[2026-11-29 10:00:00] Decode batch, #running-req: 2, #token: 9, token usage: 0.00, accept len: 1.80, cuda graph: True, gen throughput (token/s): 180.00, #queue-req: 0\n"

func TestCollect_ClientAndOthers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		edit  func(*bench.Report, *Window)
		check string
		want  record.Outcome
		label string // that says the same; "" for none
		part  string
	}{
		{"a client that was run", func(r *bench.Report, _ *Window) { r.ClientWatched = true }, trust.CheckKeptUp, record.Pass, "", "all the time, 2.0 s"},
		{"a client of an older build", func(*bench.Report, *Window) {}, trust.CheckKeptUp, record.NotCheckable, "", ""},
		{"a client that was stopped", func(r *bench.Report, _ *Window) { r.ClientWatched, r.ClientStalledMs = true, 900 }, trust.CheckKeptUp, record.Fail, trust.Noisy, "stood still for 0.9 s of 2.0 s"},
		{"half an answer in one go", func(r *bench.Report, _ *Window) {
			at := chunks(100, 20, -1, 0)
			for k := range 50 {
				at[k] = at[50] + int64(20*k) - 1000
			}
			r.Requests[0].ChunkUs = at
		}, trust.CheckKeptUp, record.Fail, trust.Noisy, "of the 101 chunks of request 0 came in one go with its first"},
		{"all of an answer in one go", func(r *bench.Report, _ *Window) { r.Requests[0].ChunkUs = chunks(100, 0.022, -1, 0) }, trust.CheckKeptUp, record.Fail, trust.Noisy, "every 0.022 ms"},
		{"an answer that keeps its time", func(r *bench.Report, _ *Window) {
			r.ClientWatched, r.Requests[0].ChunkUs = true, chunks(100, 20, 50, 500)
		}, trust.CheckKeptUp, record.Pass, "", ""},

		{"one of one at once", func(r *bench.Report, w *Window) { put(r, w, fmt.Sprintf(storyDecode, 1.8, 90.)) }, trust.CheckNobody, record.Pass, "", ""},
		{"two at once where one was sent", func(r *bench.Report, w *Window) { put(r, w, twoDecode) }, trust.CheckNobody, record.Fail, trust.SharedHost, "had 2 at once, the client sent 1"},
		{"two at once behind the benchmark", func(_ *bench.Report, w *Window) { w.Log = append(w.Log, twoDecode...) }, trust.CheckNobody, record.Pass, "", ""},
		{"a prompt that was not sent", func(r *bench.Report, w *Window) {
			put(r, w, fmt.Sprintf(storyPrefill, 20, 0)+fmt.Sprintf(storyPrefill, 22, 0))
		}, trust.CheckNobody, record.Fail, trust.SharedHost, "42 prompt tokens by the server log, the client's were 20"},
		{"a prompt once more, for want of memory", func(r *bench.Report, w *Window) {
			put(r, w, fmt.Sprintf(storyPrefill, 20, 0)+"[2026-11-29 10:00:00] KV cache pool is full. Retract requests. #retracted_reqs: 1\n"+fmt.Sprintf(storyPrefill, 22, 0))
		}, trust.CheckNobody, record.Pass, "", ""},
		{"output that nobody got", func(r *bench.Report, _ *Window) { r.ServerCounters = map[string]float64{"generation_tokens": 400} }, trust.CheckNobody, record.Fail, trust.SharedHost, "400 output tokens"},
		{"prompts by the counter", func(r *bench.Report, _ *Window) {
			r.ServerCounters = map[string]float64{"generation_tokens": 181, "prompt_tokens": 60}
		}, trust.CheckNobody, record.Fail, trust.SharedHost, "60 prompt tokens by the server's counter"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, names := labels(t, window(t, c.edit))
			got := check(t, d, c.check)
			if got.Outcome != c.want || !strings.Contains(got.Explanation, c.part) {
				t.Errorf("%s: %s", got.Outcome, got.Explanation)
			}
			if c.label == "" {
				if has := strings.Fields(names); slices.Contains(has, trust.Noisy) || slices.Contains(has, trust.SharedHost) {
					t.Errorf("labels: %+v", d.Labels)
				}
			} else if !slices.ContainsFunc(d.Labels, func(l record.Label) bool { return l.Name == c.label && strings.Contains(l.Reason, c.part) }) {
				t.Errorf("labels: %+v", d.Labels)
			}
		})
	}
}
