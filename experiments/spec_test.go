package experiments

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func loadExample(t *testing.T) *Spec {
	t.Helper()
	src, err := os.ReadFile("testdata/eagle3-steps.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, err := LoadSpec("eagle3-steps.yaml", src)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLoadSpec_ReadsTheDesignsExample(t *testing.T) {
	t.Parallel()
	s := loadExample(t)
	if s.Name != "eagle3-steps" || s.Rounds != 3 || s.Repeats != 1 || s.Order != OrderInterleave || s.After != AfterRestore {
		t.Errorf("top level: %+v", s)
	}
	if diff := cmp.Diff([]int{0, 1, 2, 3, 5}, s.Server.GPUs); diff != "" {
		t.Error(diff)
	}
	if s.Server.Ready != (Ready{Timeout: time.Hour, Stall: 20 * time.Minute}) || s.Limits.Run != time.Hour {
		t.Errorf("durations: %+v %+v", s.Server.Ready, s.Limits)
	}
	steps, _ := s.param("steps")
	if len(steps.Values) != 4 || steps.Default.Value != int64(2) || steps.Help != "draft steps" {
		t.Errorf("steps: %+v", steps)
	}
	if !s.Baseline.HasPatches || len(s.Baseline.Patches) != 0 || s.Baseline.Flags[0].Name != "speculative-*" {
		t.Errorf("baseline: %+v", s.Baseline)
	}
	if e := s.Server.Env[1]; e.Name != "HF_TOKEN" || e.From != "HF_TOKEN" {
		t.Errorf("secret: %+v", e)
	}
}

func TestSpec_SurvivesJSON(t *testing.T) {
	t.Parallel()
	src := `version: 1
name: "odd \" one"
server:
  engine: sglang
  gpus: [1]
  port: 31000
  login_env: true
  flags: {a: 0.90, b: 1e-3, c: 08, d: on, e: true, f: "true", g: null, h: [1, "two words", 0.10], i: {repeat: [x, y]},
          j: {join: ":", values: [p, q]}, k: {method: eagle3, n: 3, deep: {x: [1.50, null, false]}}, l: "a'b\" c\nd", m: "$${HOME}"}
  args: ["--x", "", 010]
  env: {A: 1.0, B: yes, C: null, D: {from: env, name: OTHER}}
params: {x: {default: 0.50, values: [0.50, "1..3", 2..3]}}
where: x > 0
bench: {requests: 3, stall: 90s}
after: keep
`
	first, err := LoadSpec("s.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	second, err := LoadSpec("s.yaml", text)
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if diff := cmp.Diff(first, second, cmpopts.IgnoreTypes(Pos{})); diff != "" {
		t.Errorf("%s\n%s", text, diff)
	}
	values := map[string]string{}
	for _, f := range first.Server.Flags {
		values[f.Name] = f.Value.Scalar.Text
	}
	for name, want := range map[string]string{"a": "0.90", "b": "1e-3", "c": "08", "d": "on", "f": "true", "l": "a'b\" c\nd"} {
		if values[name] != want {
			t.Errorf("flag %s: %q, want %q", name, values[name], want)
		}
	}
	if got := len(first.Params[0].Values); got != 4 {
		t.Errorf("values: %d, want 0.50, the text 1..3, 2 and 3", got)
	}
}

// aliasesOfAliases grow tenfold with each line.
var aliasesOfAliases = func() string {
	var b strings.Builder
	for c := 'b'; c < 'n'; c++ {
		fmt.Fprintf(&b, "    %c: &%c [%s*%c]\n", c, c, strings.Repeat(fmt.Sprintf("*%c, ", c-1), 9), c-1)
	}
	return b.String()
}()

func TestLoadSpec_SaysWhereAndWhat(t *testing.T) {
	t.Parallel()
	const head = "version: 1\nname: n\n"
	const server = "server: {engine: sglang}\n"
	for name, c := range map[string]struct{ src, place, msg, hint string }{
		"empty":              {"", "s.yaml:", "empty", "init"},
		"no yaml":            {"a: [1\nb", "s.yaml:", "", "no valid YAML"},
		"unknown key":        {head + server + "reapeats: 3\n", "s.yaml:4:1: reapeats:", "unknown key", "did you mean repeats?"},
		"unknown nested":     {head + "server:\n  engine: sglang\n  flgas: {}\n", "s.yaml:5:3: server.flgas:", "unknown key", "did you mean flags?"},
		"twice":              {head + server + "name: again\n", "s.yaml:4:1: name:", "set twice, before on line 2", ""},
		"wrong type":         {head + server + "rounds: many\n", "s.yaml:4:9: rounds:", "whole number", ""},
		"out of range":       {head + server + "rounds: 0\n", "s.yaml:4:9: rounds:", "from 1 to", ""},
		"missing engine":     {head + "server:\n  flags: {}\n", "s.yaml:4:3: server.engine:", "missing", ""},
		"missing name":       {"version: 1\n" + server, "s.yaml:1:1: name:", "missing", ""},
		"newer version":      {"version: 2\nname: n\n" + server, "s.yaml:1:10: version:", "from 1 to 1", ""},
		"launch docker":      {head + "server: {engine: sglang, launch: docker}\n", "s.yaml:3:9: server.container:", "is missing", "container: NAME"},
		"unit for process":   {head + "server: {engine: sglang, unit: a.service}\n", "s.yaml:3:9: server.unit:", "does not belong to launch: process", ""},
		"name and image":     {head + "server: {engine: sglang, launch: docker, container: {name: a, image: b}}\n", "s.yaml:3:53: server.container:", "either name or image", ""},
		"attach":             {head + "server: {engine: sglang, attach: {url: x}}\n", "s.yaml:3:34: server.attach.url:", "no address", "http://"},
		"attach with flags":  {head + "server: {engine: sglang, attach: {url: \"http://h:1\"}, flags: {a: 1}}\n", "s.yaml:3:9: server.attach:", "flags", ""},
		"ready marker":       {head + "server: {engine: sglang, ready: {marker: \"a(\"}}\n", "s.yaml:3:42: server.ready.marker:", "missing closing", "RE2"},
		"after what":         {head + server + "after: worst\n", "s.yaml:4:8: after:", "worst", "restore"},
		"unknown param":      {head + "server:\n  engine: sglang\n  flags: {a: \"x${steps + stpes}\"}\nparams: {steps: {default: 1}}\n", "s.yaml:5:26: server.flags.a:", "unknown param stpes", "did you mean steps?"},
		"broken expression":  {head + "server:\n  engine: sglang\n  flags: {a: \"${1 +}\"}\n", "s.yaml:5:", "", ""},
		"open template":      {head + "server:\n  engine: sglang\n  flags: {a: \"x${1\"}\n", "s.yaml:5:16: server.flags.a:", "not closed", "$${"},
		"cycle":              {head + server + "params: {a: {default: \"${b}\"}, b: {default: \"${a}\"}}\n", "s.yaml:4:", "a -> b -> a", "plain default"},
		"bad rule":           {head + server + "where: [\"a >\"]\n", "s.yaml:4:", "", ""},
		"template in values": {head + server + "params: {a: {values: [\"${1}\"]}}\n", "s.yaml:4:", "plain", "default"},
		"bad range":          {head + server + "params: {a: {values: 4..1}}\n", "s.yaml:4:22:", "empty", "1..4"},
		"bare param":         {head + server + "params: {a: 3}\n", "s.yaml:4:13: params.a:", "must be a map", "a: {default: 3}"},
		"bench word":         {head + server + "bench: {where: moon}\n", "s.yaml:4:16: bench.where:", "host or controller", ""},
		"bench key":          {head + server + "bench: {concurency: 3}\n", "s.yaml:4:9: bench.concurency:", "unknown key", "concurrency"},
		"duration":           {head + server + "limits: {run: 60}\n", "s.yaml:4:15: limits.run:", "no duration", "20m"},
		"NUL in a flag":      {head + "server: {engine: sglang, flags: {a: \"x\\0y\"}}\n", "s.yaml:3:37:", "NUL", ""},
		"NUL in env":         {head + "server:\n  engine: sglang\n  env: {A: \"\\x00\"}\n", "s.yaml:5:12:", "NUL", ""},
		"NUL in args":        {head + "server:\n  engine: sglang\n  args: [\"a\\0\"]\n", "s.yaml:5:10:", "NUL", ""},
		"flag with dashes":   {head + "server: {engine: sglang, flags: {--tp-size: 1}}\n", "s.yaml:3:34:", "no flag name", "without its dashes"},
		"secret source":      {head + "server: {engine: sglang, env: {A: {from: vault}}}\n", "s.yaml:3:42: server.env.A.from:", "unknown word", ""},
		"merge key":          {head + "server: &s {engine: sglang}\nbench:\n  <<: *s\n", "s.yaml:5:3:", "merge keys", ""},
		"another encoding":   {"version: 1\nname: é\xe9t\n" + server, "s.yaml:2:8:", "byte 0xe9 is no UTF-8", "as UTF-8"},
		"alias of itself":    {head + "server: {engine: sglang, flags: {a: &a [1, *a]}}\n", "s.yaml:3:44:", "within its own anchor", "write the values out"},
		"alias around it":    {head + "server: &s\n  engine: sglang\n  env: {A: &b {x: *b}}\n", "s.yaml:5:19:", "the alias *b", ""},
		"aliases of aliases": {head + "server:\n  engine: sglang\n  flags:\n    a: &a [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n" + aliasesOfAliases, "s.yaml:", "values of the file", ""},
		"two documents":      {head + server + "---\nversion: 1\n", "s.yaml:4:1:", "second document", ""},
		"gpus":               {head + "server: {engine: sglang, gpus: [3-1]}\n", "s.yaml:3:33: server.gpus[0]:", "3-1", "[0-3]"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := LoadSpec("s.yaml", []byte(c.src))
			var se *SpecError
			if !errors.As(err, &se) {
				t.Fatalf("got %v", err)
			}
			if !strings.HasPrefix(se.Error(), c.place) || !strings.Contains(se.Error(), c.msg) || !strings.Contains(se.Hint(), c.hint) {
				t.Errorf("got %q, hint %q", se.Error(), se.Hint())
			}
		})
	}
}

func FuzzLoadSpec(f *testing.F) {
	src, err := os.ReadFile("testdata/eagle3-steps.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(src))
	f.Add("version: 1\nname: n\nserver: {engine: e, flags: {a: ${1}, b: {c: [1, {d: null}]}}}\n")
	f.Fuzz(func(t *testing.T, src string) {
		s, err := LoadSpec("f.yaml", []byte(src))
		if err != nil {
			return
		}
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		again, err := LoadSpec("f.yaml", text)
		if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		if diff := cmp.Diff(s, again, cmpopts.IgnoreTypes(Pos{}), cmpopts.EquateNaNs()); diff != "" {
			t.Fatal(diff)
		}
	})
}
