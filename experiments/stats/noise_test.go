package stats

import (
	"math"
	"strings"
	"testing"
)

// Worked out by hand: ln 1 and ln 1.1 lie 0.0953102 apart, a sum of squares of
// 0.0045420; ln 2, ln 2, ln 2.2 one of 0.0060560; over 1 + 2 degrees of freedom.
func TestPoolNoise_KnownAnswer(t *testing.T) {
	n := PoolNoise([][]float64{{1, 1.1}, {2, 2, 2.2}, {5}, nil, {3, math.NaN()}, {-1, 0}})
	near(t, "sd", n.SD, math.Sqrt((0.0045420+0.0060560)/3), 1e-6)
	if n.DF != 3 || n.Basis != "5 launches of 2 cells" {
		t.Errorf("%+v", n)
	}
	if n := PoolNoise([][]float64{{5}, nil}); !math.IsNaN(n.SD) || n.usable() {
		t.Errorf("of nothing: %+v", n)
	}
}

// Two launches that agree too little to show 15 % by themselves.
func TestCompareWith_MemoryFindsWhatTwoLaunchesCannot(t *testing.T) {
	a, b := launches(100, 106), launches(122, 116)
	noise := &Noise{SD: 0.02, DF: 30, Basis: "36 launches of 6 cells"}
	for _, interleaved := range []bool{true, false} {
		alone, with := CompareWith(a, b, Options{Interleaved: interleaved}), CompareWith(a, b, Options{Interleaved: interleaved, Noise: noise})
		if separable(alone) != "no" || separable(with) != "yes" {
			t.Errorf("alone %s, with memory %s", separable(alone), separable(with))
		}
		if alone.Ratio != with.Ratio || !math.IsNaN(with.Lo) || with.MinEffect >= alone.MinEffect {
			t.Errorf("memory changed more than the verdict: %+v, %+v", alone, with)
		}
		if !strings.Contains(with.Method, "3x the remembered noise of 2.0 % between launches (36 launches of 6 cells)") {
			t.Errorf("method %q", with.Method)
		}
	}
}

// What memory must not touch: one launch, three launches, and nothing remembered.
func TestCompareWith_MemoryElsewhereChangesNothing(t *testing.T) {
	noise := &Noise{SD: 0.001, DF: 1000, Basis: "many"}
	for _, n := range []int{3, 4, 6} {
		a, b := launches(100, 103, 99, 101, 98, 102)[:n], launches(102, 100, 103, 101, 104, 99)[:n]
		for _, interleaved := range []bool{true, false} {
			if got, want := CompareWith(a, b, Options{interleaved, noise}), Compare(a, b, interleaved); *got.Separable != *want.Separable || got.P != want.P || got.MinEffect != want.MinEffect {
				t.Errorf("n=%d: %+v, without memory %+v", n, got, want)
			}
		}
	}
	for _, c := range []Comparison{
		CompareWith(launches(100), launches(10), Options{true, noise}),
		CompareWith(launches(100, 101, 102), launches(10), Options{true, noise}),
		CompareWith(launches(100), launches(10, 10, 10, 10, 10, 10), Options{false, noise}),
	} {
		if c.Separable != nil || !math.IsNaN(c.P) || c.Method != "" || !strings.Contains(c.TooFew, "one launch") || !strings.Contains(c.TooFew, "0.3 %") {
			t.Errorf("one launch on a side: %+v", c)
		}
	}
	for _, nothing := range []*Noise{nil, {}, {SD: 0.01}, {DF: 3}, {SD: math.NaN(), DF: 3}, {SD: math.Inf(1), DF: 3}} {
		c := CompareWith(launches(100, 104), launches(130, 132), Options{true, nothing})
		if want := Compare(launches(100, 104), launches(130, 132), true); c.P != want.P || c.Method != want.Method || math.IsNaN(c.P) {
			t.Errorf("remembering %+v: %+v", nothing, c)
		}
		if !math.IsNaN(nothing.Ordinary()) || !math.IsNaN(nothing.MinEffect(3)) {
			t.Errorf("%+v predicts something", nothing)
		}
	}
}

func TestNoise_Planning(t *testing.T) {
	n := &Noise{SD: 0.03, DF: 200}
	last := math.Inf(1)
	for rounds := 2; rounds <= 20; rounds++ {
		e := n.MinEffect(rounds)
		if !(e < last) {
			t.Errorf("%d rounds show %v, one less %v", rounds, e, last)
		}
		last = e
	}
	if !math.IsNaN(n.MinEffect(1)) {
		t.Error("one round shows something")
	}
	// The simulation prints 0.066 for 6 rounds and a noise of 0.0316.
	near(t, "six rounds", n.MinEffect(6), 0.0626, 0.001)
}
