package experiments

import (
	"encoding/json"
	"strings"
	"testing"

	"specrun/experiments/bench"
)

func TestWarmup_InASpec(t *testing.T) {
	t.Parallel()
	const head = "version: 1\nname: x\nhosts: [h]\nserver:\n  engine: sglang\n  python: python3\n  flags: {model-path: m}\n"
	for text, want := range map[string]Warmup{"": WarmupAuto, "bench: {warmup: auto}\n": WarmupAuto, "bench: {warmup: 0}\n": 0, "bench: {warmup: 3}\n": 3} {
		s, err := LoadSpec("s.yaml", []byte(head+text))
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		p := plan(t, s)
		got := p.Cells[0].Bench.Warmup
		if got != want {
			t.Errorf("%q: warm-up %v, want %v", text, got, want)
		}
		job := benchJob(BenchJob{BaseURL: "http://127.0.0.1:1", Plan: p.Cells[0].Bench})
		if job.WarmupAuto != (want == WarmupAuto) || job.Warmup != max(int(want), 0) {
			t.Errorf("%q: job %+v", text, job)
		}
	}
	for _, bad := range []string{"-1", "some", "1.5", "null"} {
		s, err := LoadSpec("s.yaml", []byte(head+"bench: {warmup: "+bad+"}\n"))
		if err == nil {
			_, err = Resolve(s, Options{Renderer: fakeRenderer{}})
		}
		if err == nil || !strings.Contains(err.Error(), "bench.warmup") {
			t.Errorf("%s: error %v", bad, err)
		}
	}
}

// The plan's text is what cells are known by: a number stays one.
func TestWarmup_JSON(t *testing.T) {
	t.Parallel()
	for w, want := range map[Warmup]string{WarmupAuto: `"auto"`, 0: "0", 7: "7"} {
		raw, err := json.Marshal(w)
		if err != nil || string(raw) != want {
			t.Errorf("%v is %s, %v; want %s", w, raw, err, want)
		}
		var back Warmup
		if err := json.Unmarshal(raw, &back); err != nil || back != w {
			t.Errorf("%s is read as %v, %v", raw, back, err)
		}
	}
	for _, bad := range []string{"-1", `"never"`, "1.5", "[]"} {
		var w Warmup
		if err := json.Unmarshal([]byte(bad), &w); err == nil {
			t.Errorf("%s is read as %v", bad, w)
		}
	}
}

func TestWindowFacts(t *testing.T) {
	t.Parallel()
	outcome := func(u *bench.Warmup) string {
		for _, f := range factsOfWindow(Window{Warmup: u}, bench.Report{SteadyRule: "rule"}, false) {
			if f.Key == "warmup_outcome" {
				return f.Value
			}
		}
		return ""
	}
	for want, u := range map[string]*bench.Warmup{
		"":                nil,
		"2 requests sent": {Sent: 2, Spread: -1},
		"settled":         {Auto: true, Sent: 4, Settled: true, Spread: 0.013},
		"not settled: the last two still 4 % apart after 5 requests": {Auto: true, Sent: 5, Spread: 0.043},
		"not settled: none of 20 requests could be compared":         {Auto: true, Sent: 20, Spread: -1},
	} {
		if got := outcome(u); got != want {
			t.Errorf("%+v: %q, want %q", u, got, want)
		}
	}
	facts := factsOfWindow(Window{}, bench.Report{SteadyRule: "rule"}, true)
	if len(facts) != 2 || facts[0].Value != "rule" || !strings.Contains(facts[1].Value, "ramp and drain") {
		t.Errorf("%+v", facts)
	}
}
