package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	mathstats "github.com/aclements/go-moremath/stats"
)

// Holm's own procedure on 0.01, 0.04, 0.03, 0.005: sorted 0.005*4, 0.01*3,
// 0.03*2, 0.04*1, never falling.
func TestHolm_KnownAnswer(t *testing.T) {
	got := Holm([]float64{0.01, 0.04, 0.03, math.NaN(), 0.005})
	for i, want := range []float64{0.03, 0.06, 0.06, math.NaN(), 0.02} {
		near(t, "adjusted", got[i], want, 1e-12)
	}
	if got := Holm([]float64{0.9, 0.8}); got[0] != 1 || got[1] != 1 {
		t.Errorf("above 1: %v", got)
	}
	if len(Holm(nil)) != 0 || Holm([]float64{0.2})[0] != 0.2 {
		t.Error("none and one")
	}
}

// Nineteen cells that are the baseline: any false finding among all of them is
// as rare as one comparison's.
func TestHolm_FamilyOfComparisons(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 3))
	raw, adjusted := 0, 0
	const sweeps = 1000
	for range sweeps {
		ps := make([]float64, 19)
		for i := range ps {
			ps[i] = r.Float64()
		}
		if slices.Min(ps) < 0.05 {
			raw++
		}
		if slices.Min(Holm(ps)) < 0.05 {
			adjusted++
		}
	}
	if raw < sweeps/2 || adjusted > sweeps*7/100 || adjusted == 0 {
		t.Errorf("of %d sweeps %d have a false finding raw, %d adjusted", sweeps, raw, adjusted)
	}
}

func TestOutliers(t *testing.T) {
	for name, c := range map[string]struct {
		values []float64
		want   []int
	}{
		"none":              {[]float64{100, 101, 99, 100.5, 99.5, 100.2}, nil},
		"one":               {[]float64{100, 101, 99, 137, 99.5, 100.2}, []int{3}},
		"two of ten":        {[]float64{100, 101, 99, 137, 99.5, 100.2, 100.4, 62, 99.9, 100.1}, []int{3, 7}},
		"of three":          {[]float64{90.4, 90.9, 71.1}, []int{2}},
		"three near by":     {[]float64{90.4, 90.5, 87}, nil},
		"three apart":       {[]float64{100, 106, 120}, nil},
		"not a number":      {[]float64{100, math.NaN(), 101}, []int{1}},
		"equal but one":     {[]float64{20.1, 20.1, 20.1, 20.1, 20.9}, []int{4}},
		"equal to a digit":  {[]float64{20.1, 20.1, 20.1, 20.1, 20.2}, nil},
		"all equal":         {[]float64{2, 2, 2, 2}, nil},
		"negative and wild": {[]float64{-100, -101, -99, 40, -99.5, -100.2}, []int{3}},
		"nothing":           {nil, nil},
	} {
		if got := Outliers(c.values); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestOutliers_CleanSamplesHaveNone(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for _, n := range []int{3, 4, 5, 6, 7, 10, 11, 20, 60} {
		named := 0
		for range 2000 {
			v := make([]float64, n)
			for i := range v {
				v[i] = 20 * math.Exp(0.03*r.NormFloat64())
			}
			if len(Outliers(v)) > 0 {
				named++
			}
		}
		if rate := float64(named) / 2000; rate > 0.035 {
			t.Errorf("n=%d: a clean sample has an outlier in %.1f %%", n, 100*rate)
		}
	}
}

// Six equal differences of one sign: 2 of 64 sign patterns are as extreme. With
// sizes 1..4 and signs that leave 1 negative, sums of 0 and 1 on either side: 4
// of 16.
func TestSignedRank_KnownAnswers(t *testing.T) {
	near(t, "all positive", signedRank([]float64{1, 1, 1, 1, 1, 1}), 2./64, 1e-15)
	near(t, "smallest negative", signedRank([]float64{-1, 2, 3, 4}), 4./16, 1e-15)
	near(t, "zeros say nothing", signedRank([]float64{0, -1, 2, 0, 3, 4}), 4./16, 1e-15)
	near(t, "balanced", signedRank([]float64{-1, 1}), 1, 0)
	near(t, "nothing", signedRank([]float64{0, 0}), 1, 0)
	long := make([]float64, 200)
	for i := range long {
		long[i] = float64(i + 1)
	}
	if p := signedRank(long); p <= 0 || p > 1e-50 {
		t.Errorf("200 of one sign: %v", p)
	}
}

// The library's bisection, which is slow, and its cumulative distribution.
func TestCritical_IsTheInverseOfTheTail(t *testing.T) {
	for _, df := range []float64{1, 1.01, 1.7, 2, 2.5, 3.9769, 7, 29.4, 300, 1e4, 9e5} {
		for _, alpha := range []float64{0.05, 0.025, 0.0125, 0.3, 1e-4} {
			c := critical(df, alpha)
			near(t, "tail", twoSided(c, df)/alpha, 1, 1e-8)
			if df < 1e4 {
				near(t, "library's quantile", c/mathstats.InvCDF(mathstats.TDist{V: df})(1-alpha/2), 1, 1e-6)
			}
		}
	}
	near(t, "normal", critical(1e9, 0.05), 1.959964, 1e-6)
	near(t, "close to normal", critical(9e5, 0.05), 1.959964, 1e-4)
	if twoSided(math.Inf(-1), 3) != 0 || twoSided(0, 3) != 1 {
		t.Error("ends of the tail")
	}
}

// Worked out beside by integrating the noncentral t and the chi distribution: the
// noncentrality found with power 0.8, over the median of the estimate.
func TestDetectable_KnownAnswers(t *testing.T) {
	for df, want := range map[float64]float64{1: 16.33401 / 0.674475, 2: 5.653489 / 0.832545, 3: 4.255899 / 0.888075, 5: 3.513903 / 0.932895, 9: 3.149633 / 0.962805} {
		near(t, "detectable over the exact", detectable(Quantile(df), df)/want, 1, 0.03)
	}
	near(t, "without doubt about the noise", detectable(Quantile(1e7), 1e7), 1.959964+0.841621, 1e-4)
	last := math.Inf(1)
	for df := 1.0; df < 50; df += 0.5 {
		d := detectable(Quantile(df), df)
		if !(d < last) || d < Quantile(df) {
			t.Errorf("df=%v: %v after %v", df, d, last)
		}
		last = d
	}
}

func TestSplit_FindsTheLevel(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for _, c := range []struct{ within, between float64 }{{0.01, 0.09}, {0.05, 0}} {
		var nests []Nest
		for i := range 400 {
			launch := c.between * r.NormFloat64()
			n := Nest{Round: i}
			for range 2 + i%3 {
				n.Runs = append(n.Runs, 20*math.Exp(launch+c.within*r.NormFloat64()))
			}
			nests = append(nests, n)
		}
		l := Split(nests)
		near(t, "within", l.Within, c.within, 0.1*c.within)
		near(t, "between", l.Between, c.between, 0.1*c.between+0.012)
		if l.Launches != 400 || l.Runs != 1199 {
			t.Errorf("%+v", l)
		}
	}
}

func TestSplit_WhatCannotBeKnown(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]struct {
		nests []Nest
		want  Levels
	}{
		"nothing":           {nil, Levels{0, 0, nan, nan, nan}},
		"one run":           {[]Nest{{0, []float64{20}}}, Levels{1, 1, nan, nan, nan}},
		"one launch":        {[]Nest{{0, []float64{20, 20}}}, Levels{1, 2, 0, nan, nan}},
		"one run each":      {[]Nest{{0, []float64{20}}, {1, []float64{20}}, {2, nil}}, Levels{2, 2, nan, 0, 0}},
		"a value without":   {[]Nest{{0, []float64{20, 0}}, {1, []float64{20}}}, Levels{0, 0, nan, nan, nan}},
		"only runs scatter": {[]Nest{{0, []float64{10, 40}}, {1, []float64{40, 10}}}, Levels{2, 4, math.Log(4) / math.Sqrt2, 0, 0}},
	} {
		l := Split(c.nests)
		near(t, name+": within", l.Within, c.want.Within, 1e-12)
		near(t, name+": between", l.Between, c.want.Between, 1e-12)
		near(t, name+": launch", l.Launch, c.want.Launch, 1e-12)
		if l.Launches != c.want.Launches || l.Runs != c.want.Runs {
			t.Errorf("%s: %+v", name, l)
		}
	}
	m := Medians([]Nest{{3, []float64{1, 9, 2}}, {4, nil}})
	if len(m) != 1 || m[0] != (Launch{3, 2}) {
		t.Errorf("medians %v", m)
	}
}

// A hundred runs of one launch are one launch.
func TestCompare_RunsOfOneLaunchShowNothingAboutLaunches(t *testing.T) {
	many := func(value float64) []Nest {
		n := Nest{}
		for i := range 100 {
			n.Runs = append(n.Runs, value+float64(i%3)/100)
		}
		return []Nest{n}
	}
	c := Compare(Medians(many(100)), Medians(many(50)), true)
	if c.Separable != nil || !math.IsNaN(c.P) || !math.IsNaN(c.MinEffect) || c.NA != 1 || c.TooFew == "" {
		t.Errorf("%+v", c)
	}
}
