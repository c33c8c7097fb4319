package metrics_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"specrun/experiments/metrics"
)

// expectation is a fixture's expect.json, as testdata/SCHEMA.md describes it.
type expectation struct {
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

// notYetRead are samples whose kind is not read yet, with the reason. Empty
// since all kinds are.
var notYetRead = map[string]string{}

// TestFixtures compares the JSON of each sample's report with its expectation.
func TestFixtures(t *testing.T) {
	files, err := filepath.Glob("testdata/*.expect.json")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d expectation files, err %v: testdata is not whole", len(files), err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var want expectation
		if err := json.Unmarshal(raw, &want); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		t.Run(strings.TrimSuffix(filepath.Base(f), ".expect.json"), func(t *testing.T) {
			if why, ok := notYetRead[want.File]; ok {
				t.Skip(why)
			}
			compare(t, want, asJSON(t, parseFile(t, want.File)))
		})
	}
}

func parseFile(t *testing.T, name string) *metrics.Report {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	rep, err := metrics.Parse(bytes.NewReader(src), name)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// asJSON sends a report through its JSON form, which is what users see.
func asJSON(t *testing.T, rep *metrics.Report) map[string]any {
	t.Helper()
	b, err := json.Marshal(rep)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func compare(t *testing.T, want expectation, got map[string]any) {
	t.Helper()
	if got["type"] != "parse" || got["schema"] != 1.0 || got["file"] != want.File {
		t.Errorf("type %v schema %v file %v", got["type"], got["schema"], got["file"])
	}
	if got["engine"] != want.Engine || got["kind"] != want.Kind {
		t.Errorf("engine %v kind %v, want %s %s", got["engine"], got["kind"], want.Engine, want.Kind)
	}
	for _, s := range want.Extract {
		values := readValues(got, s.Metric, s.Unit, s.Labels)
		if !reflect.DeepEqual(values, s.Values) && len(values)+len(s.Values) > 0 {
			t.Errorf("%s %v:\n got %v\nwant %v", s.Metric, s.Labels, values, s.Values)
		}
	}
	compareCrash(t, want, got)
	count := func(key string, n int) {
		if g, _ := got[key].(float64); int(g) != n {
			t.Errorf("%s %v, want %d", key, got[key], n)
		}
	}
	count("torn_records", want.Torn)
	count("incomplete_blocks", want.Blocks)
	if g, _ := got["truncated_last_line"].(bool); g != want.Truncated && want.Truncated {
		t.Errorf("truncated_last_line %v", g)
	}
	if g, w := fmt.Sprint(got["runs"]), fmt.Sprint(want.Runs); want.Runs != nil && g != w || want.Runs == nil && got["runs"] != nil {
		t.Errorf("runs %s, want %s", g, w)
	}
	if g, w := fmt.Sprint(got["bad_lines"]), fmt.Sprint(want.BadLines); want.BadLines != nil && g != w {
		t.Errorf("bad_lines %s, want %s", g, w)
	}
	if want.Warning != "" && !strings.Contains(fmt.Sprint(got["warnings"]), want.Warning) {
		t.Errorf("warnings %v, want %q", got["warnings"], want.Warning)
	}
}

// readValues gives the values of a metric in file order: those of the series
// with these labels, or of all its series when the expectation names no labels.
func readValues(got map[string]any, metric, unit string, labels map[string]any) []any {
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

func compareCrash(t *testing.T, want expectation, got map[string]any) {
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
