package experiments

import (
	"slices"
	"strings"
	"testing"

	"specrun/experiments/engine"
)

// resolved resolves a spec for a release of its real engine.
func resolved(t *testing.T, src, version string, args ...string) (*Experiment, error) {
	t.Helper()
	spec, err := LoadSpec("spec.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	axes, err := ParseArgs(args)
	if err != nil {
		t.Fatal(err)
	}
	eng, err := Engines(spec.Server.Engine)
	if err != nil {
		t.Fatal(err)
	}
	return Resolve(spec, Options{Axes: axes, Renderer: eng, EngineVersion: version, Host: HostConfig{Name: "h"}})
}

const eagleSpec = `
version: 1
name: x
server:
  engine: sglang
  python: /py
  flags:
    model-path: /m
    speculative-algorithm: EAGLE3
    speculative-draft: /d
    speculative-num-steps: ${steps}
    speculative-eagle-topk: ${topk}
    speculative-num-draft-tokens: ${draft}
params:
  steps: { default: 3 }
  topk: { default: 1 }
  draft: { default: 4 }
baseline: { flags: { "speculative-*": null } }
`

// Cells that a release makes one are measured once, and it is said why.
func TestResolve_SilentChangesMergeCells(t *testing.T) {
	t.Parallel()
	e, err := resolved(t, eagleSpec, "0.5.12", "draft=4,8,24")
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Cells) != 2 || len(e.Merged) != 2 {
		t.Fatalf("%d cells, merged %+v", len(e.Cells), e.Merged)
	}
	for _, m := range e.Merged {
		if !strings.Contains(m.Why, "drafts num-steps + 1") {
			t.Errorf("why: %s", m.Why)
		}
	}
	if !slices.ContainsFunc(e.Notes, func(n string) bool {
		return strings.Contains(n, "speculative-draft is written speculative-draft-model-path")
	}) {
		t.Errorf("notes %q", e.Notes)
	}
	plan, err := NewPlan(e)
	if err != nil {
		t.Fatal(err)
	}
	if c := plan.Launches[1].Command; !strings.Contains(c, "--speculative-draft-model-path /d") {
		t.Errorf("command %s", c)
	}
}

func TestResolve_UselessVariableMergesCells(t *testing.T) {
	t.Parallel()
	for version, cells := range map[string]int{"0.5.12": 3, "0.5.14": 2} {
		e, err := resolved(t, eagleSpec, version, "env.SGLANG_ENABLE_SPEC_V2=0,1")
		if err != nil {
			t.Fatal(err)
		}
		if len(e.Cells) != cells {
			t.Errorf("%s: %d cells, merged %+v", version, len(e.Cells), e.Merged)
		}
		if cells == 2 && (len(e.Merged) != 1 || !strings.Contains(e.Merged[0].Why, "SGLANG_ENABLE_SPEC_V2 has no effect")) {
			t.Errorf("%s: merged %+v", version, e.Merged)
		}
	}
}

// A server that the release refuses is left out of a sweep before minutes are
// spent on its start; alone it is an error.
func TestResolve_ImpossibleCells(t *testing.T) {
	t.Parallel()
	src := strings.Replace(eagleSpec, "model-path: /m", "model-path: /m\n    attention-backend: trtllm_mha", 1)
	e, err := resolved(t, src, "0.5.12", "topk=1,4")
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Cells) != 2 || len(e.Dropped) != 1 || !strings.Contains(e.Dropped[0].Rule, "sglang 0.5.12: attention backend trtllm_mha") {
		t.Errorf("%d cells, dropped %+v", len(e.Cells), e.Dropped)
	}
	if _, err = resolved(t, src, "0.5.12", "topk=4"); err == nil || !strings.Contains(err.Error(), "trtllm_mha") {
		t.Errorf("only that cell: %v", err)
	}
}

func TestResolve_ConcurrencyBeyondTheServersLimit(t *testing.T) {
	t.Parallel()
	e, err := resolved(t, eagleSpec, "0.5.12", "bench.concurrency=32,64")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, note := range e.Notes {
		if strings.Contains(note, "64 requests at once were asked for, 48 run") && strings.Contains(note, "bench.concurrency=64") {
			n++
		}
	}
	if n != 1 {
		t.Errorf("notes %q", e.Notes)
	}
}

const ngramSpec = `
version: 1
name: x
server:
  engine: vllm
  python: /py
  flags: { model: /m, speculative-config: { method: ngram, num_speculative_tokens: "${k}" } }
params: { k: { default: 3 } }
baseline: { flags: { speculative-config: null } }
`

// 0 tokens are no speculation, however vLLM is told how many.
func TestResolve_VLLMWithoutSpeculation(t *testing.T) {
	t.Parallel()
	dotted := strings.Replace(ngramSpec, `speculative-config: { method: ngram, num_speculative_tokens: "${k}" } }`,
		`speculative-config.method: ngram, speculative-config.num_speculative_tokens: "${k}" }`, 1)
	dotted = strings.Replace(dotted, "speculative-config: null", `"speculative-config*": null`, 1)
	for name, c := range map[string]struct {
		src  string
		args []string
	}{
		"map":         {ngramSpec, []string{"k=0..2"}},
		"dotted":      {dotted, []string{"k=0..2"}},
		"dotted axis": {dotted, []string{"speculative-config.num_speculative_tokens=0..2"}},
	} {
		e, err := resolved(t, c.src, "0.32.0", c.args...)
		if err != nil {
			t.Fatal(name, err)
		}
		if len(e.Cells) != 3 || len(e.Merged) != 1 || e.Merged[0].Into != 0 || e.Merged[0].Why != "no speculation: the baseline" {
			t.Errorf("%s: %d cells, merged %+v", name, len(e.Cells), e.Merged)
			continue
		}
		for i, cell := range e.Cells {
			if got := steps(cell); got != i {
				t.Errorf("%s: cell %d has %d steps", name, i, got)
			}
			if asksSpeculation(cell.Server) != (i > 0) {
				t.Errorf("%s: cell %d: %v", name, i, cell.Server.Flags)
			}
		}
	}
}

const commandSpec = `
version: 1
name: x
server:
  engine: command
  command: [serve, --port, "${port}", "--url=http://h:${port}/x", "$${keep}"]
  flags: { draft-max: "${draft > 0 ? draft : nil}" }
  ready: { url: /health, marker: 'listening on \d+' }
  read: { metric: decode_rate, unit: tok/s, line: 'eval .* ([0-9.]+) tok/s', of: mean }
params: { draft: { default: 4 } }
baseline: { flags: { draft-max: null } }
`

// A server that specrun knows nothing of is planned like any other; its port is
// put in when it is started.
func TestResolve_Command(t *testing.T) {
	t.Parallel()
	e, err := resolved(t, commandSpec, "", "draft=0,8")
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Cells) != 2 || len(e.Merged) != 1 {
		t.Fatalf("%d cells, merged %+v", len(e.Cells), e.Merged)
	}
	cfg := e.Cells[1].Server
	eng, err := Engines("command")
	if err != nil {
		t.Fatal(err)
	}
	got, err := eng.Argv(cfg, 4242)
	if want := []string{"serve", "--port", "4242", "--url=http://h:4242/x", "${keep}", "--draft-max", "8"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("argv %q, %v", got, err)
	}
	if cfg.Ready.URL != "/health" || cfg.Ready.Marker == "" || len(cfg.Read) != 1 {
		t.Errorf("%+v", cfg)
	}
	back, err := e.Spec.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	again, err := LoadSpec("spec.json", back)
	if err != nil || len(again.Server.Read) != 1 || again.Server.Read[0] != e.Spec.Server.Read[0] || len(again.Server.Command) != 5 {
		t.Errorf("read back: %v", err)
	}
}

func TestLoadSpec_Command(t *testing.T) {
	t.Parallel()
	change := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(commandSpec) }
	for name, c := range map[string]struct{ src, text string }{
		"no command":    {change(`  command: [serve, --port, "${port}", "--url=http://h:${port}/x", "$${keep}"]`+"\n", ""), "server.command"},
		"other engine":  {change("engine: command", "engine: sglang"), "server.command"},
		"param port":    {change("draft: { default: 4 }", "draft: { default: 4 }, port: { default: 1 }"), "params.port"},
		"no such param": {change("${port}/x", "${prot}/x"), "prot"},
		"no group":      {change("([0-9.]+)", "[0-9.]+"), "server.read.line"},
		"bad rule":      {change("of: mean", "of: average"), "server.read.of"},
		"bad metric":    {change("metric: decode_rate", "metric: Decode Rate"), "server.read.metric"},
	} {
		if _, err := LoadSpec("spec.yaml", []byte(c.src)); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A port that nobody tells the server is found before it is started.
	src := change(`"${port}", "--url=http://h:${port}/x"`, `"8080"`)
	if _, err := resolved(t, src, ""); err == nil || !strings.Contains(err.Error(), "${port}") {
		t.Errorf("%v", err)
	}
	if _, err := resolved(t, strings.Replace(src, "engine: command", "engine: command\n  port: 8080", 1), ""); err != nil {
		t.Error(err)
	}
}

func TestFromLog(t *testing.T) {
	t.Parallel()
	log := "eval time 1 tok/s: 10.0 tok/s\r\nnothing\neval 2: 20 tok/s\neval 3: 60 tok/s\neval x: NaN tok/s\neval 4: 99 tok/s"
	end := int64(1000 + strings.Index(log, "eval 4"))
	for of, want := range map[string]float64{"": 20, "median": 20, "mean": 30, "sum": 90, "min": 10, "max": 60, "last": 60} {
		ms, samples, err := fromLog([]ReadRule{{Metric: "m", Unit: "tok/s", Line: `eval .* ([0-9.]+) tok/s`, Of: of}, {Metric: "none", Line: "(never)"}}, []byte(log), 1000, 1000, end)
		if err != nil || len(ms) != 1 || ms[0].Value != want || ms[0].N != 3 || ms[0].Source != "server_log" || len(samples) != 3 {
			t.Errorf("%s: %+v, %v", of, ms, err)
		}
	}
}

func TestImpossible(t *testing.T) {
	t.Parallel()
	if why := impossible(&CellError{Err: &engine.ImpossibleError{Engine: "sglang", Version: "1", Why: "no"}}); why != "sglang 1: no" {
		t.Error(why)
	}
	if why := impossible(&CellError{}); why != "" {
		t.Error(why)
	}
}
