//go:build linux

package lab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// generated is what /generate says of one request.
type generated struct {
	Text string
	Meta struct {
		Completion int                   `json:"completion_tokens"`
		Cached     int                   `json:"cached_tokens"`
		Verifies   int                   `json:"spec_verify_ct"`
		Finish     struct{ Type string } `json:"finish_reason"`
	} `json:"meta_info"`
}

func (s *testServer) generate(prompt string, tokens int) generated {
	s.t.Helper()
	code, data := s.post("/generate", fmt.Sprintf(`{"text":%q,"sampling_params":{"max_new_tokens":%d,"ignore_eos":true}}`, prompt, tokens))
	var g generated
	if err := json.Unmarshal(data, &g); err != nil || code != 200 {
		s.t.Fatalf("%d %v %s", code, err, data)
	}
	return g
}

// A server without speculative flags that drafts shows it in what it does, also
// when its configuration denies it.
func TestStillSpeculates(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	for _, c := range []struct {
		name  string
		lies  bool
		says  string
		flags []string
		finds bool
	}{
		{"open", false, `"speculative_algorithm": "EAGLE3", `, nil, true},
		{"lies", true, `"speculative_algorithm": null, `, nil, true},
		{"with speculation", true, `"speculative_num_steps": 2, `, speculative(2), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := fast(t)
			s.Failures = []Failure{{Kind: StillSpeculates, Lies: c.lies}}
			srv := startServer(t, e, s, nil, append(c.flags, "--decode-log-interval", "5", "--enable-metrics")...).ready()
			g := srv.generate("x", 60)
			if g.Meta.Verifies == 0 || g.Meta.Verifies >= 59 {
				t.Errorf("%d verify calls for 60 tokens", g.Meta.Verifies)
			}
			srv.until("accept len: ")
			var raw json.RawMessage
			if srv.get("/get_server_info", &raw); !bytes.Contains(raw, []byte(c.says)) {
				t.Errorf("configuration has no %s: %s", c.says, raw)
			}
			if logged := strings.Contains(srv.text(), "speculative_algorithm='EAGLE3'"); logged == c.lies && c.finds {
				t.Errorf("the arguments in the log name the algorithm: %v", logged)
			}
			if !c.finds && strings.Contains(srv.text(), "speculative_num_steps=3") {
				t.Error("a launch with flags is concerned")
			}
		})
	}
}

func TestFlagIgnored(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	s := fast(t)
	s.Failures = []Failure{{Kind: FlagIgnored, Flag: "mem-fraction-static"}}
	srv := startServer(t, e, s, nil, "--mem-fraction-static", "0.7", "--context-length", "4096").ready()
	var i struct {
		Memory  float64 `json:"mem_fraction_static"`
		Context int     `json:"context_length"`
	}
	if srv.get("/get_server_info", &i); i.Memory != 0.85 || i.Context != 4096 {
		t.Errorf("%+v", i)
	}
	for _, flag := range []string{"no-such-flag", "model-path"} {
		s.Failures[0].Flag = flag
		bad := startServer(t, e, s, nil)
		if code := bad.wait(); code != 1 || !strings.Contains(bad.text(), "cannot ignore the flag '"+flag+"'") {
			t.Errorf("%s: status %d: %s", flag, code, bad.text())
		}
	}
}

// What is appended to the installed worker runs, but not in a server with another copy.
func TestStaleCode(t *testing.T) {
	t.Parallel()
	e := ownEnvironment(t)
	worker := filepath.Join(e.sitePackages(), "sglang", "srt", "speculative", "eagle_worker.py")
	src, err := os.ReadFile(worker)
	if err == nil {
		err = os.WriteFile(worker, append(src, "\nfrom sglang.srt.log import write\nwrite('patched worker\\n')\n"...), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := fast(t)
	two := 2
	s.Failures = []Failure{{Kind: StaleCode, Steps: &two}}
	for steps, patched := range map[int]bool{1: true, two: false} {
		srv := startServer(t, e, s, nil, speculative(steps)...).ready()
		if got := strings.Contains(srv.text(), "patched worker\n"); got != patched {
			t.Errorf("%d steps: the patched worker was loaded: %v", steps, got)
		}
		if g := srv.generate("x", 30); g.Meta.Completion != 30 || g.Meta.Verifies == 0 {
			t.Errorf("%d steps: %+v", steps, g)
		}
	}
}

// The text is a matter of the prompt alone, unless the settings say otherwise.
func TestOutput(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	s := fast(t)
	two, three := 2, 3
	s.Failures = []Failure{{Kind: OtherOutput, Steps: &three, From: 20}}
	s.Stops = []EarlyStop{{Steps: &two, Tokens: 52}}
	words := map[int][]string{}
	for steps := range 4 {
		var flags []string
		if steps > 0 {
			flags = speculative(steps)
		}
		srv := startServer(t, e, s, nil, flags...).ready()
		g := srv.generate("a question", 104)
		words[steps] = strings.Fields(g.Text)
		want, finish := 104, "length"
		if steps == two {
			want, finish = 52, "stop"
		}
		if len(words[steps]) != want || g.Meta.Completion != want || g.Meta.Finish.Type != finish {
			t.Errorf("%d steps: %d words, %+v", steps, len(words[steps]), g.Meta)
		}
	}
	join := func(w []string) string { return strings.Join(w, " ") }
	if join(words[1]) != join(words[0]) || join(words[2]) != join(words[0][:52]) {
		t.Error("text depends on the number of steps")
	}
	if join(words[3][:20]) != join(words[0][:20]) || join(words[3][20:]) == join(words[0][20:]) {
		t.Errorf("other output from 20 on: %s\nnot %s", words[3], words[0])
	}
}

func TestPrefixCache(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	s := fast(t)
	s.PrefixCache = true
	ask := func(srv *testServer) int {
		t.Helper()
		var body struct {
			Usage struct {
				Details struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			}
		}
		_, data := srv.post("/v1/completions", `{"prompt":"one two three four","max_tokens":3}`)
		if err := json.Unmarshal(data, &body); err != nil {
			t.Fatal(err)
		}
		return body.Usage.Details.Cached
	}
	srv := startServer(t, e, s, nil, "--enable-cache-report", "--skip-server-warmup").ready()
	if got := ask(srv); got != 0 {
		t.Errorf("a first prompt has %d cached tokens", got)
	}
	if got := ask(srv); got != 3 {
		t.Errorf("a repeated prompt has %d cached tokens", got)
	}
	if !regexp.MustCompile(`Prefill batch, #new-seq: 1, #new-token: 1, #cached-token: 3, `).MatchString(srv.text()) {
		t.Errorf("no hit in\n%s", srv.text())
	}
	if code := srv.get("/flush_cache", nil); code != 200 {
		t.Errorf("flush: %d", code)
	}
	if got := ask(srv); got != 0 {
		t.Errorf("after a flush: %d cached tokens", got)
	}
	off := startServer(t, e, s, nil, "--enable-cache-report", "--disable-radix-cache").ready()
	if a, b := ask(off), ask(off); a != 0 || b != 0 {
		t.Errorf("without radix cache: %d and %d cached tokens", a, b)
	}
	s.PrefixCache = false
	usual := startServer(t, e, s, nil, "--enable-cache-report").ready()
	if a, b := ask(usual), ask(usual); a != 0 || b != 0 {
		t.Errorf("by default: %d and %d cached tokens", a, b)
	}
}

// A kernel is compiled in the middle of serving, once: the next launch finds it.
func TestJIT(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	s := fast(t)
	s.Failures = []Failure{{Kind: JIT, AfterTokens: 20, Millis: 100}}
	home := t.TempDir()
	kernels := func() []string {
		found, err := filepath.Glob(filepath.Join(home, ".cache/flashinfer/*/*/cached_ops/*/*.so"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	const line = "flashinfer.jit: Loading JIT ops: practice_decode_steps_2\n"
	for launch, want := range []int{1, 0} {
		srv := startServer(t, e, s, []string{"HOME=" + home}, speculative(2)...).ready()
		srv.generate("x", 10)
		if n := len(kernels()); n != launch {
			t.Errorf("launch %d: %d kernels before", launch, n)
		}
		srv.generate("x", 60)
		if n := len(kernels()); n != 1 {
			t.Errorf("launch %d: %d kernels", launch, n)
		}
		if n := strings.Count(srv.text(), line); n != want {
			t.Errorf("launch %d: compiled %d times", launch, n)
		}
		if n := strings.Count(srv.text(), strings.Replace(line, "Loading", "Finished loading", 1)); n != want {
			t.Errorf("launch %d: finished %d times", launch, n)
		}
	}
}

func TestFailure_Validate(t *testing.T) {
	minus, two := -1, 2
	for _, c := range []struct {
		f    Failure
		want string
	}{
		{Failure{Kind: "explode"}, "explode"},
		{Failure{Kind: Crash, AfterTokens: 4}, "after_tokens"},
		{Failure{Kind: Stall, Message: "x"}, "message"},
		{Failure{Kind: Stall, Steps: &minus}, "negative"},
		{Failure{Kind: FlagIgnored}, "flag"},
		{Failure{Kind: FlagIgnored, Flag: "--tp-size"}, "tp-size"},
		{Failure{Kind: StillSpeculates, Steps: &two}, "without speculation"},
		{Failure{Kind: JIT, Lies: true}, "lies"},
	} {
		if err := c.f.validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want an error that names %q", c.f, err, c.want)
		}
	}
	for _, h := range FailureList() {
		s := quiet(t)
		if err := s.Set("failures", "["+h.Example+"]"); err != nil || s.Failures[0].Kind != h.Kind {
			t.Errorf("example of %s: %v", h.Kind, err)
		}
	}
}
