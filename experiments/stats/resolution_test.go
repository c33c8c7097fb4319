package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestResolution(t *testing.T) {
	for want, sets := range map[float64][][]float64{
		1:     {{20, 21}, {128000}},
		0.5:   {{20.5, 21}},
		0.1:   {{20.1, 20.2, 30}, {20.1}, {1234567.1}},
		0.05:  {{20.15, 20.2}}, // the median of 20.1 and 20.2
		0.01:  {{1.87, 1.9, 2.01}, {0.07}},
		0.001: {{88.123, 88.5}},
		0:     {{20.1, 20.0 / 3}, {math.Pi}, {1.0 / 3, 2}, {1e-7}},
	} {
		for _, values := range sets {
			if got := resolution(values); math.Abs(got-want) > 1e-12 {
				t.Errorf("%v: %v, want %v", values, got, want)
			}
		}
	}
	if got := resolution(nil); got != finest {
		t.Errorf("nothing: %v", got)
	}
}

// What logs and benchmark outputs print has one or two decimals: launches that
// agree to the last of them are not without noise.
func TestCompare_EqualRoundedValuesAreNoProof(t *testing.T) {
	same := func(v float64, n int) []Launch {
		var ls []Launch
		for i := range n {
			ls = append(ls, Launch{i, v})
		}
		return ls
	}
	memory := PoolNoise([][]float64{{20, 20.2, 20.1, 20.3}, {30, 30.1, 29.8, 30.2}})
	for _, tc := range []struct {
		name  string
		a, b  float64
		n     int
		noise *Noise
		want  string
	}{
		{"one step apart, two launches", 20.1, 20.2, 2, nil, "unknown"},
		{"far apart, two launches", 20.1, 30.2, 2, nil, "unknown"},
		{"one step apart, three launches", 20.1, 20.2, 3, nil, "no"},
		{"far apart, three launches", 20.1, 30.2, 3, nil, "yes"},
		{"two launches, far beyond what is remembered", 20.1, 30.2, 2, &memory, "yes"},
		{"two launches, within what is remembered", 20.1, 20.2, 2, &memory, "no"},
		{"not rounded, and yet the same each time", 20.0 / 3, 20.0 / 7, 3, nil, "unknown"},
		{"equal on both sides", 20.1, 20.1, 2, nil, "no"},
		{"equal on both sides, many", 20.1, 20.1, 6, nil, "no"},
	} {
		for _, interleaved := range []bool{false, true} {
			c := CompareWith(same(tc.a, tc.n), same(tc.b, tc.n), Options{Interleaved: interleaved, Noise: tc.noise})
			if separable(c) != tc.want || (c.TooFew != "") != (tc.want == "unknown") {
				t.Errorf("%s, interleaved %v: %s: %+v", tc.name, interleaved, separable(c), c)
			}
			if c.P == 0 || c.MinEffect == 0 || c.RankP == 0 {
				t.Errorf("%s: p %v, min effect %v, rank p %v", tc.name, c.P, c.MinEffect, c.RankP)
			}
			near(t, tc.name, c.Ratio, tc.a/tc.b, 1e-9)
			if tc.want == "unknown" && (!math.IsNaN(c.P) || !math.IsNaN(c.MinEffect)) {
				t.Errorf("%s: p %v, min effect %v of an unknown verdict", tc.name, c.P, c.MinEffect)
			}
		}
	}
}

// Launches that do not differ and are printed with few digits make no more false
// findings than is claimed.
func TestCompare_RoundedValuesKeepTheirPromise(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, step := range []float64{0.1, 0.5, 1} {
		for _, n := range []int{2, 3, 6} {
			const trials = 4000
			found := 0
			for range trials {
				side := func() (ls []Launch) {
					for i := range n {
						ls = append(ls, Launch{i, math.Round(20*math.Exp(0.01*r.NormFloat64())/step) * step})
					}
					return ls
				}
				if c := Compare(side(), side(), false); c.Separable != nil && *c.Separable {
					found++
				}
			}
			if rate := float64(found) / trials; rate > 0.06 {
				t.Errorf("steps of %v, %d launches: %.3f found of cells that do not differ", step, n, rate)
			}
		}
	}
}

func TestSummarize_AnIntervalIsNoNarrowerThanItsDigits(t *testing.T) {
	s := Summarize([]float64{20.1, 20.1, 20.1})
	if s.Interval == nil || s.Median != 20.1 || !(s.Interval.Lo < 20.05 && 20.15 < s.Interval.Hi) {
		t.Errorf("%+v", s.Interval)
	}
}
