package engine

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"specrun/deploy/server"
)

// observe feeds a log in chunks of n bytes.
func observe(t *testing.T, log string, n int) (all server.Observation) {
	t.Helper()
	r := sg(t).Readiness(Server{})
	for rest := []byte(log); len(rest) > 0; {
		k := min(n, len(rest))
		o := r.Observe(rest[:k])
		rest = rest[k:]
		all.Ready = all.Ready || o.Ready
		all.Milestones = append(all.Milestones, o.Milestones...)
		if o.Crash != nil {
			all.Crash = o.Crash
		}
	}
	return all
}

func TestReadiness_RealStart(t *testing.T) {
	raw, err := os.ReadFile("testdata/start-0.5.log")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"arguments read", "joining ranks", "loading weights", "weights loaded, 68.10 GB", "KV cache allocated, 400000 tokens", "capturing graphs", "graphs captured, 8.10 s",
		"loading weights", "weights loaded, 2.00 GB", "capturing draft graphs", "graphs captured, 2.00 s", "capturing draft extend graphs", "graphs captured, 1.00 s",
		"scheduler up", "HTTP up", "ready marker"}
	for _, n := range []int{1, 7, 4096, len(raw)} {
		o := observe(t, string(raw), n)
		if !o.Ready || o.Crash != nil || !slices.Equal(o.Milestones, want) {
			t.Errorf("chunks of %d: ready %v, crash %+v, milestones %q", n, o.Ready, o.Crash, o.Milestones)
		}
	}
	unready, _, _ := strings.Cut(string(raw), "The server is fired up")
	if o := observe(t, unready, 100); o.Ready {
		t.Error("ready though the marker is not there: uvicorn runs before the model answers")
	}
}

func TestReadiness_Crashes(t *testing.T) {
	for name, c := range map[string]struct{ log, kind string }{
		"wrong flag": {"usage: launch_server.py [-h] --model-path M\nlaunch_server.py: error: unrecognized arguments: --speculative-atention-mode\n", "engine_start_failed"},
		"port":       {"[2026-03-02 10:00:47] ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 30000): address already in use\n", "port_in_use"},
		"scheduler with its cause": {"[2026-03-02 10:00:30 TP0] Scheduler hit an exception: Traceback (most recent call last):\n" +
			"  File \"/x/scheduler.py\", line 10, in run\n    self.init()\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 1.00 GiB free.\n\n" +
			"[2026-03-02 10:00:31] Received sigquit from a child process. It usually means the child failed.\n", "cuda_oom"},
	} {
		for _, n := range []int{5, 10000} {
			o := observe(t, c.log, n)
			if o.Crash == nil || o.Crash.Kind != c.kind || o.Crash.Advice == "" {
				t.Errorf("%s in chunks of %d: %+v", name, n, o.Crash)
			}
		}
		if got := sg(t).CrashIn([]byte(c.log)); got == nil || got.Kind != c.kind {
			t.Errorf("%s in the tail: %+v", name, got)
		}
	}
}

// The head of a traceback alone would not say what happened; that the server
// then ends itself is no cause.
func TestReadiness_CrashSaysWhatWasRaised(t *testing.T) {
	got := sg(t).CrashIn([]byte("[2026-03-02 10:00:30 TP0] Scheduler hit an exception: Traceback (most recent call last):\n" +
		"  File \"/x/scheduler.py\", line 10, in run\n    self.init()\nRuntimeError: no such layer\n\n" +
		"[2026-03-02 10:00:31] Received sigquit from a child process. It usually means the child failed.\nKilled\n"))
	if got == nil || got.Kind != "scheduler_exception" || !strings.Contains(got.Evidence, "RuntimeError: no such layer") {
		t.Errorf("%+v", got)
	}
}

// What looks like a crash and is none, from real starts and stops.
func TestReadiness_Decoys(t *testing.T) {
	for _, line := range []string{
		"Ignore import error when loading sglang.srt.models.x: No module named 'y'",
		"Fail to set RLIMIT_NOFILE: current limit exceeds maximum limit",
		"/x/torch/cuda/__init__.py:61: FutureWarning: The pynvml package is deprecated.",
		"[2026-03-02 10:00:00] server_args=ServerArgs(watchdog_timeout=300, dist_timeout=None)",
		"[2026-03-02 10:00:00 TP1] WARNING: CUDA out of memory safeguards: mem_fraction_static=0.82 leaves 9.80 GB",
		"[2026-03-02 10:00:00] SIGTERM received. signum=None, frame=None. Draining requests and shutting down...",
		"[2026-03-02 10:00:00] Gracefully exiting... Remaining number of requests 0",
	} {
		if o := observe(t, line+"\n", 1000); o.Crash != nil || o.Ready {
			t.Errorf("%s: %+v", line, o.Crash)
		}
	}
}

func TestReadiness_LineWithoutEndIsBounded(t *testing.T) {
	r := newStartLog(sglangText)
	block := []byte(strings.Repeat("x", 10000))
	for range 100 {
		r.Observe(block)
	}
	if len(r.partial) > maxLine {
		t.Errorf("%d bytes kept", len(r.partial))
	}
	r.Observe([]byte("\n"))
	if o := r.Observe([]byte(sglangReady + "\n")); !o.Ready {
		t.Error("the next line was lost")
	}
}

// fakeServer answers like a release of the engine.
func fakeServer(t *testing.T, paths map[string]string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := paths[r.URL.Path]
		if !ok {
			http.Error(w, `{"detail":"Not Found"}`, http.StatusNotFound)
			return
		}
		if r.Method == http.MethodPost {
			asked, err := io.ReadAll(r.Body)
			if err != nil || !strings.Contains(string(asked), `"max_new_tokens":16`) || !strings.Contains(string(asked), `"ignore_eos":true`) {
				http.Error(w, "wrong request", http.StatusBadRequest)
				return
			}
		}
		fmt.Fprint(w, body)
	}))
	t.Cleanup(s.Close)
	return s
}

func TestProbe_NeedsARealGeneration(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		ok     bool
	}{
		"enough":  {`{"text":"x","meta_info":{"completion_tokens":16}}`, true},
		"health":  {`{"text":"x","meta_info":{"completion_tokens":1}}`, false},
		"no meta": {`{"text":"x"}`, false},
		"no JSON": {`<html>`, false},
	} {
		s := fakeServer(t, map[string]string{"/generate": c.answer})
		if err := sg(t).Readiness(Server{}).Probe(t.Context(), s.Client(), s.URL); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := fakeServer(t, nil)
	if err := sg(t).Readiness(Server{}).Probe(t.Context(), s.Client(), s.URL); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("no such path: %v", err)
	}
}

func TestEffectiveConfig_OldAndNewPath(t *testing.T) {
	body := `{"tp_size":8,"mem_fraction_static":0.90,"model_path":"/m","disable_x":false,"none":null,"bs":[1,2],"m":{"a":"<b>"},"internal_states":[{"last_gen_throughput":1}]}`
	want := map[string]string{"tp_size": "8", "mem_fraction_static": "0.90", "model_path": "/m", "disable_x": "false", "none": "null", "bs": "[1,2]", "m": `{"a":"<b>"}`}
	for _, path := range []string{"/server_info", "/get_server_info"} {
		s := fakeServer(t, map[string]string{path: body})
		got, err := sg(t).EffectiveConfig(t.Context(), s.Client(), s.URL, nil)
		if err != nil || len(got) != len(want) {
			t.Fatalf("%s: %v, %v", path, got, err)
		}
		for key := range want {
			if got[key] != want[key] {
				t.Errorf("%s: %s = %q, want %q", path, key, got[key], want[key])
			}
		}
	}
	s := fakeServer(t, nil)
	if _, err := sg(t).EffectiveConfig(t.Context(), s.Client(), s.URL, nil); err == nil {
		t.Error("a server without the path gave a configuration")
	}
}

func TestModel(t *testing.T) {
	s := fakeServer(t, map[string]string{"/v1/models": `{"data":[{"id":"practice"}]}`})
	if got, err := sg(t).Model(t.Context(), s.Client(), s.URL); err != nil || got != "practice" {
		t.Errorf("model = %q, %v", got, err)
	}
	s = fakeServer(t, map[string]string{"/v1/models": `{"data":[]}`})
	if _, err := sg(t).Model(t.Context(), s.Client(), s.URL); err == nil {
		t.Error("an empty list has a model")
	}
}
