package engine

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"context"

	"specrun/deploy/server"
)

func vl(t *testing.T) Engine {
	t.Helper()
	e, err := Lookup("vllm")
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func ngram(k string) Flag {
	return flag("speculative-config", JSON, `{"method":"ngram","num_speculative_tokens":`+k+`,"prompt_lookup_max":4}`)
}

func TestVLLM_Argv(t *testing.T) {
	head := []string{"py", "-m", "vllm.entrypoints.cli.main", "serve"}
	for name, c := range map[string]struct {
		flags []Flag
		args  []string
		want  []string
	}{
		"model is a word": {[]Flag{flag("max-model-len", Value, "1024"), flag("model", Value, "/m")}, nil, []string{"/m", "--max-model-len", "1024", "--port", "8000"}},
		"a map":           {[]Flag{flag("model", Value, "/m"), ngram("3")}, nil, []string{"/m", "--speculative-config", `{"method":"ngram","num_speculative_tokens":3,"prompt_lookup_max":4}`, "--port", "8000"}},
		"a map of 0":      {[]Flag{flag("model", Value, "/m"), ngram("0")}, nil, []string{"/m", "--port", "8000"}},
		"dotted":          {[]Flag{flag("model", Value, "/m"), flag("speculative-config.method", Value, "ngram"), flag("speculative-config.num_speculative_tokens", Value, "2")}, nil, []string{"/m", "--speculative-config.method", "ngram", "--speculative-config.num_speculative_tokens", "2", "--port", "8000"}},
		"dotted of 0":     {[]Flag{flag("model", Value, "/m"), flag("speculative-config.method", Value, "ngram"), flag("speculative-config.num_speculative_tokens", Value, "0")}, nil, []string{"/m", "--port", "8000"}},
		"a config file":   {[]Flag{flag("config", Value, "c.yaml")}, nil, []string{"--config", "c.yaml", "--port", "8000"}},
		"model in args":   {nil, []string{"--model", "/m"}, []string{"--port", "8000", "--model", "/m"}},
	} {
		got, err := vl(t).Argv(Server{Python: "py", Port: 8000, Flags: c.flags, Args: c.args})
		if err != nil || !slices.Equal(got, slices.Concat(head, c.want)) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, s := range map[string]Server{
		"no model":        {Python: "py", Port: 1, Flags: []Flag{flag("seed", Value, "1")}},
		"model of a dash": {Python: "py", Port: 1, Flags: []Flag{flag("model", Value, "-x")}},
		"no interpreter":  {Port: 1, Flags: []Flag{flag("model", Value, "m")}},
		"port as a flag":  {Python: "py", Port: 1, Flags: []Flag{flag("model", Value, "m"), flag("port", Value, "1")}},
		"no port":         {Python: "py", Flags: []Flag{flag("model", Value, "m")}},
	} {
		if got, err := vl(t).Argv(s); err == nil {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestVLLM_Canonical(t *testing.T) {
	e := vl(t)
	a := e.Canonical([]Flag{flag("model", Value, "m"), flag("speculative-config", JSON, `{"num_speculative_tokens":3,"method":"ngram"}`)})
	b := e.Canonical([]Flag{flag("speculative-config", JSON, `{"method": "ngram", "num_speculative_tokens": 3}`), flag("x", Omitted), flag("model", Value, "m")})
	if !reflect.DeepEqual(a, b) {
		t.Errorf("%v and %v", a, b)
	}
	if got := e.Canonical([]Flag{ngram("0")}); len(got) != 0 {
		t.Errorf("0 tokens: %v", got)
	}
}

func follow(t *testing.T, r server.Readiness, file string, n int) (all server.Observation) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for rest := raw; len(rest) > 0; {
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

func TestVLLM_RealStart(t *testing.T) {
	want := []string{"arguments read", "engine starting", "loading weights", "weights loaded, 0.10 s", "KV cache allocated, 524,288 tokens", "engine up, 7.82 s", "ready marker"}
	for _, n := range []int{1, 13, 1 << 20} {
		o := follow(t, vl(t).Readiness(Server{}), "testdata/start-vllm-0.32.log", n)
		if !o.Ready || o.Crash != nil || !slices.Equal(o.Milestones, want) {
			t.Errorf("chunks of %d: ready %v, crash %+v, milestones %q", n, o.Ready, o.Crash, o.Milestones)
		}
	}
}

// fakeVLLM answers as a release does; what it has no answer for is 404.
func fakeVLLM(t *testing.T, answers map[string]string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		if r.URL.RawQuery != "" {
			path += "?" + r.URL.RawQuery
		}
		body, ok := answers[path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if r.Method == http.MethodPost {
			raw, err := io.ReadAll(r.Body)
			var asked map[string]any
			if err != nil || json.Unmarshal(raw, &asked) != nil || asked["temperature"] != 0.0 || asked["max_tokens"] != 16.0 || asked["model"] != "tiny" {
				http.Error(w, "wrong request", http.StatusBadRequest)
				return
			}
		}
		if _, err := io.WriteString(w, body); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

const tinyModels = `{"object":"list","data":[{"id":"tiny","root":"/m","max_model_len":1024}]}`

func TestVLLM_Probe(t *testing.T) {
	enough := `{"choices":[{"text":"x"}],"usage":{"completion_tokens":16}}`
	for name, c := range map[string]struct {
		answers map[string]string
		ok      bool
	}{
		"generates":   {map[string]string{"/health": "", "/v1/models": tinyModels, "/v1/completions": enough}, true},
		"dead engine": {map[string]string{"/v1/models": tinyModels, "/v1/completions": enough}, false},
		"too short":   {map[string]string{"/health": "", "/v1/models": tinyModels, "/v1/completions": `{"choices":[{}],"usage":{"completion_tokens":3}}`}, false},
		"no choice":   {map[string]string{"/health": "", "/v1/models": tinyModels, "/v1/completions": `{"usage":{"completion_tokens":16}}`}, false},
		"no model":    {map[string]string{"/health": "", "/v1/models": `{"data":[]}`, "/v1/completions": enough}, false},
	} {
		s := fakeVLLM(t, c.answers)
		if err := vl(t).Readiness(Server{}).Probe(t.Context(), s.Client(), s.URL); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func readTestdata(t *testing.T, name string) StartLog {
	return func(context.Context) ([]byte, error) { return os.ReadFile("testdata/" + name) }
}

func TestVLLM_ConfigOfTheLog(t *testing.T) {
	s := fakeVLLM(t, map[string]string{"/version": `{"version":"0.32.0"}`, "/v1/models": tinyModels,
		"/metrics": "# HELP x\nvllm:cache_config_info{block_size=\"16\",cache_dtype=\"auto\",enable_prefix_caching=\"True\",engine=\"0\",gpu_memory_utilization=\"0.9\",num_gpu_blocks=\"512\"} 1.0\n"})
	got, err := vl(t).EffectiveConfig(t.Context(), s.Client(), s.URL, readTestdata(t, "start-vllm-0.32.log"))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"model": "/srv/models/tiny", "dtype": "bfloat16", "max_model_len": "1024", "enforce_eager": "true", "seed": "0",
		"tensor_parallel_size": "1", "version": "0.32.0", "read_from": "log", "num_gpu_blocks": "512", "enable_prefix_caching": "true", "quantization": "null"} {
		if got[key] != want {
			t.Errorf("%s = %q, want %q", key, got[key], want)
		}
	}
	asked := []Flag{flag("model", Value, "/srv/models/tiny"), flag("max-model-len", Value, "1024"), flag("enforce-eager", Bare), flag("dtype", Value, "auto"),
		flag("speculative-config", JSON, `{"method":"ngram","num_speculative_tokens":3,"prompt_lookup_max":4,"prompt_lookup_min":2}`)}
	if diff := vl(t).Compare(asked, got); len(diff) != 0 {
		t.Errorf("mismatches: %v", diff)
	}
	// What the engine itself does not print is what was asked for, and no proof.
	if got[OnlyAsked] != "host,port,speculative_config.prompt_lookup_max,speculative_config.prompt_lookup_min" || !strings.Contains(got["speculative_config"], `"prompt_lookup_max":4`) {
		t.Errorf("only asked: %q of %s", got[OnlyAsked], got["speculative_config"])
	}
	asked[4].Values = []string{`{"method":"ngram","num_speculative_tokens":5,"prompt_lookup_max":40}`}
	asked[1].Values = []string{"2k"}
	var names []string
	for _, m := range vl(t).Compare(asked, got) {
		names = append(names, m.Flag)
	}
	if want := []string{"max-model-len", "speculative-config.num_speculative_tokens"}; !slices.Equal(names, want) {
		t.Errorf("mismatches of %q", names)
	}
}

func TestVLLM_ConfigOfDevelopmentMode(t *testing.T) {
	const info = `{"vllm_config":{"model_config":{"model":"/m","dtype":"torch.bfloat16","max_model_len":1024,"seed":7,"hf_token":"hf_secret"},
		"cache_config":{"cache_dtype":"auto","gpu_memory_utilization":0.9},"parallel_config":{"tensor_parallel_size":8},
		"scheduler_config":{"max_num_seqs":256,"chunked_prefill_enabled":true},
		"speculative_config":%s},"vllm_env":{},"system_env":{}}`
	serve := func(spec string) map[string]string {
		s := fakeVLLM(t, map[string]string{"/server_info?config_format=json": strings.Replace(info, "%s", spec, 1), "/version": `{"version":"0.32.0"}`})
		got, err := vl(t).EffectiveConfig(t.Context(), s.Client(), s.URL, func(context.Context) ([]byte, error) {
			t.Error("the log was asked for")
			return nil, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	got := serve(`{"method":"ngram","num_speculative_tokens":3,"target_model_config":{"model":"/m"}}`)
	want := map[string]string{"model": "/m", "dtype": "bfloat16", "max_model_len": "1024", "seed": "7", "kv_cache_dtype": "auto", "gpu_memory_utilization": "0.9",
		"tensor_parallel_size": "8", "max_num_seqs": "256", "enable_chunked_prefill": "true", "speculative_config": `{"method":"ngram","num_speculative_tokens":3}`,
		"version": "0.32.0", "read_from": "server_info"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	// A server that dropped speculation is not what was asked for.
	diff := vl(t).Compare([]Flag{ngram("3"), flag("max-num-seqs", Value, "0.25k")}, serve("null"))
	if len(diff) != 2 || diff[0].Effective != "null" {
		t.Errorf("mismatches: %v", diff)
	}
	if diff := vl(t).Compare([]Flag{ngram("0"), flag("no-enable-chunked-prefill", Bare)}, serve("null")); len(diff) != 1 || diff[0].Flag != "no-enable-chunked-prefill" {
		t.Errorf("mismatches: %v", diff)
	}
}

func TestPyValue(t *testing.T) {
	for text, want := range map[string]string{
		`{'a': 'it\'s', "b": [1, 2.5, None], 'c': (True,), 'd': {}}`:         `{"a":"it's","b":[1,2.5,null],"c":[true],"d":{}}`,
		`{'mode': <CompilationMode.NONE: 0>, 'x': <object at 0x7f>, 'y': 1}`: `{"mode":0,"x":"<object at 0x7f>","y":1}`,
		`SpeculativeConfig(method='ngram', model=None, num_spec_tokens=3)`:   `{"method":"ngram","model":null,"num_spec_tokens":3}`,
		`{"level":3,"use":true,"n":null}`:                                    `{"level":3,"n":null,"use":true}`,
		`torch.bfloat16`:                                                     `torch.bfloat16`,
		`{'cut': 'in the mid`:                                                `{"cut":"in the mid"}`,
		`[[[`:                                                                `[[[]]]`,
		`{1, 2}`:                                                             `["1","2"]`,
	} {
		got, err := plainJSON(pyValue(text))
		if err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
		}
	}
	args := pyArguments("model='/m', cfg=C(a=1, b='x, y'), seed=0, compilation_config={'a': [], 'b': None}")
	if got, err := plainJSON(args); err != nil || got != `{"cfg":{"a":1,"b":"x, y"},"compilation_config":{"a":[],"b":null},"model":"/m","seed":0}` {
		t.Errorf("%s, %v", got, err)
	}
}

func FuzzPyValue(f *testing.F) {
	f.Add("{'a': [1, (2, <X: 'y'>)], 'b': C(d='e')}")
	f.Fuzz(func(t *testing.T, s string) {
		if _, err := plainJSON(pyValue(s)); err != nil {
			t.Error(err)
		}
		pyArguments(s)
	})
}

func TestVLLM_LogEvery(t *testing.T) {
	p := vl(t).(Periodic)
	for name, c := range map[string]struct {
		flags []Flag
		env   map[string]string
		want  time.Duration
	}{
		"default":  {nil, nil, 10 * time.Second},
		"set":      {nil, map[string]string{"VLLM_LOG_STATS_INTERVAL": "2.5"}, 2500 * time.Millisecond},
		"nonsense": {nil, map[string]string{"VLLM_LOG_STATS_INTERVAL": "x"}, 10 * time.Second},
		"off":      {[]Flag{flag("disable-log-stats", Bare)}, nil, 0},
	} {
		if got := p.LogEvery(c.flags, c.env); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A server that printed nothing of its configuration has told a part of it.
func TestVLLM_PartialConfig(t *testing.T) {
	s := fakeVLLM(t, map[string]string{"/version": `{"version":"0.32.0"}`, "/metrics": "vllm:cache_config_info{block_size=\"16\"} 1.0\n"})
	got, err := vl(t).EffectiveConfig(t.Context(), s.Client(), s.URL, func(context.Context) ([]byte, error) { return []byte("INFO: nothing\n"), nil })
	if err != nil || !Partial(got) || got["block_size"] != "16" {
		t.Errorf("%v, %v", got, err)
	}
	// Its command line is what was asked for.
	got, err = vl(t).EffectiveConfig(t.Context(), s.Client(), s.URL, func(context.Context) ([]byte, error) {
		return []byte("INFO 11-29 21:51:36 [api_utils.py:286] non-default args: {'max_model_len': 1024, 'block_size': 32}\n"), nil
	})
	if err != nil || !Partial(got) || got[OnlyAsked] != "max_model_len" || got["max_model_len"] != "1024" || got["block_size"] != "16" {
		t.Errorf("%v, %v", got, err)
	}
}
