package lab

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestSet(t *testing.T) {
	s := quiet(t)
	for _, kv := range [][2]string{{"scale", "0.05"}, {"sync-cost-ms", "4.1"}, {"acceptance", "0.9,0.8"},
		{"failures", `[{"kind":"stall","steps":2,"after_tokens":40}]`}, {"seed", "7"}, {"prefix-cache", "true"},
		{"gpu_name", "Two words"}, {"throttle_reason", `"sw_power_cap"`}, {"neighbours", `[{"gpu":0,"mib":5,"name":"x","always":true}]`},
		{"stops", `[{"steps":3,"tokens":52}]`}, {"drift_after_launches", "4"}} {
		if err := s.Set(kv[0], kv[1]); err != nil {
			t.Fatal(err)
		}
	}
	if s.Scale != 0.05 || s.SyncCost != 4.1 || !reflect.DeepEqual(s.Acceptance, []float64{0.9, 0.8}) || s.Seed != 7 ||
		len(s.Failures) != 1 || *s.Failures[0].Steps != 2 || s.Failures[0].AfterTokens != 40 || s.DraftStep != 0.7 {
		t.Errorf("%+v", s)
	}
	if !s.PrefixCache || s.CardName != "Two words" || s.ThrottleReason != "sw_power_cap" || !s.Neighbours[0].Always ||
		*s.Stops[0].Steps != 3 || s.Stops[0].Tokens != 52 || s.DriftAfter != 4 {
		t.Errorf("%+v", s)
	}
	before := s
	for _, kv := range [][2]string{{"scael", "1"}, {"scale", "fast"}, {"scale", "0"}, {"scale", "1}{"}, {"scale", `1,"seed":3`},
		{"acceptance", "2"}, {"failures", `[{"kind":"x"}]`}, {"failures", `[{"kind":"die","when":1}]`}, {"seed", ""}, {"seed", "null"},
		{"prefix_cache", "maybe"}, {"throttle_reason", "sun"}, {"neighbours", `[{"gpu":1,"mib":5,"name":"x"}]`}, {"stops", `[{}]`},
		{"drift_after_launches", "1.5"}, {"failures", `[{"kind":"crash"}] []`}} {
		if err := s.Set(kv[0], kv[1]); err == nil {
			t.Errorf("%s=%s was taken", kv[0], kv[1])
		}
	}
	if !reflect.DeepEqual(s, before) {
		t.Errorf("changed by an error: %+v", s)
	}
}

func TestSettingList_DescribesEach(t *testing.T) {
	list := SettingList()
	if len(list) != len(SettingNames()) {
		t.Fatalf("%d described, there are %d", len(list), len(SettingNames()))
	}
	for _, s := range list {
		if s.Default == "" || s.Help == "" {
			t.Errorf("%+v", s)
		}
	}
}

// What is set can be seen, and defaults are not called changes.
func TestChanged(t *testing.T) {
	dir := t.TempDir()
	if got, err := Changed(dir); err != nil || got != nil {
		t.Errorf("nothing kept: %q, %v", got, err)
	}
	s, err := DefaultSettings()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range [][]string{nil, {"sync_cost_ms=4.25"}, {"acceptance=[0.5,0.25]", "sync_cost_ms=4.25"}} {
		for _, set := range want {
			name, value, _ := strings.Cut(set, "=")
			if err := s.Set(name, value); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.write(layout(dir).settings()); err != nil {
			t.Fatal(err)
		}
		if got, err := Changed(dir); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
}
