package report

import (
	"encoding/json"
	"strings"
	"testing"

	"specrun/experiments/record"
)

func patchedSweep(kind string) *builder {
	b := newBuilder(3, 3, "interleave").rounds(3)
	patch := map[string]any{"patches": []any{map[string]any{"name": "profiling-v3", "sha256": "abc", "probe": kind}}}
	plan, err := json.Marshal(map[string]any{"objective": "output_throughput", "order": "interleave", "rounds": 3, "host": map[string]any{"name": "lab"},
		"cells": []any{map[string]any{"ord": 0, "server": map[string]any{}}, map[string]any{"ord": 1, "server": patch}, map[string]any{"ord": 2, "server": patch}}})
	if err != nil {
		panic(err)
	}
	b.v.Sweep.Plan = plan
	return b
}

func costing(verdict string, ratio float64, interval ...float64) *ProbeLine {
	l := &ProbeLine{Sweep: "4kq2", At: "2026-11-20T08:00:00Z", Patch: "profiling-v3", Verdict: verdict, Ratio: &ratio, Params: record.Params{"steps": int64(2)}}
	if interval != nil {
		l.Lo, l.Hi = &interval[0], &interval[1]
	}
	return l
}

func TestTable_WhatAPatchCosts(t *testing.T) {
	for want, l := range map[string]*ProbeLine{
		"profiling-v3 costs 13.4 % (12.9..13.9) a token here at steps=2 (probe 4kq2 of 2026-11-20)":                  costing(Distorts, 1.134, 1.129, 1.139),
		"profiling-v3 costs less than 2 % a token here at steps=2: +0.10 % (-0.3..0.5) (probe 4kq2 of 2026-11-20)":   costing(Negligible, 1.001, 0.997, 1.005),
		"what profiling-v3 costs here at steps=2 is unclear: +3.0 % a token (-5.0..11.0) (probe 4kq2 of 2026-11-20)": costing(Unclear, 1.03, 0.95, 1.11),
		"with profiling-v3 a token takes 4.0 % (-5.0..-3.0) less time here at steps=2 (probe 4kq2 of 2026-11-20)":    costing(Distorts, 0.96, 0.95, 0.97),
		"what profiling-v3 costs here at steps=2 is unclear: +3.0 % a token (probe 4kq2 of 2026-11-20)":              costing(Unclear, 1.03),
		"what profiling-v3 costs here is unclear: no pair of launches could be compared (probe 4kq2)":                {Sweep: "4kq2", Patch: "profiling-v3", Verdict: Unclear},
		"profiling-v3 waits for the GPU; what that costs here is not known -> specrun probe profiling-v3 few-rounds": nil,
	} {
		o := options()
		o.Probe = func(sha, host string) *ProbeLine {
			if sha != "abc" || host != "lab" {
				t.Errorf("asked for %s on %s", sha, host)
			}
			return l
		}
		s := Summarize(patchedSweep("sync").v, o)
		got := joined(table(t, s))
		if strings.Count(got, want) != 1 {
			t.Errorf("no %q, or twice, in\n%s", want, got)
		}
		if s.Cells[0].Probe != nil || s.Cells[2].Probe != l {
			t.Errorf("probes of cells: %v, %v", s.Cells[0].Probe, s.Cells[2].Probe)
		}
		line, err := json.Marshal(s.Cells[2])
		if err != nil || strings.Contains(string(line), `"probe":{`) != (l != nil) {
			t.Errorf("%s, %v", line, err)
		}
	}
	// What does not wait needs no advice.
	if got := table(t, Summarize(patchedSweep("light").v, options())); strings.Contains(got, "profiling-v3") {
		t.Error(got)
	}
}

// A probe of another engine or model says nothing about this one.
func TestTable_AProbeOfSomethingElse(t *testing.T) {
	const not = "what it costs now is not known -> specrun probe profiling-v3"
	for name, tc := range map[string]struct {
		engine, model string // of the probe
		want          string
	}{
		"the same":           {"0.5.4", "m", "profiling-v3 costs 13.4 %"},
		"not known":          {"", "", "profiling-v3 costs 13.4 %"},
		"another engine":     {"0.5.3", "m", "profiling-v3 was probed with engine 0.5.3, not 0.5.4 (probe 4kq2 of 2026-11-20): " + not},
		"another model":      {"0.5.4", "n", "profiling-v3 was probed with model n, not m (probe 4kq2 of 2026-11-20): " + not},
		"an engine from git": {"0.5.4+g1", "", "profiling-v3 was probed with engine 0.5.4+g1, not 0.5.4"},
	} {
		b := patchedSweep("sync")
		for id, d := range b.v.Data {
			d.Provenance = append(d.Provenance, fact("code", "engine_version", "0.5.4"), fact("workload", "model", "m"))
			b.v.Data[id] = d
		}
		l := costing(Distorts, 1.134, 1.129, 1.139)
		l.Engine, l.Model = tc.engine, tc.model
		o := options()
		o.Probe = func(sha, host string) *ProbeLine { return l }
		s := Summarize(b.v, o)
		if got := joined(table(t, s)); strings.Count(got, tc.want) != 1 {
			t.Errorf("%s: no %q in\n%s", name, tc.want, got)
		}
		if quoted := s.Cells[2].Probe != nil; quoted != strings.Contains(tc.want, "costs 13.4 %") {
			t.Errorf("%s: probe of the row %v", name, s.Cells[2].Probe)
		}
	}
}

func TestBestProbe_AnInconclusiveOneDoesNotHideWhatIsKnown(t *testing.T) {
	line := func(id, verdict, engine string, steps int64) ProbeLine {
		return ProbeLine{Sweep: id, Verdict: verdict, Engine: engine, Params: record.Params{"steps": steps}}
	}
	for name, tc := range map[string]struct {
		lines []ProbeLine
		want  string
	}{
		"the newest":            {[]ProbeLine{line("c", Negligible, "1", 2), line("b", Distorts, "1", 2)}, "c"},
		"the newest that knows": {[]ProbeLine{line("c", Unclear, "1", 2), line("b", Unclear, "1", 2), line("a", Distorts, "1", 2)}, "a"},
		"none knows":            {[]ProbeLine{line("c", Unclear, "1", 2), line("b", Unclear, "1", 2)}, "c"},
		"another engine":        {[]ProbeLine{line("c", Unclear, "2", 2), line("b", Distorts, "1", 2)}, "c"},
		"another cell":          {[]ProbeLine{line("c", Unclear, "1", 4), line("b", Distorts, "1", 2)}, "c"},
		"another in between":    {[]ProbeLine{line("c", Unclear, "1", 2), line("b", Distorts, "2", 2), line("a", Negligible, "1", 2)}, "a"},
	} {
		if got := BestProbe(tc.lines); got.Sweep != tc.want {
			t.Errorf("%s: %s, want %s", name, got.Sweep, tc.want)
		}
	}
	if BestProbe(nil) != nil {
		t.Error("a probe out of none")
	}
}
