package bench

import (
	"maps"
	"strings"
	"testing"
)

func counters(t *testing.T, text string) map[string]float64 {
	t.Helper()
	c, err := parseCounters(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestParseCounters(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want map[string]float64
	}{
		"SGLang": {`# HELP sglang:prompt_tokens_total Number of prefill tokens processed.
# TYPE sglang:prompt_tokens_total counter
sglang:prompt_tokens_total{model_name="meta-llama/Llama-3.1-8B-Instruct"} 8.128902e+06
sglang:generation_tokens_total{is_streaming="false",model_name="m"} 100.0
sglang:generation_tokens_total{is_streaming="true",model_name="m"} 50.0
sglang:generation_tokens_created{model_name="m"} 1.7e+09
sglang:cached_tokens_total{cache_source="device",model_name="m"} 400
sglang:num_requests_total{model_name="m"} 7
sglang:token_usage{model_name="m"} 0.28
sglang:spec_verify_calls_total{dp_rank="0",tp_rank="0"} 11
sglang:spec_verify_calls_total{dp_rank="0",tp_rank="1"} 11
sglang:spec_verify_calls_total{dp_rank="1",tp_rank="0"} 5
sglang:time_to_first_token_seconds_bucket{le="+Inf",model_name="m"} 9
`, map[string]float64{"prompt_tokens": 8128902, "generation_tokens": 150, "cached_tokens": 400, "requests": 7, "spec_verify_calls": 16}},
		"vLLM": {`vllm:generation_tokens_total{engine="0",model_name="a"} 1.000648e+06
vllm:generation_tokens_total{engine="1",model_name="a"} 2.0
vllm:generation_tokens_created{engine="0",model_name="a"} 1.79e+09
vllm:request_success_total{engine="0",finished_reason="stop"} 3.0
vllm:request_success_total{engine="0",finished_reason="length"} 4.0
vllm:request_generation_tokens_sum{engine="0"} 99.0
vllm:spec_decode_num_drafts_total{engine="0"} 10.0
vllm:spec_decode_num_accepted_tokens_total{engine="0"} 13.0
vllm:spec_decode_num_accepted_tokens_created{engine="0"} 1.7e+09
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 9.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="x"} 9.0
vllm:spec_decode_num_accepted_tokens_per_pos_created{engine="0",position="0"} 1.7e+09
`, map[string]float64{"generation_tokens": 1000650, "requests": 7, "spec_verify_calls": 10, "spec_accepted_tokens": 13, "spec_accepted_pos_0": 9}},
		"labels of all kinds": {`sglang:generation_tokens_total 1
sglang:generation_tokens_total{} 2
sglang:generation_tokens_total{model_name="a \"quoted\" } name\\",x="{"} 4 1395066363000
  sglang:generation_tokens_total { a = "b" , } 8
sglang:generation_tokens_total{model_name="unclosed 16
sglang:generation_tokens_total{a="b"}
sglang:generation_tokens_total{a="b"} NaN
sglang:generation_tokens_total{a="b"} many
` + strings.Repeat("x", 1<<17) + "\nsglang:generation_tokens_total 32", map[string]float64{"generation_tokens": 47}},
		"nothing of ours": {"up 1\n", map[string]float64{}},
		"no text":         {"", map[string]float64{}},
	} {
		if got := counters(t, c.text); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestCounted(t *testing.T) {
	before := map[string]float64{"generation_tokens": 100, "requests": 3}
	delta, err := counted(before, map[string]float64{"generation_tokens": 300, "requests": 3, "spec_verify_calls": 9})
	if err != nil || !maps.Equal(delta, map[string]float64{"generation_tokens": 200, "requests": 0, "spec_verify_calls": 9}) {
		t.Errorf("%v, %v", delta, err)
	}
	for _, after := range []map[string]float64{{"generation_tokens": 20, "requests": 3}, {"requests": 4}} {
		delta, err := counted(before, after)
		if err == nil || delta != nil || !strings.Contains(err.Error(), "restarted") || !strings.Contains(err.Error(), "generation_tokens") {
			t.Errorf("%v: %v, %v", after, delta, err)
		}
	}
}
