package engine

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func flag(name string, kind Kind, values ...string) Flag {
	return Flag{Name: name, Kind: kind, Values: values}
}

func TestRender(t *testing.T) {
	for name, c := range map[string]struct {
		flag Flag
		want []string
	}{
		"bare":          {flag("enable-metrics", Bare), []string{"--enable-metrics"}},
		"omitted":       {flag("enable-metrics", Omitted), nil},
		"text kept":     {flag("mem-fraction-static", Value, "0.90"), []string{"--mem-fraction-static", "0.90"}},
		"zero kept":     {flag("id", Value, "08"), []string{"--id", "08"}},
		"empty":         {flag("x", Value, ""), []string{"--x", ""}},
		"nasty":         {flag("x", Value, "it's a \"b\"\nc "), []string{"--x", "it's a \"b\"\nc "}},
		"negative":      {flag("x", Value, "-1"), []string{"--x=-1"}},
		"list":          {flag("bs", List, "1", "2", "4"), []string{"--bs", "1", "2", "4"}},
		"list of one":   {flag("bs", List, "-1"), []string{"--bs=-1"}},
		"empty list":    {flag("bs", List), []string{"--bs"}},
		"repeat":        {flag("l", Repeat, "a", "-b"), []string{"--l", "a", "--l=-b"}},
		"join":          {flag("l", Join, "a", "b"), []string{"--l", "a,b"}},
		"join by colon": {Flag{Name: "l", Kind: Join, Values: []string{"a", "b"}, Sep: ":"}, []string{"--l", "a:b"}},
		"json":          {flag("j", JSON, `{"a":0.90,"b":[1]}`), []string{"--j", `{"a":0.90,"b":[1]}`}},
	} {
		if got := Render([]Flag{c.flag}, nil); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := Render([]Flag{flag("a", Bare)}, []string{"--b", "-c d"}); !slices.Equal(got, []string{"--a", "--b", "-c d"}) {
		t.Errorf("args: %q", got)
	}
}

func TestKind_TextRoundTrip(t *testing.T) {
	for k := Omitted; k <= JSON; k++ {
		if got, err := ParseKind(k.String()); err != nil || got != k {
			t.Errorf("%v: %v, %v", k, got, err)
		}
	}
	if _, err := ParseKind("bear"); err == nil {
		t.Error("an unknown kind was taken")
	}
}

func TestOverlay(t *testing.T) {
	base := []Flag{flag("model-path", Value, "m"), flag("speculative-num-steps", Value, "2"), flag("speculative-eagle-topk", Value, "1"), flag("tp-size", Value, "8")}
	before := slices.Clone(base)
	got, err := Overlay(base, []Flag{flag("speculative-*", Omitted), flag("model-path", Value, "n"), flag("new", Bare)})
	want := []Flag{flag("model-path", Value, "n"), flag("tp-size", Value, "8"), flag("new", Bare)}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("overlay = %v, %v; want %v", got, err, want)
	}
	if !reflect.DeepEqual(base, before) {
		t.Error("the base was changed")
	}
	if _, err := Overlay(base, []Flag{flag("[", Omitted)}); err == nil {
		t.Error("a malformed pattern was taken")
	}
}

func sg(t *testing.T) Engine {
	t.Helper()
	e, err := Lookup("sglang")
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestLookup_UnknownNamesTheKnown(t *testing.T) {
	_, err := Lookup("sglanf")
	var unknown *UnknownError
	if !errors.As(err, &unknown) || !strings.Contains(unknown.Hint(), "sglang") {
		t.Errorf("err = %v", err)
	}
}

func TestArgv(t *testing.T) {
	s := Server{Prefix: []string{"numactl", "--interleave=all"}, Python: "~/env/bin/python3", Port: 30001,
		Flags: []Flag{flag("model-path", Value, "/m"), flag("enable-metrics", Bare)}, Args: []string{"--last"}}
	got, err := sg(t).Argv(s)
	want := []string{"numactl", "--interleave=all", "~/env/bin/python3", "-m", "sglang.launch_server", "--model-path", "/m", "--enable-metrics", "--port", "30001", "--last"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("argv = %q, %v", got, err)
	}
	for name, change := range map[string]func(*Server){
		"no interpreter": func(s *Server) { s.Python = "" },
		"no port":        func(s *Server) { s.Port = 0 },
		"port as flag":   func(s *Server) { s.Flags = []Flag{flag("port", Value, "1")} },
		"port in args":   func(s *Server) { s.Args = []string{"--port=1"} },
		"dashes":         func(s *Server) { s.Flags = []Flag{flag("--tp", Value, "1")} },
		"two values":     func(s *Server) { s.Flags = []Flag{flag("tp", Value, "1", "2")} },
	} {
		bad := s
		change(&bad)
		if _, err := sg(t).Argv(bad); err == nil {
			t.Errorf("%s: was taken", name)
		}
	}
}

func spec(steps, topk, draft string) []Flag {
	return []Flag{flag("speculative-algorithm", Value, "EAGLE3"), flag("speculative-num-steps", Value, steps),
		flag("speculative-eagle-topk", Value, topk), flag("speculative-num-draft-tokens", Value, draft)}
}

func TestCanonical_ServersThatAreOneAreEqual(t *testing.T) {
	e := sg(t)
	a := e.Canonical(spec("4", "1", "24"))
	b := e.Canonical(append([]Flag{flag("x", Omitted)}, reversed(spec("4", "1", "5"))...))
	if !reflect.DeepEqual(a, b) {
		t.Errorf("%v and %v", a, b)
	}
	if reflect.DeepEqual(e.Canonical(spec("4", "2", "8")), e.Canonical(spec("4", "2", "6"))) {
		t.Error("with topk 2 the draft tokens count")
	}
}

// One flag has several spellings, the server is one.
func TestCanonical_SpellingsOfAFlag(t *testing.T) {
	one := func(e Engine, names ...string) {
		t.Helper()
		for _, name := range names {
			f := flag(name, Value, "8")
			if got := e.Canonical([]Flag{flag("a", Bare), f}); !reflect.DeepEqual(got[1], flag(names[0], Value, "8")) {
				t.Errorf("%s: %s is %v", e.Name(), name, got)
			}
			if f.Name != name {
				t.Errorf("%s was changed", name)
			}
		}
	}
	one(sg(t), "tp-size", "tp", "tensor-parallel-size")
	one(sg(t), "model-path", "model")
	one(sg(t), "mem-fraction-static")
	one(vl(t), "tensor-parallel-size", "tp", "tensor_parallel_size")
	one(vl(t), "max-num-seqs", "max_num_seqs")
	one(vl(t), "speculative-config.num_speculative_tokens", "speculative_config.num_speculative_tokens", "speculative-config.num-speculative-tokens")
	a, b := flag("tp", Value, "2"), flag("tp-size", Value, "4")
	if reflect.DeepEqual(sg(t).Canonical([]Flag{a}), sg(t).Canonical([]Flag{b})) {
		t.Error("values count")
	}
}

// Whoever holds the port may answer without an end.
func TestDo_AnswersAreBounded(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte(`{"a":"`))
		for chunk := bytes.Repeat([]byte("x"), 1<<20); ; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}))
	defer s.Close()
	_, err := sg(t).EffectiveConfig(t.Context(), s.Client(), s.URL, nil)
	var long *LongAnswerError
	if !errors.As(err, &long) || long.Hint() == "" || !strings.Contains(err.Error(), s.URL) {
		t.Errorf("%v", err)
	}
}

func TestCompare(t *testing.T) {
	e := sg(t)
	effective := map[string]string{
		"speculative_algorithm": "EAGLE", "speculative_num_steps": "4", "speculative_eagle_topk": "1", "speculative_num_draft_tokens": "5",
		"mem_fraction_static": "0.9", "tp_size": "8", "enable_metrics": "true", "cuda_graph_bs": "[1,2,4]",
		"json_model_override_args": `{"b": 1, "a": [0.5]}`, "served_model_name": "08", "speculative_attention_mode": "decode",
	}
	same := append(spec("4", "1", "5"), flag("mem-fraction-static", Value, "0.90"), flag("tp", Value, "08"), flag("enable-metrics", Bare),
		flag("cuda-graph-bs", List, "1", "2", "4"), flag("json-model-override-args", JSON, `{"a":[0.5],"b":1}`), flag("not-reported", Value, "1"),
		flag("enable-metrics", Omitted))
	same[0].Values = []string{"nextn"}
	if got := e.Compare(same, effective); len(got) != 0 {
		t.Errorf("mismatches: %v", got)
	}
	got := e.Compare(append(spec("4", "1", "24")[1:], flag("speculative-attention-mode", Value, "prefill"), flag("cuda-graph-bs", List, "1", "2"), flag("tp-size", Value, "4")), effective)
	var names []string
	for _, m := range got {
		names = append(names, m.Flag)
	}
	if want := []string{"speculative-num-draft-tokens", "speculative-attention-mode", "cuda-graph-bs", "tp-size"}; !slices.Equal(names, want) {
		t.Fatalf("mismatches: %v", got)
	}
	if !strings.Contains(got[0].Rule, "num-steps + 1") || got[0].Asked != "24" || got[0].Effective != "5" || got[3].Rule != "" {
		t.Errorf("mismatches: %+v", got)
	}
}

// What differs in writing alone is as asked; what differs in value is not.
func TestCompare_Writing(t *testing.T) {
	e := sg(t)
	for _, tc := range []struct {
		flag      Flag
		effective string
		same      bool
	}{
		{flag("x", Value, "0.90"), "0.9", true},
		{flag("x", Value, "0.9"), "0.91", false},
		{flag("x", Value, "1e-3"), "0.001", true},
		{flag("x", Value, "08"), "8", true},
		{flag("x", Value, "true"), "True", true},
		{flag("x", Value, "true"), "false", false},
		{flag("x", Value, "None"), "null", true},
		{flag("x", Value, "none"), "fp8", false},
		{flag("x", Value, "auto"), "bfloat16", true},
		{flag("x", Value, "bfloat16"), "auto", false},
		{flag("x-path", Value, "/models/m/"), "/models/m", true},
		{flag("x-path", Value, "/models/m"), "/models/n", false},
		{flag("x", Bare), "true", true},
		{flag("x", Bare), "false", false},
		{flag("x", List, "1", "2.0"), "[1,2]", true},
		{flag("x", List, "1", "2"), "[2,1]", false},
		{flag("x", List, "4"), "[4]", true},
		{flag("x", List, "4"), "4", true},
		{flag("x", Value, "4"), "[4]", true},
		{flag("x", Value, "4"), "[4,8]", false},
		{flag("x", Repeat, "a", "b"), `["a","b"]`, true},
		{flag("x", Join, "a", "b"), "a,b", true},
		{flag("x", Join, "a", "b"), `["a","b"]`, true},
		{flag("x", Join, "a", "b"), `["a","c"]`, false},
		{flag("x", JSON, `{"a":[0.50,null],"b":1}`), `{"b": 1.0, "a": [0.5, null]}`, true},
		{flag("x", JSON, `{"a":1}`), `{"a":1,"b":2}`, false},
		{flag("x", JSON, `{"a":null}`), `{"b":null}`, false},
		{flag("x", JSON, `[1]`), `[1]`, true},
	} {
		got := e.Compare([]Flag{tc.flag}, map[string]string{sglangKey(tc.flag.Name): tc.effective})
		if (len(got) == 0) != tc.same {
			t.Errorf("%s %q against %s: %v", tc.flag.Kind, tc.flag.Values, tc.effective, got)
		}
	}
}

func reversed(flags []Flag) []Flag {
	out := slices.Clone(flags)
	slices.Reverse(out)
	return out
}
