//go:build linux

package lab

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// One server serves all questions of this test: what it answers, counts and logs.
func TestServer(t *testing.T) {
	t.Parallel()
	s := fast(t)
	s.Behind = 60_000 // however busy this machine is, its clock is not set anew
	srv := startServer(t, newEnvironment(t), s, nil, speculative(2)...).ready()

	t.Run("chat stream", func(t *testing.T) {
		events := srv.stream("/v1/chat/completions", `{"messages":[{"role":"user","content":"a b c"}],"max_tokens":100,
			"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`, nil)
		last := events[len(events)-1]
		if last.Usage == nil || len(last.Choices) != 0 || *last.Usage != (usage{4, 100, 104}) {
			t.Errorf("last event %+v", last)
		}
		var text string
		for _, e := range events[:len(events)-1] {
			if e.Usage != nil {
				t.Error("usage before the last event")
			}
			text += e.Choices[0].Delta.Content
		}
		if n := len(strings.Fields(text)); n != 100 {
			t.Errorf("%d words for 100 tokens", n)
		}
		if f := events[len(events)-2].Choices[0].Finish; f != "length" {
			t.Errorf("finish reason %q", f)
		}
	})
	t.Run("same words whole", func(t *testing.T) {
		const body = `{"prompt":"one two","max_tokens":30,"ignore_eos":true%s}`
		var whole event
		if code, data := srv.post("/v1/completions", fmt.Sprintf(body, "")); code != 200 || json.Unmarshal(data, &whole) != nil {
			t.Fatalf("%d %s", code, data)
		}
		var text string
		for _, e := range srv.stream("/v1/completions", fmt.Sprintf(body, `,"stream":true`), nil) {
			text += e.Choices[0].Text
		}
		if text == "" || text != whole.Choices[0].Text || whole.Usage.Completion != 30 {
			t.Errorf("streamed %q, whole %q", text, whole.Choices[0].Text)
		}
	})
	t.Run("ends by itself", func(t *testing.T) {
		var e event
		_, data := srv.post("/v1/completions", `{"prompt":"one two","max_tokens":4000}`)
		if err := json.Unmarshal(data, &e); err != nil || e.Choices[0].Finish != "stop" || e.Usage.Completion >= 4000 {
			t.Errorf("%v %s", err, data)
		}
	})
	t.Run("generate", func(t *testing.T) {
		var g struct {
			IDs  []int `json:"output_ids"`
			Meta struct {
				Completion int     `json:"completion_tokens"`
				Verifies   int     `json:"spec_verify_ct"`
				Accepted   int     `json:"spec_accept_token_num"`
				Proposed   int     `json:"spec_draft_token_num"`
				AcceptLen  float64 `json:"spec_accept_length"`
			} `json:"meta_info"`
		}
		_, data := srv.post("/generate", `{"text":"x","sampling_params":{"max_new_tokens":401,"ignore_eos":true}}`)
		if err := json.Unmarshal(data, &g); err != nil {
			t.Fatal(err)
		}
		m := g.Meta
		if len(g.IDs) != 401 || m.Completion != 401 || m.Accepted+m.Verifies != 400 || m.Proposed != 2*m.Verifies {
			t.Errorf("%d ids, %+v", len(g.IDs), m)
		}
		if got := 400 / float64(m.Verifies); math.Abs(got-1.8736) > 0.02*1.8736 {
			t.Errorf("accept length %.3f", got)
		}
	})
	t.Run("bad requests", func(t *testing.T) {
		for _, c := range []struct {
			path, body string
			code       int
		}{
			{"/v1/completions", `{"prompt":`, 400}, {"/v1/completions", `{}`, 400},
			{"/v1/completions", `[]`, 400}, {"/v1/completions", `{"prompt":"x","max_tokens":0}`, 400},
			{"/v1/completions", `{"prompt":"x","max_tokens":99999999}`, 400},
			{"/v1/chat/completions", `{"messages":[{}]}`, 400}, {"/v1/other", `{}`, 404},
		} {
			if code, data := srv.post(c.path, c.body); code != c.code {
				t.Errorf("%s %s: %d %s", c.path, c.body, code, data)
			}
		}
	})
	t.Run("state", func(t *testing.T) {
		var i info
		srv.get("/get_server_info", &i)
		if i.Version != version || i.Steps != 2 || i.Drafts != 3 || i.Mode != "prefill" || i.Max != 48 || !i.Lab.Simulated {
			t.Errorf("%+v", i)
		}
		// Speeds and noise are told, so that two practice hosts are not taken for one.
		if !strings.Contains(i.Settings, "scale=") || strings.Contains(i.Settings, "acceptance") {
			t.Errorf("settings %q", i.Settings)
		}
		if len(i.States) != 1 || i.States[0].AcceptLen == nil || math.Abs(*i.States[0].AcceptLen-1.87) > 0.1 {
			t.Errorf("internal states %+v", i.States)
		}
		for path, code := range map[string]int{"/health": 200, "/health_generate": 200, "/v1/models": 200, "/server_info": 200,
			"/flush_cache": 200, "/nothing": 404} {
			if got := srv.get(path, nil); got != code {
				t.Errorf("%s: %d, want %d", path, got, code)
			}
		}
		var flushed info
		if srv.get("/get_server_info", &flushed); flushed.States[0].AcceptLen != nil {
			t.Error("accept length survives a flush")
		}
	})
	t.Run("cycle", func(t *testing.T) { cycleByDeviceClock(t, srv, s.Cycle(2, true, 0)) })
	t.Run("log", func(t *testing.T) {
		text := srv.text()
		for _, re := range []string{
			`(?m)^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] server_args=ServerArgs\(model_path='m', .*speculative_num_steps=2, .*\)$`,
			`Load weight begin\. avail mem=\d+\.\d+ GB`, `Capture cuda graph begin\.`, `Capture cuda graph end\.`,
			`Capture draft cuda graph begin\.`, `max_total_num_tokens=\d+`,
			`(?m)^\[[^]]+\] Prefill batch, #new-seq: 1, #new-token: 4, `,
			`(?m)^\[[^]]+\] Decode batch, #running-req: \d, #token: \d+, token usage: 0\.00, accept len: 1\.\d\d, accept rate: 0\.\d\d, cuda graph: True, gen throughput \(token/s\): \d+\.\d\d, #queue-req: 0$`,
		} {
			if !regexp.MustCompile(re).MatchString(text) {
				t.Errorf("no line like %s in\n%s", re, text)
			}
		}
	})
	if err := srv.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := srv.wait(); code != 0 || !strings.Contains(srv.text(), "SIGTERM received.") {
		t.Errorf("exit status %d after SIGTERM:\n%s", code, srv.text())
	}
}

// cycleByDeviceClock compares two looks at the clock while one request runs.
func cycleByDeviceClock(t *testing.T, srv *testServer, want float64) {
	var looks []info
	n := 0
	srv.stream("/v1/completions", `{"prompt":"x","max_tokens":1200,"ignore_eos":true,"stream":true}`, func(event) {
		if n++; n%100 == 50 {
			var i info
			srv.get("/get_server_info", &i)
			looks = append(looks, i)
		}
	})
	compared := 0
	for i := 1; i < len(looks); i++ {
		a, b := looks[i-1].Lab, looks[i].Lab
		cycles := b.Cycles - a.Cycles
		if cycles < 1 || a.Resets != b.Resets {
			continue // this machine stood still in between
		}
		compared++
		if got := (b.Clock - a.Clock) / float64(cycles); math.Abs(got-want) > 1e-4*want {
			t.Errorf("%d cycles took %.5f ms each, want %.5f", cycles, got, want)
		}
	}
	if compared == 0 {
		t.Fatalf("no two of %d looks can be compared", len(looks))
	}
}

func TestRequestsTogether(t *testing.T) {
	t.Parallel()
	srv := startServer(t, newEnvironment(t), fast(t), nil, append(speculative(2), "--max-running-requests", "2")...).ready()
	errs := make(chan error)
	for i := range 5 {
		go func() {
			resp, err := http.Post(srv.base+"/v1/completions", "application/json",
				strings.NewReader(fmt.Sprintf(`{"prompt":"p %d","max_tokens":%d,"ignore_eos":true}`, i, 50+i)))
			if err != nil {
				errs <- err
				return
			}
			defer resp.Body.Close()
			var e event
			if err := json.NewDecoder(resp.Body).Decode(&e); err != nil {
				errs <- err
			} else if e.Usage.Completion != 50+i {
				errs <- fmt.Errorf("request %d: %d tokens", i, e.Usage.Completion)
			} else {
				errs <- nil
			}
		}()
	}
	for range 5 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if regexp.MustCompile(`#running-req: [3-9]`).MatchString(srv.text()) {
		t.Errorf("more than two requests ran together:\n%s", srv.text())
	}
}
