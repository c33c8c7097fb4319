package bench_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"specrun/experiments/bench"
)

// extended says whether a request asks for more than the common fields.
func extended(body map[string]any) bool {
	_, details := body["return_spec_tokens_details"]
	_, counts := body["stream_options"].(map[string]any)["continuous_usage_stats"]
	return details || counts
}

// counted is an answer of 41 tokens in three chunks with a running count, as
// SGLang and vLLM send it, but without a record at the end.
func counted(_ int, body map[string]any, w *writer) {
	chunk := func(text string, tokens int) {
		w.chunk(`{"choices":[{"delta":{"content":%q},"finish_reason":null}],"usage":{"prompt_tokens":10,"completion_tokens":%d,"total_tokens":%d}}`, text, tokens, 10+tokens)
	}
	w.chunk(`{"choices":[{"delta":{"role":"assistant","content":""}}],"usage":{"prompt_tokens":10,"completion_tokens":0,"prompt_tokens_details":null}}`)
	chunk("a", 1)
	chunk(" b", 33)
	chunk(" c", 41)
	w.chunk(`{"choices":[{"delta":{},"finish_reason":"length"}],"usage":{"prompt_tokens":10,"completion_tokens":41}}`)
	w.chunk("[DONE]")
}

func TestRun_PositionsFromTheRunningCount(t *testing.T) {
	f := newFake(t, counted)
	r := work(t, job(f))
	if b := f.bodies[0]; b["stream_options"].(map[string]any)["continuous_usage_stats"] != true || b["stream_options"].(map[string]any)["include_usage"] != true || b["return_spec_tokens_details"] != true {
		t.Errorf("request body %v", b)
	}
	for _, q := range r.Requests {
		n := len(q.Positions)
		if q.Error != "" || q.OutputTokens != 41 || q.PromptTokens != 10 || q.CachedTokens != -1 || q.PositionsFrom != bench.FromUsage || n != 2 {
			t.Fatalf("%+v", q)
		}
		// 32 tokens after the first one came with the second chunk.
		if q.Positions[0] != (bench.Position{Tokens: 32, Us: q.ChunkUs[1] - q.ChunkUs[0]}) || q.Positions[1] != (bench.Position{Tokens: 40, Us: q.EndUs - q.FirstTokenUs}) {
			t.Errorf("positions %v, chunks %v", q.Positions, q.ChunkUs)
		}
	}
	if len(r.Notes) != 0 {
		t.Errorf("notes %q", r.Notes)
	}
}

func TestRun_WithoutRunningCountPositionsAreSpread(t *testing.T) {
	f := newFake(t, func(_ int, _ map[string]any, w *writer) {
		w.token("a")
		w.token(" b")
		w.token(" c")
		w.end(41)
	})
	for _, q := range work(t, job(f)).Requests {
		if q.PositionsFrom != bench.FromChunks || len(q.Positions) != 2 || q.Positions[1].Tokens != 40 {
			t.Errorf("%+v", q)
		}
	}
}

func TestRun_AServerThatRefusesExtensionsIsAskedWithout(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusUnprocessableEntity} {
		f := newFake(t, func(n int, body map[string]any, w *writer) {
			if extended(body) {
				http.Error(w, `{"error":"Extra inputs are not permitted: stream_options.continuous_usage_stats"}`, status)
				return
			}
			five(n, body, w)
		})
		r := work(t, job(f))
		if r.Completed != 6 || len(f.bodies) != 7 || !extended(f.bodies[0]) || slices.ContainsFunc(f.bodies[1:], extended) {
			t.Errorf("%d: completed %d, %d requests: one refused, then six as it wants them", status, r.Completed, len(f.bodies))
		}
		if q := r.Requests[0]; q.FirstTokenUs-q.StartUs != q.ChunkUs[0] || q.PositionsFrom != bench.FromChunks {
			t.Errorf("%d: the refused request counts as time: %+v", status, q)
		}
		if !slices.ContainsFunc(r.Notes, func(s string) bool { return strings.Contains(s, "spread evenly") }) {
			t.Errorf("%d: notes %q", status, r.Notes)
		}
	}
}

// Many at once may be refused before the first refusal is known; each is asked
// again, and none fails.
func TestRun_RefusalOfSeveralAtOnce(t *testing.T) {
	f := newFake(t, func(n int, body map[string]any, w *writer) {
		if extended(body) {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		five(n, body, w)
	})
	j := job(f)
	j.Concurrency, j.Requests = 4, 12
	r := work(t, j)
	refused := 0
	for _, b := range f.bodies {
		if extended(b) {
			refused++
		}
	}
	if r.Completed != 12 || refused < 1 || refused > 4 {
		t.Errorf("completed %d, refused %d: at most those in flight at first", r.Completed, refused)
	}
}

// A request that is wrong for another reason says so, and is not taken for a
// refusal of extensions.
func TestRun_AWrongRequestIsNoRefusal(t *testing.T) {
	f := newFake(t, func(n int, body map[string]any, w *writer) {
		if n < 2 {
			http.Error(w, "the prompt is too long", http.StatusBadRequest)
			return
		}
		five(n, body, w)
	})
	r := work(t, job(f))
	if r.Completed != 5 || r.Failed != 1 || !strings.Contains(r.Requests[0].Error, "too long") {
		t.Fatalf("completed %d failed %d: %s", r.Completed, r.Failed, r.Requests[0].Error)
	}
	if len(f.bodies) != 7 || !extended(f.bodies[6]) || len(r.Notes) != 0 {
		t.Errorf("%d requests, notes %q", len(f.bodies), r.Notes)
	}
	// Once a server has taken extensions, a wrong request is sent once.
	f = newFake(t, func(n int, body map[string]any, w *writer) {
		if n == 3 {
			http.Error(w, "the prompt is too long", http.StatusBadRequest)
			return
		}
		five(n, body, w)
	})
	if r := work(t, job(f)); r.Completed != 5 || len(f.bodies) != 6 {
		t.Errorf("completed %d, %d requests sent", r.Completed, len(f.bodies))
	}
}

// Shapes in which servers tell about the speculation of one request.
func TestRun_SpeculationOfEachRequest(t *testing.T) {
	for name, events := range map[string][]string{
		"sglext before the usage record": {
			`{"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}`,
			`{"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"a b c d e f g"},"finish_reason":null}],"usage":{"prompt_tokens":5,"total_tokens":12,"completion_tokens":7}}`,
			`{"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"length","matched_stop":null}]}`,
			`{"id":"1","object":"chat.completion.chunk","choices":[],"sglext":{"routed_experts":null,"spec_tokens_details":{"spec_accept_rate":0.5,"spec_accept_length":2.33,"spec_num_correct_drafts":3,"spec_num_proposed_drafts":6,"spec_verify_ct":3,"spec_correct_drafts_histogram":[1,1,1]}}}`,
			`{"id":"1","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":5,"total_tokens":12,"completion_tokens":7,"prompt_tokens_details":null,"reasoning_tokens":0}}`,
		},
		"meta_info of the choice": {
			`{"choices":[{"index":0,"text":"a b c d e f g","finish_reason":null}],"usage":null}`,
			`{"choices":[{"index":0,"text":"","finish_reason":"length","meta_info":{"completion_tokens":7,"spec_verify_ct":3}}]}`,
			`{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7}}`,
		},
	} {
		f := newFake(t, func(_ int, _ map[string]any, w *writer) {
			for _, e := range events {
				w.chunk("%s", e)
			}
			w.chunk("[DONE]")
		})
		r := work(t, job(f))
		if q := r.Requests[0]; q.Error != "" || q.VerifyCalls != 3 || q.OutputTokens != 7 || q.PromptTokens != 5 || q.Server == nil {
			t.Errorf("%s: %+v", name, q)
		}
		n := 0
		for _, m := range r.Metrics() {
			if m.Name == "accept_len" && m.Source == "per_request" && m.Value == 2 && m.N == 18 {
				n++ // six tokens behind the first one in three verify calls, six times
			}
		}
		if n != 1 {
			t.Errorf("%s: no accept length of 2 in %+v", name, r.Metrics())
		}
	}
}

func TestRun_CountersOfTheMeasuredPart(t *testing.T) {
	text := func(tokens, requests int) string {
		return fmt.Sprintf("# TYPE sglang:generation_tokens_total counter\nsglang:generation_tokens_total{model_name=\"m\"} %d.0\nsglang:num_requests_total{model_name=\"m\"} %d\n", tokens, requests)
	}
	f := newFake(t, five)
	f.counters = []string{text(1000, 20), text(1030, 26)}
	r := work(t, job(f))
	if !maps.Equal(r.ServerCounters, map[string]float64{"generation_tokens": 30, "requests": 6}) || r.Restarted || len(r.Notes) != 0 {
		t.Errorf("%v, restarted %v, notes %q", r.ServerCounters, r.Restarted, r.Notes)
	}

	f = newFake(t, five)
	f.counters = []string{text(1000, 20), text(12, 3)}
	r = work(t, job(f))
	if r.ServerCounters != nil || !r.Restarted || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "restarted") || r.Completed != 6 {
		t.Errorf("%v, restarted %v, notes %q", r.ServerCounters, r.Restarted, r.Notes)
	}

	if r := work(t, job(newFake(t, five))); r.ServerCounters != nil || r.Restarted || len(r.Notes) != 0 {
		t.Errorf("without /metrics: %v, notes %q", r.ServerCounters, r.Notes)
	}
}

func TestRun_AutomaticWarmUpIsBounded(t *testing.T) {
	for _, concurrency := range []int{1, 4} {
		f := newFake(t, five) // three chunks: too few to be judged
		j := job(f)
		j.Phase, j.WarmupAuto, j.Warmup, j.Concurrency = bench.PhaseWarm, true, 0, concurrency
		r := work(t, j)
		most := bench.WarmupMost(concurrency)
		if w := r.Warmup; w == nil || !w.Auto || w.Settled || w.Sent != most || w.Spread != -1 {
			t.Errorf("%d at once: %+v, want %d sent", concurrency, w, most)
		}
		if len(r.Requests) != most || r.Completed != most || len(f.bodies) != most || f.most > concurrency {
			t.Errorf("%d at once: %d requests in the report, %d completed, %d sent, %d in flight", concurrency, len(r.Requests), r.Completed, len(f.bodies), f.most)
		}
		seen := map[string]bool{}
		for i, p := range f.prompts() {
			if seen[p] {
				t.Errorf("request %d repeats a prompt: its prefix is cached", i)
			}
			seen[p] = true
		}
	}
}

func TestRun_AGivenWarmUpIsNotJudged(t *testing.T) {
	f := newFake(t, five)
	j := job(f)
	j.Phase, j.Warmup = bench.PhaseWarm, 3
	if w := work(t, j).Warmup; w == nil || w.Auto || w.Sent != 3 || w.Settled || !strings.Contains(w.Rule, "3 requests") {
		t.Errorf("%+v", w)
	}
	j.Phase = bench.PhaseMeasure
	if w := work(t, j).Warmup; w != nil {
		t.Errorf("%+v of a job that only measures", w)
	}
}

// What an older specrun stored is read, and what this one writes has no number
// that JSON cannot hold.
func TestReport_JSON(t *testing.T) {
	var old bench.Report
	if err := json.Unmarshal([]byte(`{"schema":1,"job":{"concurrency":1,"warmup":2},"requests":[{"index":0,"start_us":1,"first_token_us":2,"end_us":5,"chunk_us":[1,4],"output_tokens":3,"verify_calls":-1}],"completed":1}`), &old); err != nil {
		t.Fatal(err)
	}
	if old.Warmup != nil || old.SteadyRule != "" || len(old.Samples()) != 1 || old.Job.WarmupAuto {
		t.Errorf("%+v", old)
	}
	f := newFake(t, five)
	j := job(f)
	j.Phase, j.WarmupAuto = bench.PhaseBoth, true
	r := work(t, j)
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var again bench.Report
	if err := json.Unmarshal(raw, &again); err != nil || again.Schema != 2 || again.Warmup == nil || len(again.Requests[0].Positions) == 0 {
		t.Errorf("%+v, %v", again, err)
	}
}
