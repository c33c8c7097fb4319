package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if math.Abs(got-want) > tol || math.IsNaN(got) != math.IsNaN(want) {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

// Published two-sided 95 % points of Student's t.
func TestQuantile_MatchesPublishedTable(t *testing.T) {
	for df, want := range map[float64]float64{1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 10: 2.228, 30: 2.042, 120: 1.980} {
		near(t, "t quantile", Quantile(df), want, 0.0005)
	}
}

func TestMedian(t *testing.T) {
	nan := math.NaN()
	for _, tc := range []struct {
		in     []float64
		median float64
	}{
		{nil, nan},
		{[]float64{5}, 5},
		{[]float64{3, 1}, 2},
		{[]float64{3, 1, 100}, 3},
		{[]float64{4, 1, 3, 2}, 2.5},
		{[]float64{-1, 1}, 0},
		{[]float64{1, nan, 2}, nan},
		{[]float64{math.MaxFloat64, math.MaxFloat64}, math.MaxFloat64},
	} {
		near(t, "median", Median(tc.in), tc.median, 0)
	}
	in := []float64{3, 1, 2}
	Median(in)
	Summarize(in)
	if in[0] != 3 || in[1] != 1 {
		t.Errorf("the caller's values were reordered: %v", in)
	}
}

// Worked out beside: the logs of 19, 20, 21 have mean 2.994898 and standard
// deviation 0.0500469; 4.302653 * 0.0500469 / sqrt(3) = 0.1243235.
func TestSummarize_KnownAnswer(t *testing.T) {
	s := Summarize([]float64{21, 19, 20})
	if s.N != 3 || s.Median != 20 || s.Interval == nil || s.Interval.Kind != TLog || s.Rank != nil {
		t.Fatalf("summary = %+v", s)
	}
	near(t, "lo", s.Interval.Lo, 17.647152, 1e-6)
	near(t, "hi", s.Interval.Hi, 22.628754, 1e-6)
}

func TestSummarize_KindsOfIntervalByNumberOfLaunches(t *testing.T) {
	for n := range 9 {
		var v []float64
		for i := range n {
			v = append(v, 20+float64(i))
		}
		s := Summarize(v)
		if (s.Interval != nil) != (n >= 3) || (s.Rank != nil) != (n >= 6) || s.N != n {
			t.Errorf("n=%d: %+v", n, s)
		}
		if s.Rank != nil && n == 6 && (s.Rank.Lo != 20 || s.Rank.Hi != 25) {
			t.Errorf("with 6 launches the rank interval is their whole range, got %+v", *s.Rank)
		}
	}
	const v = 211.0 / 7
	if i := Summarize([]float64{v, v, v}).Interval; i == nil || i.Lo != v || i.Hi != v {
		t.Errorf("equal values: %+v", i)
	}
	for _, v := range [][]float64{{-1, -2, -3}, {1, 0, 2}, {1, -1, 2}, {1, math.NaN(), 2}, {1, math.Inf(1), 2}} {
		if s := Summarize(v); s.Interval != nil {
			t.Errorf("%v has an interval: %+v", v, *s.Interval)
		}
	}
}

func launches(v ...float64) []Launch {
	var out []Launch
	for i, x := range v {
		out = append(out, Launch{Round: i, Value: x})
	}
	return out
}

func separable(c Comparison) string {
	switch {
	case c.Separable == nil:
		return "unknown"
	case *c.Separable:
		return "yes"
	}
	return "no"
}

func TestCompare(t *testing.T) {
	for _, tc := range []struct {
		name        string
		a, b        []Launch
		interleaved bool
		want        string
		paired      bool
		ratio       float64
	}{
		{"one launch each", launches(100), launches(50), true, "unknown", false, 2},
		{"one launch on one side", launches(100, 101, 99), launches(50), true, "unknown", false, 2},
		{"nothing", nil, launches(50), true, "unknown", false, math.NaN()},
		{"zero has no ratio", launches(0, 0), launches(50, 50), true, "unknown", false, math.NaN()},
		// All rounds drift by a third, within each the ratio is 1.02.
		{"drift, paired", launches(102, 122.6, 81.7), launches(100, 120, 80), true, "yes", true, 1.02},
		{"drift, not paired", launches(102, 122.6, 81.7), launches(100, 120, 80), false, "no", false, 1.02},
		{"noise", launches(100, 104, 97), launches(99, 98, 103), true, "no", true, 100. / 99},
		{"two launches, large effect", launches(100, 101), launches(50, 50.4), true, "yes", true, 2.0020},
		{"two launches, small effect", launches(100, 103), launches(99, 100), true, "no", true, 1.0200},
		{"a round missing on one side", []Launch{{0, 102}, {2, 78}}, launches(100, 120, 80), true, "no", true, 0.9},
		{"no common round", []Launch{{7, 200}, {8, 202}, {9, 198}}, launches(100, 101, 99), true, "yes", false, 2.0},
		{"the same value each time", launches(2, 2, 2), launches(2, 2, 2), true, "no", true, 1},
	} {
		c := Compare(tc.a, tc.b, tc.interleaved)
		if separable(c) != tc.want || c.Paired != tc.paired {
			t.Errorf("%s: separable %s, paired %v: %+v", tc.name, separable(c), c.Paired, c)
		}
		near(t, tc.name+": ratio", c.Ratio, tc.ratio, 2e-3)
		if few := min(c.NA, c.NB) < 3 || c.Separable == nil; few != math.IsNaN(c.Lo) {
			t.Errorf("%s: interval from %v to %v with %d and %d launches", tc.name, c.Lo, c.Hi, c.NA, c.NB)
		}
	}
}

// Welch's interval, worked out beside with the t density integrated by Simpson's
// rule: ln(10, 11, 12) and ln(14, 15, 17) have means 2.395129 and 2.726774 and
// standard errors 0.052650 and 0.056824, which gives 3.9769 degrees of freedom,
// t = -4.281146, P = 0.012997, t(0.975) = 2.782807 and half an interval of 0.215574.
func TestCompare_UnpairedKnownAnswer(t *testing.T) {
	c := Compare(launches(10, 11, 12), launches(14, 15, 17), false)
	near(t, "ratio", c.Ratio, 11./15, 1e-12)
	near(t, "mean", c.Mean, 0.717742, 1e-6)
	near(t, "p", c.P, 0.01299703163, 1e-10)
	near(t, "lo", c.Lo, 0.578557, 1e-6)
}

// Cells are ranked by medians, and one wild launch turns the mean: nobody can say
// which is ahead, however sure the mean is.
func TestCompare_MediansAgainstMeans(t *testing.T) {
	c := Compare(launches(90.4, 90.9, 71.1), launches(87.1, 87.3, 87.0), false)
	near(t, "ratio", c.Ratio, 90.4/87.1, 1e-12)
	if !c.Contrary() || *c.Separable || c.P != 1 || c.Mean > 0.97 {
		t.Errorf("%+v", c)
	}
	if c := Compare(launches(101, 101, 102, 60, 60, 60.1, 101), launches(100, 100.1, 99.9, 100, 100.2, 99.8, 100), true); !c.Contrary() || *c.Separable {
		t.Errorf("%+v", c)
	}
	if c := Compare(launches(93, 93.1, 92.9), launches(87, 87.2, 86.9), true); c.Contrary() || !*c.Separable {
		t.Errorf("%+v", c)
	}
}

func TestCompare_Properties(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		n := 2 + r.IntN(7)
		var a, b, scaled []Launch
		for i := range n {
			a = append(a, Launch{i, 20 * math.Exp(r.NormFloat64()*0.1)})
			b = append(b, Launch{i, 20 * math.Exp(r.NormFloat64()*0.1)})
			scaled = append(scaled, Launch{i, a[i].Value * 1000})
		}
		for _, interleaved := range []bool{true, false} {
			c, back := Compare(a, b, interleaved), Compare(b, a, interleaved)
			near(t, "ratio of the exchanged", c.Ratio*back.Ratio, 1, 1e-9)
			if separable(c) != separable(back) {
				t.Errorf("exchanging the sides changed the verdict: %+v, %+v", c, back)
			}
			near(t, "least effect of the exchanged", c.MinEffect, back.MinEffect, 1e-9)
			if n >= 3 && !c.Contrary() && *c.Separable == (c.Lo <= 1 && 1 <= c.Hi) {
				t.Errorf("verdict and interval disagree: %+v", c)
			}
			near(t, "p of the exchanged", c.P, back.P, 1e-9)
			if *c.Separable != (c.P < 0.05) {
				t.Errorf("p %v, separable %v", c.P, *c.Separable)
			}
			// What is found 8 times in 10 is more than what is found every other
			// time, which is about where the interval ends.
			if n >= 3 && c.MinEffect <= c.Hi/c.Mean-1 {
				t.Errorf("least effect %v within half the interval %v", c.MinEffect, c.Hi/c.Mean-1)
			}
			r.Shuffle(n, func(i, j int) { a[i], a[j] = a[j], a[i] })
			near(t, "p after shuffling", Compare(a, b, interleaved).P, c.P, 1e-9)
			u := Compare(scaled, b, interleaved)
			if c.Contrary() && (*c.Separable || c.P != 1) {
				t.Errorf("medians and means point opposite ways: %+v", c)
			}
			near(t, "ratio in another unit", u.Ratio/1000, c.Ratio, 1e-9)
			near(t, "least effect in another unit", u.MinEffect, c.MinEffect, 1e-9)
			if math.IsNaN(c.RankP) != (n < 6) {
				t.Errorf("n=%d: rank p %v", n, c.RankP)
			}
		}
		if self := Compare(a, a, true); *self.Separable || self.Ratio != 1 {
			t.Errorf("a cell differs from itself: %+v", self)
		}
	}
}

func TestDrift_TellsAMoveFromNoise(t *testing.T) {
	for name, c := range map[string]struct {
		values []float64 // by round
		moved  bool
	}{
		"too few to tell": {[]float64{88.8, 88.7, 62}, false},
		"steady":          {[]float64{88.8, 88.5, 88.9, 88.6, 88.7, 88.8}, false},
		"noisy":           {[]float64{80, 96, 84, 92, 78, 97}, false},
		"a step":          {[]float64{88.8, 88.5, 88.9, 82.1, 82.3, 81.9}, true},
		"a slope":         {[]float64{89, 88, 87, 86, 85, 84}, true},
		"a step of four":  {[]float64{88.8, 88.7, 82.1, 82.2}, true},
		"none":            {nil, false},
		"not a number":    {[]float64{88, math.NaN(), 82, 82}, false},
	} {
		var ls []Launch
		for i := range c.values { // in any order
			round := (i*5 + 3) % len(c.values)
			if len(c.values)%5 == 0 {
				round = i
			}
			ls = append(ls, Launch{Round: round, Value: c.values[round]})
		}
		d := drift(ls, nil)
		if got := d.Separable != nil && *d.Separable; got != c.moved {
			t.Errorf("%s: %+v", name, d)
		}
	}
	d := drift([]Launch{{0, 100}, {1, 100.1}, {2, 89.9}, {3, 90}, {4, 90.1}}, nil)
	near(t, "ratio", d.Ratio, 0.9, 1e-3)
	if d.NA != 3 || d.NB != 2 {
		t.Errorf("%d after %d", d.NA, d.NB)
	}
}
