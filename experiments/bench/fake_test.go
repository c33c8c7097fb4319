package bench_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// fakeServer is an OpenAI-compatible server whose answers a test scripts.
type fakeServer struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []map[string]any
	now    int // requests in flight
	most   int
	answer func(n int, body map[string]any, w *writer)
	// counters is the text of /metrics at each reading, in order; none: 404.
	counters []string
}

// writer sends pieces of a stream at once.
type writer struct {
	http.ResponseWriter
	r *http.Request
}

func (w *writer) send(s string) {
	io.WriteString(w.ResponseWriter, s)
	w.ResponseWriter.(http.Flusher).Flush()
}

// chunk sends one event with a delta or, for completions, a text.
func (w *writer) chunk(format string, args ...any) {
	w.send("data: " + fmt.Sprintf(format, args...) + "\n\n")
}

// token sends one piece of the answer in the shape of the endpoint asked.
func (w *writer) token(s string) {
	if strings.HasSuffix(w.r.URL.Path, "/chat/completions") {
		w.chunk(`{"choices":[{"delta":{"content":%q},"finish_reason":null}]}`, s)
		return
	}
	w.chunk(`{"choices":[{"text":%q,"finish_reason":null}]}`, s)
}

func (w *writer) end(tokens int) {
	w.chunk(`{"choices":[{"delta":{},"finish_reason":"length"}]}`)
	w.chunk(`{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":2}}}`, tokens)
	w.chunk(`[DONE]`)
}

// five is a whole answer of five tokens in three chunks.
func five(_ int, _ map[string]any, w *writer) {
	w.chunk(`{"choices":[{"delta":{"role":"assistant","content":""}}]}`)
	w.token("one")
	w.token(" two three")
	w.token(" four five")
	w.end(5)
}

func newFake(t *testing.T, answer func(n int, body map[string]any, w *writer)) *fakeServer {
	t.Helper()
	f := &fakeServer{answer: answer}
	f.Server = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(f.Close)
	return f
}

func (f *fakeServer) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/metrics" {
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.counters) == 0 {
			http.NotFound(w, r)
			return
		}
		io.WriteString(w, f.counters[0])
		f.counters = f.counters[1:]
		return
	}
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	n := len(f.bodies)
	f.bodies = append(f.bodies, body)
	f.now++
	f.most = max(f.most, f.now)
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.now--
		f.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	f.answer(n, body, &writer{w, r})
}

// prompts that were asked for, in the order of arrival.
func (f *fakeServer) prompts() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, b := range f.bodies {
		if p, ok := b["prompt"].(string); ok {
			out = append(out, p)
			continue
		}
		out = append(out, b["messages"].([]any)[0].(map[string]any)["content"].(string))
	}
	return out
}
