//go:build linux

package lab

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// counters reads /metrics: values by name, the labels left out.
func (s *testServer) counters() map[string]float64 {
	s.t.Helper()
	resp, err := http.Get(s.base + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	out, typed := map[string]float64{}, map[string]bool{}
	for sc := bufio.NewScanner(resp.Body); sc.Scan(); {
		if name, ok := strings.CutPrefix(sc.Text(), "# TYPE "); ok {
			typed[strings.Fields(name)[0]] = true
		}
		if strings.HasPrefix(sc.Text(), "#") {
			continue
		}
		name, rest, ok := strings.Cut(sc.Text(), "{")
		_, value, ok2 := strings.Cut(rest, "} ")
		v, err := strconv.ParseFloat(value, 64)
		if !ok || !ok2 || err != nil {
			s.t.Fatalf("line %q: %v", sc.Text(), err)
		}
		if base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_sum"), "_count"), "_bucket"); !typed[name] && !typed[base] {
			s.t.Errorf("%s has no type", name)
		}
		out[name] = v
	}
	return out
}

// Counters, usage of each chunk and acceptance of each request agree with each other.
func TestCounters(t *testing.T) {
	t.Parallel()
	srv := startServer(t, newEnvironment(t), fast(t), nil,
		append(speculative(2), "--enable-metrics", "--served-model-name", `the "m"`)...).ready()
	before := srv.counters()
	if before["sglang:num_requests_total"] != 0 || before["sglang:generation_tokens_total"] != 0 {
		t.Errorf("the server's own requests count: %v", before)
	}
	g := srv.generate("a b c", 200)
	if code := srv.get("/health_generate", nil); code != 200 {
		t.Errorf("health: %d", code)
	}
	after := srv.counters()
	for name, want := range map[string]float64{"num_requests_total": 1, "generation_tokens_total": 200, "prompt_tokens_total": 3,
		"spec_verify_calls_total": float64(g.Meta.Verifies), "cached_tokens_total": 0, "time_to_first_token_seconds_count": 1,
		"e2e_request_latency_seconds_count": 1, "num_running_reqs": 0, "num_queue_reqs": 0} {
		if got, ok := after["sglang:"+name]; !ok || got != want {
			t.Errorf("%s is %v (%v), want %v", name, got, ok, want)
		}
	}
	for _, name := range []string{"gen_throughput", "spec_accept_length", "spec_accept_rate"} {
		if after["sglang:"+name] <= 0 {
			t.Errorf("%s is %v", name, after["sglang:"+name])
		}
	}

	const body = `{"prompt":"a b c","max_tokens":100,"ignore_eos":true,"stream":true,"return_spec_tokens_details":true,
		"stream_options":{"include_usage":true%s}}`
	for _, each := range []bool{true, false} {
		more := ""
		if each {
			more = `,"continuous_usage_stats":true`
		}
		resp, err := http.Post(srv.base+"/v1/completions", "application/json", strings.NewReader(fmt.Sprintf(body, more)))
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		words, verifies, last := 0, 0, 0
		for chunk := range strings.SplitSeq(string(data), "\n\n") {
			var e struct {
				event
				Extension *struct {
					Details struct {
						Verifies int `json:"spec_verify_ct"`
						Correct  int `json:"spec_num_correct_drafts"`
						Proposed int `json:"spec_num_proposed_drafts"`
					} `json:"spec_tokens_details"`
				} `json:"sglext"`
			}
			text, ok := strings.CutPrefix(chunk, "data: {")
			if !ok {
				continue
			}
			if err := json.Unmarshal([]byte("{"+text), &e); err != nil {
				t.Fatal(err)
			}
			for _, c := range e.Choices {
				words += len(strings.Fields(c.Text))
				if (e.Usage != nil) != each || each && e.Usage.Completion != words {
					t.Errorf("after %d words: usage %+v", words, e.Usage)
				}
			}
			if e.Extension != nil {
				d := e.Extension.Details
				if verifies = d.Verifies; len(e.Choices) != 0 || d.Proposed != 2*d.Verifies || d.Correct+d.Verifies != 99 {
					t.Errorf("acceptance %+v", d)
				}
			}
			if len(e.Choices) == 0 && e.Usage != nil {
				last = e.Usage.Completion
			}
		}
		if words != 100 || last != 100 || verifies == 0 {
			t.Errorf("%d words, %d verify calls, %d in the last usage", words, verifies, last)
		}
	}
	if srv2 := startServer(t, newEnvironment(t), fast(t), nil).ready(); srv2.get("/metrics", nil) != 404 {
		t.Error("metrics without --enable-metrics")
	}
}
