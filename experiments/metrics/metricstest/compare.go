// Package metricstest holds the log and benchmark samples against what is to be
// read out of them, whichever way it was read.
package metricstest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Expectation is a fixture's expect.json, as testdata/SCHEMA.md describes it.
type Expectation struct {
	File    string `json:"file"`
	Engine  string `json:"engine"`
	Kind    string `json:"kind"`
	Extract []struct {
		Metric string         `json:"metric"`
		Unit   string         `json:"unit"`
		Values []any          `json:"values"`
		Labels map[string]any `json:"labels"`
	} `json:"extract"`
	Crash     map[string]any `json:"crash"`
	Runs      [][2]int       `json:"runs"`
	BadLines  []int          `json:"bad_lines"`
	Torn      int            `json:"torn_records"`
	Blocks    int            `json:"incomplete_blocks"`
	Truncated bool           `json:"truncated_last_line"`
	Warning   string         `json:"expected_warning"`
}

// Expectations reads those of a folder of samples.
func Expectations(t testing.TB, dir string) []Expectation {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.expect.json"))
	if err != nil || len(files) < 40 {
		t.Fatalf("%d expectation files in %s, err %v: the folder is not whole", len(files), dir, err)
	}
	var all []Expectation
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var e Expectation
		if err := json.Unmarshal(raw, &e); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		all = append(all, e)
	}
	return all
}

// Compare fails where the JSON of a report is not as expected.
func (e Expectation) Compare(t testing.TB, got map[string]any) {
	t.Helper()
	if got["type"] != "parse" || got["schema"] != 1.0 || got["file"] != e.File {
		t.Errorf("type %v schema %v file %v", got["type"], got["schema"], got["file"])
	}
	if got["engine"] != e.Engine || got["kind"] != e.Kind {
		t.Errorf("engine %v kind %v, want %s %s", got["engine"], got["kind"], e.Engine, e.Kind)
	}
	for _, s := range e.Extract {
		values := Values(got, s.Metric, s.Unit, s.Labels)
		if !reflect.DeepEqual(values, s.Values) && len(values)+len(s.Values) > 0 {
			t.Errorf("%s %v:\n got %v\nwant %v", s.Metric, s.Labels, values, s.Values)
		}
	}
	compareCrash(t, e, got)
	count := func(key string, n int) {
		if g, _ := got[key].(float64); int(g) != n {
			t.Errorf("%s %v, want %d", key, got[key], n)
		}
	}
	count("torn_records", e.Torn)
	count("incomplete_blocks", e.Blocks)
	if g, _ := got["truncated_last_line"].(bool); g != e.Truncated && e.Truncated {
		t.Errorf("truncated_last_line %v", g)
	}
	if g, w := fmt.Sprint(got["runs"]), fmt.Sprint(e.Runs); e.Runs != nil && g != w || e.Runs == nil && got["runs"] != nil {
		t.Errorf("runs %s, want %s", g, w)
	}
	if g, w := fmt.Sprint(got["bad_lines"]), fmt.Sprint(e.BadLines); e.BadLines != nil && g != w {
		t.Errorf("bad_lines %s, want %s", g, w)
	}
	if e.Warning != "" && !strings.Contains(fmt.Sprint(got["warnings"]), e.Warning) {
		t.Errorf("warnings %v, want %q", got["warnings"], e.Warning)
	}
}

// Values gives the values of a metric in file order: those of the series
// with these labels, or of all its series when the expectation names no labels.
func Values(got map[string]any, metric, unit string, labels map[string]any) []any {
	type at struct {
		line float64
		v    any
	}
	var all []at
	for _, x := range got["extract"].([]any) {
		s := x.(map[string]any)
		have, _ := s["labels"].(map[string]any)
		ok := s["metric"] == metric && s["unit"] == unit
		for k, v := range labels {
			ok = ok && have[k] == v
		}
		if !ok {
			continue
		}
		lines := s["lines"].([]any)
		for i, v := range s["values"].([]any) {
			all = append(all, at{lines[i].(float64), v})
		}
	}
	slices.SortStableFunc(all, func(a, b at) int { return int(a.line - b.line) })
	out := []any{}
	for _, a := range all {
		out = append(out, a.v)
	}
	return out
}

func compareCrash(t testing.TB, want Expectation, got map[string]any) {
	t.Helper()
	crash, _ := got["crash"].(map[string]any)
	if (crash == nil) != (want.Crash == nil) {
		t.Errorf("crash %v, want %v", crash, want.Crash)
		return
	}
	for k, w := range want.Crash {
		g := crash[k]
		if k == "evidence" {
			if !strings.Contains(fmt.Sprint(g), w.(string)) {
				t.Errorf("crash evidence %q does not hold %q", g, w)
			}
			continue
		}
		if !reflect.DeepEqual(g, w) {
			t.Errorf("crash %s %v, want %v", k, g, w)
		}
	}
}
