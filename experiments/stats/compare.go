package stats

import (
	"cmp"
	"math"
	"slices"

	mathstats "github.com/aclements/go-moremath/stats"
	"golang.org/x/perf/benchmath"
)

// Launch is the value of one launch and the round it was measured in.
type Launch struct {
	Round int
	Value float64
}

// Comparison is a over b: a ratio and what it is worth.
type Comparison struct {
	Ratio  float64 // of the geometric means; NaN when there is none
	Lo, Hi float64 // its interval; NaN below three launches or rounds
	NA, NB int     // launches that went into it
	Paired bool    // round by round

	// MinEffect is the smallest effect that these launches could have shown, as
	// a fraction: with 0.04, a ratio between 0.96 and 1.04 would be called
	// noise. NaN when launch-to-launch noise is unknown.
	MinEffect float64

	// Separable says whether the ratio differs from 1 by more than noise. Nil
	// is unknown: a side has only one launch.
	Separable *bool

	// RankP is the p-value of the Mann-Whitney test on all launches, beside the
	// above, from 6 launches on each side; NaN below.
	RankP float64
}

// Compare compares the launches of two cells. Interleaved says that the rounds
// alternated between them: then the ratio is taken within each round that both
// have, if there are two or more such rounds. Values that are not positive and
// finite give a Comparison without ratio.
func Compare(a, b []Launch, interleaved bool) Comparison {
	c := Comparison{Ratio: math.NaN(), Lo: math.NaN(), Hi: math.NaN(), NA: len(a), NB: len(b), MinEffect: math.NaN(), RankP: math.NaN()}
	logA, okA := logarithms(values(a))
	logB, okB := logarithms(values(b))
	if !okA || !okB || len(a) == 0 || len(b) == 0 {
		return c
	}
	if len(a) >= minForRank && len(b) >= minForRank {
		c.RankP = benchmath.AssumeNothing.Compare(sample(values(a)), sample(values(b))).P
	}
	if interleaved {
		if diffs := byRound(a, b); len(diffs) >= 2 {
			c.NA, c.NB, c.Paired = len(diffs), len(diffs), true
			mean, se := moments(diffs)
			c.judge(mean, se, float64(len(diffs)-1))
			return c
		}
	}
	meanA, seA := moments(logA)
	meanB, seB := moments(logB)
	if len(a) < 2 || len(b) < 2 {
		c.Ratio = math.Exp(meanA - meanB)
		return c
	}
	c.judge(meanA-meanB, math.Hypot(seA, seB), welch(seA, seB, len(a), len(b)))
	return c
}

// minForDrift launches let both halves of the rounds show their noise.
const minForDrift = 4

// Drift compares a cell's later rounds with its earlier ones, half of the
// launches each, the middle one with the later: separable means that the host,
// not the cell, has changed. Without ratio below 4 launches.
func Drift(ls []Launch) Comparison {
	if len(ls) < minForDrift {
		return Compare(nil, nil, false)
	}
	ls = slices.Clone(ls)
	slices.SortStableFunc(ls, func(a, b Launch) int { return cmp.Compare(a.Round, b.Round) })
	half := len(ls) / 2
	return Compare(ls[half:], ls[:half], false)
}

// judge sets what follows from a difference of logs, its standard error and the
// degrees of freedom.
func (c *Comparison) judge(diff, se, df float64) {
	half := Quantile(df) * se
	if se == 0 {
		half = 0
	}
	separable := math.Abs(diff) > half
	c.Ratio, c.Separable, c.MinEffect = math.Exp(diff), &separable, math.Expm1(half)
	if min(c.NA, c.NB) >= minForT {
		c.Lo, c.Hi = math.Exp(diff-half), math.Exp(diff+half)
	}
}

// Quantile is how many standard errors the interval at Confidence reaches to
// each side, for df degrees of freedom: 4.303 for 2.
func Quantile(df float64) float64 {
	return mathstats.InvCDF(mathstats.TDist{V: df})(1 - (1-Confidence)/2)
}

// byRound gives the log ratio of each round that both sides have. Several
// launches of one side in a round count as their geometric mean.
func byRound(a, b []Launch) []float64 {
	type sums struct {
		a, b   float64
		na, nb float64
	}
	var order []int
	rounds := map[int]*sums{}
	at := func(round int) *sums {
		if rounds[round] == nil {
			rounds[round] = &sums{}
			order = append(order, round)
		}
		return rounds[round]
	}
	for _, l := range a {
		s := at(l.Round)
		s.a, s.na = s.a+math.Log(l.Value), s.na+1
	}
	for _, l := range b {
		s := at(l.Round)
		s.b, s.nb = s.b+math.Log(l.Value), s.nb+1
	}
	var out []float64
	for _, r := range order {
		if s := rounds[r]; s.na > 0 && s.nb > 0 {
			out = append(out, s.a/s.na-s.b/s.nb)
		}
	}
	return out
}

// moments gives the mean and its standard error, which is 0 for one value.
func moments(v []float64) (mean, se float64) {
	for _, x := range v {
		mean += x
	}
	mean /= float64(len(v))
	if len(v) < 2 {
		return mean, 0
	}
	var ss float64
	for _, x := range v {
		ss += (x - mean) * (x - mean)
	}
	n := float64(len(v))
	return mean, math.Sqrt(ss / (n - 1) / n)
}

// welch gives the degrees of freedom of a difference of two means whose
// variances need not be equal.
func welch(seA, seB float64, na, nb int) float64 {
	a, b := seA*seA, seB*seB
	if a+b == 0 {
		return float64(na + nb - 2)
	}
	return (a + b) * (a + b) / (a*a/float64(na-1) + b*b/float64(nb-1))
}

func values(ls []Launch) []float64 {
	out := make([]float64, len(ls))
	for i, l := range ls {
		out[i] = l.Value
	}
	return out
}
