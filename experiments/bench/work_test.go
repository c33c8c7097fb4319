package bench_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"specrun/experiments/bench"
)

func job(f *fakeServer) bench.Job {
	return bench.Job{BaseURL: f.URL, Endpoint: bench.EndpointChat, Model: "m", Prompts: bench.BuiltinChat, Requests: 6, Concurrency: 1,
		MaxTokens: 5, Warmup: 2, IgnoreEOS: true, Seed: 1, Phase: bench.PhaseMeasure}
}

func work(t *testing.T, j bench.Job) bench.Report {
	t.Helper()
	r, err := bench.Run(context.Background(), j, bench.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func metric(r bench.Report, name string) (float64, bool) {
	for _, m := range r.Metrics() {
		if m.Name == name {
			return m.Value, true
		}
	}
	return 0, false
}

func TestRun_CountsTokensFromUsage(t *testing.T) {
	f := newFake(t, five)
	r := work(t, job(f))
	if r.Completed != 6 || r.Failed != 0 || r.Stalled {
		t.Fatalf("completed %d failed %d stalled %v: %s", r.Completed, r.Failed, r.Stalled, r.Requests[0].Error)
	}
	for i, q := range r.Requests {
		if q.Index != i || q.OutputTokens != 5 || q.PromptTokens != 10 || q.CachedTokens != 2 || q.Finish != "length" || q.Output != "one two three four five" {
			t.Errorf("request %+v", q)
		}
		if len(q.ChunkUs) != 3 || q.FirstTokenUs != q.StartUs+q.ChunkUs[0] || q.EndUs != q.StartUs+q.ChunkUs[2] || !slices.IsSorted(q.ChunkUs) {
			t.Errorf("times of request %d: %+v", i, q)
		}
	}
	if n, _ := metric(r, "total_output_tokens"); n != 30 {
		t.Errorf("total_output_tokens %v", n)
	}
	b := f.bodies[0]
	if b["ignore_eos"] != true || b["max_tokens"] != 5.0 || b["stream"] != true || b["model"] != "m" || b["stream_options"].(map[string]any)["include_usage"] != true {
		t.Errorf("request body %v", b)
	}
}

func TestRun_Completions(t *testing.T) {
	f := newFake(t, five)
	j := job(f)
	j.Endpoint = bench.EndpointCompletions
	r := work(t, j)
	if r.Completed != 6 || r.Requests[0].Output != "one two three four five" || f.bodies[0]["prompt"] == nil {
		t.Fatalf("%+v", r.Requests[0])
	}
}

func TestRun_ClosedLoopKeepsTheConcurrency(t *testing.T) {
	var gate sync.WaitGroup
	gate.Add(3)
	f := newFake(t, func(n int, b map[string]any, w *writer) {
		if n < 3 { // all three must be in flight before one may end
			gate.Done()
			gate.Wait()
		}
		five(n, b, w)
	})
	j := job(f)
	j.Concurrency, j.Requests = 3, 9
	r := work(t, j)
	if r.Completed != 9 || f.most != 3 {
		t.Errorf("completed %d, at most %d at once, want 9 and 3", r.Completed, f.most)
	}
}

func TestRun_ReasoningIsOutput(t *testing.T) {
	for _, field := range []string{"reasoning_content", "reasoning"} {
		f := newFake(t, func(_ int, _ map[string]any, w *writer) {
			w.chunk(`{"choices":[{"delta":{"role":"assistant","content":null,%q:"hm"}}]}`, field)
			w.token("yes")
			w.end(2)
		})
		j := job(f)
		j.Requests = 1
		r := work(t, j)
		if q := r.Requests[0]; q.Error != "" || len(q.ChunkUs) != 2 || q.Output != "hmyes" {
			t.Errorf("%s: %+v", field, q)
		}
	}
}

func TestRun_FailedRequestsAreCountedNotAveraged(t *testing.T) {
	faults := map[string]struct {
		answer func(n int, body map[string]any, w *writer)
		want   string
	}{
		"status": {func(_ int, _ map[string]any, w *writer) {
			http.Error(w, `{"error": "model is  busy"}`, http.StatusInternalServerError)
		}, "HTTP 500: {\"error\": \"model is busy\"}"},
		"cut": {func(_ int, _ map[string]any, w *writer) {
			w.token("a")
			w.send("data: {\"choi")
		}, "cut before its end"},
		"no end": {func(_ int, _ map[string]any, w *writer) { w.token("a") }, "cut before its end"},
		"no usage": {func(_ int, _ map[string]any, w *writer) {
			w.token("a")
			w.chunk(`{"choices":[{"delta":{},"finish_reason":"stop"}]}`)
			w.chunk("[DONE]")
		}, "no usage record"},
		"no text": {func(_ int, _ map[string]any, w *writer) { w.end(3) }, "no text"},
		"error event": {func(_ int, _ map[string]any, w *writer) {
			w.token("a")
			w.chunk(`{"error":{"message":"out of memory"}}`)
		}, "out of memory"},
		"no JSON": {func(_ int, _ map[string]any, w *writer) { w.chunk("<html>") }, "no JSON"},
		"not streamed": {func(_ int, _ map[string]any, w *writer) {
			w.Header().Set("Content-Type", "application/json")
			w.send("{}")
		}, "did not stream"},
		"gone": {func(_ int, _ map[string]any, w *writer) { panic(http.ErrAbortHandler) }, "EOF"},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, func(n int, b map[string]any, w *writer) {
				if n%2 == 1 {
					fault.answer(n, b, w)
					return
				}
				five(n, b, w)
			})
			f.Config.ErrorLog = nil
			r := work(t, job(f))
			if r.Completed != 3 || r.Failed != 3 {
				t.Fatalf("completed %d failed %d: %v", r.Completed, r.Failed, r.Requests)
			}
			if got := r.Requests[1].Error; !strings.Contains(got, fault.want) {
				t.Errorf("error %q, want %q in it", got, fault.want)
			}
			if n, _ := metric(r, "total_output_tokens"); n != 15 {
				t.Errorf("total_output_tokens %v, want those of the three that completed", n)
			}
			if n, _ := metric(r, "failed"); n != 3 {
				t.Errorf("failed %v", n)
			}
			if r.OutputsSHA != "" {
				t.Error("a hash of all outputs, though three are missing")
			}
		})
	}
}

func TestRun_NothingCompletedGivesNoThroughput(t *testing.T) {
	f := newFake(t, func(_ int, _ map[string]any, w *writer) { http.Error(w, "no", http.StatusServiceUnavailable) })
	r := work(t, job(f))
	for _, m := range r.Metrics() {
		if m.Name != "completed" && m.Name != "failed" {
			t.Errorf("metric %s = %v without a completed request", m.Name, m.Value)
		}
	}
}

func TestRun_StallEndsTheBenchmark(t *testing.T) {
	f := newFake(t, func(n int, b map[string]any, w *writer) {
		if n < 2 {
			five(n, b, w)
			return
		}
		w.token("and then")
		<-w.r.Context().Done()
	})
	j := job(f)
	j.Stall = 100 * time.Millisecond
	r := work(t, j)
	if !r.Stalled || r.Completed != 2 || r.Failed != 4 {
		t.Fatalf("stalled %v completed %d failed %d", r.Stalled, r.Completed, r.Failed)
	}
	if e := r.Requests[2].Error; !strings.Contains(e, "stalled") {
		t.Errorf("error %q", e)
	}
	if e := r.Requests[5].Error; !strings.Contains(e, "not sent") {
		t.Errorf("error %q of a request that was never sent", e)
	}
	if len(f.bodies) != 3 {
		t.Errorf("%d requests reached the server after it stalled, want 3", len(f.bodies))
	}
}

func TestRun_CancelEndsAtOnceWithoutAReport(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	f := newFake(t, func(_ int, _ map[string]any, w *writer) {
		w.token("a")
		cancel()
		<-w.r.Context().Done()
	})
	if _, err := bench.Run(ctx, job(f), bench.Options{}); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
}

func TestRun_PromptsFollowTheSeed(t *testing.T) {
	ask := func(seed int64, phase string) ([]string, bench.Report) {
		f := newFake(t, five)
		j := job(f)
		j.Seed, j.Phase, j.Requests, j.Warmup = seed, phase, 50, 12
		r := work(t, j)
		return f.prompts(), r
	}
	a, ra := ask(1, bench.PhaseMeasure)
	b, rb := ask(1, bench.PhaseMeasure)
	c, rc := ask(2, bench.PhaseMeasure)
	if !slices.Equal(a, b) || ra.PromptsSHA != rb.PromptsSHA || ra.OutputsSHA == "" || ra.OutputsSHA != rb.OutputsSHA {
		t.Error("the same seed sent other prompts")
	}
	if slices.Equal(a, c) || ra.PromptsSHA == rc.PromptsSHA {
		t.Error("another seed sent the same prompts in the same order")
	}
	seen := map[string]bool{}
	for _, p := range a {
		if seen[p] {
			t.Errorf("prompt sent twice: %q", p)
		}
		seen[p] = true
	}
	warm, _ := ask(1, bench.PhaseWarm)
	if len(warm) != 12 {
		t.Fatalf("%d warm-up requests", len(warm))
	}
	for _, p := range warm {
		if seen[p] {
			t.Errorf("warm-up uses a measured prompt: %q", p)
		}
	}
}

func TestRun_WarmUpComesFirstAndIsNotMeasured(t *testing.T) {
	f := newFake(t, func(n int, b map[string]any, w *writer) {
		if n == 0 {
			http.Error(w, "cold", 500)
			return
		}
		five(n, b, w)
	})
	j := job(f)
	j.Phase = bench.PhaseBoth
	r := work(t, j)
	if len(f.bodies) != 8 || len(r.Requests) != 6 || r.Completed != 6 || r.WarmupFailed != 1 || !strings.Contains(r.WarmupError, "cold") {
		t.Errorf("sent %d, report %d requests, warm-up failed %d %q", len(f.bodies), len(r.Requests), r.WarmupFailed, r.WarmupError)
	}
}

func TestRun_LogCursorsHoldWhatTheServerWroteMeanwhile(t *testing.T) {
	log := filepath.Join(t.TempDir(), "server.log")
	if err := os.WriteFile(log, []byte("start-up\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	write := func(s string) {
		f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteString(s)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Error(err)
		}
	}
	late := make(chan struct{})
	f := newFake(t, func(n int, b map[string]any, w *writer) {
		write(fmt.Sprintf("request %d\n", n))
		five(n, b, w)
		if n == 5 {
			go func() { // the server's last row comes after its last response
				<-w.r.Context().Done()
				write("last row\n")
				close(late)
			}()
		}
	})
	j := job(f)
	j.LogPath = log
	r := work(t, j)
	<-late
	st, err := os.Stat(log)
	if err != nil {
		t.Fatal(err)
	}
	if r.LogStart != 9 || r.LogEnd != st.Size() {
		t.Errorf("cursors %d to %d, want 9 to %d", r.LogStart, r.LogEnd, st.Size())
	}
}

func TestRun_MissingLogIsSaid(t *testing.T) {
	f := newFake(t, five)
	j := job(f)
	j.LogPath = filepath.Join(t.TempDir(), "none.log")
	r := work(t, j)
	if r.LogStart != -1 || r.LogEnd != -1 || len(r.Notes) == 0 || r.Completed != 6 {
		t.Errorf("cursors %d %d notes %v", r.LogStart, r.LogEnd, r.Notes)
	}
}

func TestRun_ServerSideSpeculationIsKept(t *testing.T) {
	f := newFake(t, func(_ int, _ map[string]any, w *writer) {
		w.token("a b c d e")
		w.chunk(`{"choices":[{"delta":{},"finish_reason":"length","meta_info":{"spec_verify_ct":2,"completion_tokens":5}}]}`)
		w.end(5)
	})
	r := work(t, job(f))
	if q := r.Requests[0]; q.VerifyCalls != 2 || !strings.Contains(string(q.Server), "spec_verify_ct") {
		t.Fatalf("%+v", q)
	}
	for _, m := range r.Metrics() {
		if m.Name == "accept_len" {
			if m.Value != 2 || m.Source != "per_request" {
				t.Errorf("%+v: four tokens after the first, two verify calls", m)
			}
			return
		}
	}
	t.Error("no accept_len")
}

func TestCheck(t *testing.T) {
	good := bench.Job{BaseURL: "http://127.0.0.1:1", Endpoint: "chat", Prompts: bench.BuiltinChat, Requests: 1, Concurrency: 1, MaxTokens: 1}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*bench.Job){
		"base URL":    func(j *bench.Job) { j.BaseURL = "127.0.0.1:30000" },
		"endpoint":    func(j *bench.Job) { j.Endpoint = "embed" },
		"phase":       func(j *bench.Job) { j.Phase = "cool" },
		"concurrency": func(j *bench.Job) { j.Concurrency = 0 },
		"max_tokens":  func(j *bench.Job) { j.MaxTokens = 0 },
		"requests":    func(j *bench.Job) { j.Requests = 0 },
		"prompts":     func(j *bench.Job) { j.Prompts = "builtin:chess" },
	} {
		j := good
		spoil(&j)
		if err := j.Check(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
