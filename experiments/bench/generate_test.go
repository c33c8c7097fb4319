package bench_test

import (
	"strings"
	"testing"

	"specrun/experiments/bench"
)

// generated is an answer of SGLang's own route: 41 tokens in three pieces, the
// text each time from its beginning or, when told so, only what is new.
func generated(incremental bool) func(int, map[string]any, *writer) {
	return func(_ int, _ map[string]any, w *writer) {
		meta := `"id":"1","prompt_tokens":10,"cached_tokens":4,"weight_version":"default"`
		texts := []string{"eins", "eins zwei", "eins zwei drei ü"}
		if incremental {
			texts = []string{"eins", " zwei", " drei ü"}
		}
		w.chunk(`{"text":%q,"output_ids":[1],"meta_info":{%s,"finish_reason":null,"completion_tokens":1}}`, texts[0], meta)
		w.chunk(`{"text":%q,"output_ids":[1,2],"meta_info":{%s,"finish_reason":null,"completion_tokens":21,"spec_verify_ct":10}}`, texts[1], meta)
		w.chunk(`{"text":%q,"output_ids":[1,2,3],"meta_info":{%s,"finish_reason":{"type":"length","length":41},"completion_tokens":41,"spec_verify_ct":20,"spec_accept_length":2.05,"e2e_latency":0.3}}`, texts[2], meta)
		w.chunk("[DONE]")
	}
}

func TestRun_Generate(t *testing.T) {
	for _, incremental := range []bool{false, true} {
		f := newFake(t, generated(incremental))
		j := job(f)
		j.Endpoint = bench.EndpointGenerate
		r := work(t, j)
		for _, q := range r.Requests {
			if q.Error != "" || q.OutputTokens != 41 || q.PromptTokens != 10 || q.CachedTokens != 4 || q.VerifyCalls != 20 || q.Finish != "length" ||
				q.Output != "eins zwei drei ü" || len(q.ChunkUs) != 3 || q.PositionsFrom != bench.FromUsage || len(q.Positions) != 2 {
				t.Fatalf("incremental %v: %+v", incremental, q)
			}
			if strings.Count(string(q.Server), "completion_tokens") != 1 {
				t.Errorf("kept of the server: %s", q.Server)
			}
		}
		b := f.bodies[0]
		params, _ := b["sampling_params"].(map[string]any)
		if b["text"] == "" || b["text"] == nil || b["stream"] != true || params["max_new_tokens"] != 5.0 || params["temperature"] != 0.0 || params["ignore_eos"] != true || b["stream_options"] != nil {
			t.Errorf("request body %v", b)
		}
		if v, _ := metric(r, "accept_len"); v != 2 {
			t.Errorf("accept length %v: 40 tokens behind the first one in 20 verify steps", v)
		}
	}
}

func TestRun_GenerateThatFails(t *testing.T) {
	for want, event := range map[string]string{
		"aborted":       `{"text":"","meta_info":{"completion_tokens":0,"finish_reason":{"type":"abort","message":"out of memory"}}}`,
		"out of memory": `{"error":{"message":"out of memory"}}`,
		"meta_info":     `{"text":"a","meta_info":{"completion_tokens":"many"}}`,
		"cut before":    `{"text":"a","meta_info":{"completion_tokens":1,"finish_reason":null}}`,
	} {
		f := newFake(t, func(_ int, _ map[string]any, w *writer) { w.chunk("%s", event) })
		j := job(f)
		j.Endpoint, j.Requests = bench.EndpointGenerate, 1
		if q := work(t, j).Requests[0]; !strings.Contains(q.Error, want) {
			t.Errorf("error %q, want %q in it", q.Error, want)
		}
	}
}
