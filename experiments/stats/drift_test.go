package stats

import (
	"math"
	"slices"
	"testing"
)

func TestDriftBands(t *testing.T) {
	for _, tc := range []struct {
		name   string
		values []float64 // by round, from 0; 0 is a round without baseline
		want   [][2]int
	}{
		{"steady", []float64{88.8, 88.5, 88.9, 88.6, 88.7, 88.8}, nil},
		{"too few rounds", []float64{88.8, 70, 60}, nil},
		{"a step in the middle", []float64{88.8, 88.5, 88.9, 82.1, 82.3, 81.9}, [][2]int{{2, 3}}},
		{"a step early", []float64{82.1, 82.2, 88.8, 88.5, 88.9, 88.7}, [][2]int{{1, 2}}},
		{"a step over a missing round", []float64{88.8, 88.5, 88.9, 0, 82.1, 82.3, 81.9}, [][2]int{{2, 4}}},
		{"a slope", []float64{89, 88, 87, 86, 85, 84}, [][2]int{{0, 5}}},
		{"up and down", []float64{80.1, 80.2, 80, 80.1, 90, 90.1, 89.9, 90.2, 70, 70.1, 70.2, 70}, [][2]int{{3, 4}, {7, 8}}},
	} {
		var ls []Launch
		for round, v := range tc.values {
			if v != 0 {
				ls = append(ls, Launch{round, v})
			}
		}
		slices.Reverse(ls)
		var got [][2]int
		for _, b := range DriftBands(ls, nil) {
			got = append(got, [2]int{b.From, b.To})
			if b.Ratio == 1 || !(b.P < 0.05) {
				t.Errorf("%s: %+v", tc.name, b)
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: bands %v, want %v", tc.name, got, tc.want)
		}
	}
	b := DriftBands(launches(100, 100.1, 99.9, 90, 90.1, 89.9), nil)
	near(t, "ratio", b[0].Ratio, 0.9, 1e-3)
	if DriftBands([]Launch{{0, 1}, {1, math.NaN()}}, nil) != nil || DriftBands(nil, nil) != nil {
		t.Error("bands of nothing")
	}
}

// Two and three rounds tell with memory only, and only what is far outside it.
func TestDrift_FewRoundsNeedMemory(t *testing.T) {
	noise := &Noise{SD: 0.01, DF: 40, Basis: "50 launches of 10 cells"}
	for name, c := range map[string]struct {
		values []float64
		noise  *Noise
		want   string
	}{
		"moved, nothing remembered": {[]float64{88.8, 88.7, 62}, nil, "unknown"},
		"moved":                     {[]float64{88.8, 88.7, 62}, noise, "yes"},
		"moved over two rounds":     {[]float64{88.8, 62}, noise, "yes"},
		"by as much as is ordinary": {[]float64{88.8, 88.7, 86.9}, noise, "no"},
		"one round":                 {[]float64{88.8}, noise, "unknown"},
	} {
		d := drift(launches(c.values...), c.noise)
		if separable(d) != c.want || (d.TooFew == "") != (c.want != "unknown") || (d.Method == "") != (c.want == "unknown") {
			t.Errorf("%s: %+v", name, d)
		}
		if bands := DriftBands(launches(c.values...), c.noise); (len(bands) == 1) != (c.want == "yes") {
			t.Errorf("%s: bands %v", name, bands)
		}
	}
}

// Launches of one round share what the round had; they are no further rounds.
func TestDrift_CountsRounds(t *testing.T) {
	d := drift([]Launch{{0, 100}, {0, 100.1}, {0, 99.9}, {1, 90}, {1, 90.1}, {1, 89.9}}, nil)
	if d.Separable != nil || d.TooFew == "" {
		t.Errorf("two rounds of three launches: %+v", d)
	}
}

func TestNormalize_TakesOutWhatTheBaselineDid(t *testing.T) {
	base := launches(100, 120, 80)
	cell := []Launch{{2, 81.6}, {0, 102}, {1, 122.4}, {7, 50}}
	got, missing, ok := Normalize(cell, base)
	if !ok || !slices.Equal(missing, []int{7}) || len(got) != 3 || got[0].Round != 2 {
		t.Fatalf("%v %v %v", got, missing, ok)
	}
	want := 1.02 * 100. // the median of the baseline
	for _, l := range got {
		near(t, "normalised", l.Value, want, 1e-9)
	}
	if self, _, _ := Normalize(base, base); math.Abs(self[0].Value-self[1].Value) > 1e-9 {
		t.Errorf("the baseline itself still moves: %v", self)
	}
	for _, bad := range [][]Launch{nil, {{0, 0}}, {{0, math.NaN()}}} {
		if _, _, ok := Normalize(cell, bad); ok {
			t.Errorf("normalised by %v", bad)
		}
	}
}
