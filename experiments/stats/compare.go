package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Launch is the value of one launch and the round it was measured in.
type Launch struct {
	Round int
	Value float64
}

// Options are what a comparison may know beside the launches.
type Options struct {
	// Interleaved says that the rounds alternated between the two cells: then
	// the ratio is taken within each round that both have, if there are two or
	// more such rounds.
	Interleaved bool

	// Noise is what is remembered of the host; nil is nothing. See Noise for
	// what a comparison does with it.
	Noise *Noise
}

// Comparison is a over b: a ratio and what it is worth.
type Comparison struct {
	Ratio  float64 // of the medians over launches, as they are shown; NaN when there is none
	Mean   float64 // of the geometric means, round by round when Paired: what is judged
	Lo, Hi float64 // the interval of Mean; NaN below three launches or rounds
	NA, NB int     // launches that went into it; rounds when Paired
	Paired bool    // round by round

	// MinEffect is the minimum detectable effect, as a fraction: a cell that is
	// truly faster or slower by it is called different Power of the time (8
	// times in 10) by as many launches as noisy as these. With 0.04, a true
	// ratio of 1.04 or 1/1.04. It is no threshold: a smaller effect may be found
	// by luck, and one of this size is missed 2 times in 10. It rests on the
	// noise of the few launches themselves, so with three of them it may well be
	// off by half; its median over many experiments is right. NaN when the noise
	// between launches is unknown.
	MinEffect float64

	// P is the two-sided p-value: how often cells that do not differ would look
	// at least this different. NaN when unknown, and 1 when Contrary: nobody can
	// say then which of the two is ahead.
	P float64

	// Separable says whether the ratio differs from 1 by more than noise, that
	// is P < 1 - Confidence. Nil is unknown, and TooFew says why.
	Separable *bool

	Method string // how P came about, "paired t on logs, n=6 rounds"; "" without P
	TooFew string // what is missing for a verdict; "" when there is one

	// RankP is the p-value of a test on ranks alone, beside P, from 6 launches
	// on each side: Wilcoxon's on the ratios of rounds when Paired, else the
	// Mann-Whitney test. NaN below. One wild launch makes P large, since it
	// looks like noise; it moves RankP little, so where the two disagree look at
	// Outliers.
	RankP float64
}

// Contrary says that one side is ahead by its median and the other by its mean, as
// when a wild launch draws the mean.
func (c Comparison) Contrary() bool {
	return (c.Ratio-1)*(c.Mean-1) < 0 && math.Abs(math.Log(c.Ratio)) > rounding && math.Abs(math.Log(c.Mean)) > rounding
}

// Compare compares the launches of two cells without memory; see CompareWith.
func Compare(a, b []Launch, interleaved bool) Comparison {
	return CompareWith(a, b, Options{Interleaved: interleaved})
}

// CompareWith compares the launches of two cells: how far apart by their medians,
// which is what cells are shown and ranked by, and whether that is more than noise
// by Student's t on the logs of their values: paired by round, or Welch's, which needs no equal noise. Values
// that are not positive and finite give a Comparison without ratio, and a side
// with one launch one without verdict, whatever is remembered. Noise is never
// taken for less than half of the last digit that values are printed with, see
// unseen; where launches agree to a digit that says nothing, there is no verdict
// either, unless the sides agree too. The result does
// not depend on the order of the launches; exchanging a and b inverts the ratio
// and changes nothing else.
func CompareWith(a, b []Launch, o Options) Comparison {
	c := compareMeans(a, b, o)
	if math.IsNaN(c.Mean) {
		return c
	}
	c.Ratio = Median(values(a)) / Median(values(b))
	if c.Contrary() && c.Separable != nil {
		separable := false
		c.P, c.Separable = 1, &separable
	}
	return c
}

// compareMeans is CompareWith less the medians.
func compareMeans(a, b []Launch, o Options) Comparison {
	c := nothing()
	c.NA, c.NB = len(a), len(b)
	logA, okA := logarithms(values(a))
	logB, okB := logarithms(values(b))
	switch {
	case len(a) == 0 || len(b) == 0:
		c.TooFew = "a side has no launch"
		return c
	case !okA || !okB:
		c.TooFew = "a value is not positive and finite, so there is no ratio"
		return c
	}
	if o.Interleaved {
		if diffs := byRound(a, b); len(diffs) >= 2 {
			c.NA, c.NB, c.Paired = len(diffs), len(diffs), true
			mean, se := moments(diffs)
			e := spread{se: blurred(se, math.Hypot(unseen(values(a)), unseen(values(b))), len(diffs)), shown: se > rounding, df: float64(len(diffs) - 1)}
			c.judge(mean, e, e.df, fmt.Sprintf("paired t on logs, n=%d rounds", len(diffs)), o.Noise)
			if len(diffs) >= minForRank {
				c.RankP = signedRank(diffs)
			}
			return c
		}
	}
	meanA, seA := moments(logA)
	meanB, seB := moments(logB)
	if len(a) < 2 || len(b) < 2 {
		c.Mean = math.Exp(meanA - meanB)
		c.TooFew = "a side has one launch, so the noise between launches is not known"
		if o.Noise.usable() {
			c.TooFew += "; two launches of one cell commonly differ by up to " + percent(o.Noise.Ordinary()) + " here (" + o.Noise.Basis + ")"
		}
		return c
	}
	shown := math.Hypot(seA, seB) > rounding
	seA, seB = blurred(seA, unseen(values(a)), len(a)), blurred(seB, unseen(values(b)), len(b))
	e := spread{se: math.Hypot(seA, seB), shown: shown, df: welch(seA, seB, len(a), len(b))}
	c.judge(meanA-meanB, e, cautious(e.df, len(a), len(b)), fmt.Sprintf("Welch's t on logs, n=%d and %d launches", len(a), len(b)), o.Noise)
	if min(len(a), len(b)) >= minForRank {
		c.RankP = mannWhitney(values(a), values(b))
	}
	return c
}

func nothing() Comparison {
	nan := math.NaN()
	return Comparison{Ratio: nan, Mean: nan, Lo: nan, Hi: nan, MinEffect: nan, P: nan, RankP: nan}
}

// spread is what the launches of a comparison tell of the error of its
// difference of logs.
type spread struct {
	se    float64
	df    float64 // that se rests on
	shown bool    // the launches differ; else se is what their digits may hide
}

// judge sets what follows from a difference of logs, its error, and the degrees of
// freedom to test with. Two launches that give the very same value say nothing
// about noise, and neither do more of them when they are not even rounded.
func (c *Comparison) judge(diff float64, e spread, df float64, method string, noise *Noise) {
	const alpha = 1 - Confidence
	c.Mean = math.Exp(diff)
	n := min(c.NA, c.NB)
	remember := n < minForT && noise.usable()
	equal := math.Abs(diff) < rounding
	if !equal && !remember && !e.shown && (n < minForT || e.se <= rounding) {
		c.TooFew = "the launches of a side all gave the very same value, so the noise between them is not known"
		return
	}
	c.Method, c.P = method, pValue(diff, e.se, df)
	switch {
	case remember:
		c.recall(diff, e, df, noise)
	case e.se > rounding:
		t := critical(df, alpha)
		c.MinEffect = math.Expm1(detectable(t, e.df) * e.se)
		if n >= minForT {
			c.Lo, c.Hi = math.Exp(diff-t*e.se), math.Exp(diff+t*e.se)
		}
	case n >= minForT: // the same on both sides
		c.Lo, c.Hi = c.Mean, c.Mean
	}
	separable := c.P < alpha
	c.Separable = &separable
}

// rounding is a difference of logs that sums in another order can make.
const rounding = 1e-12

// pValue allows for sides that are equal to the last digit.
func pValue(diff, se, df float64) float64 {
	if math.Abs(diff) < rounding {
		return 1
	}
	return twoSided(diff/se, df)
}

// byRound gives the log ratio of each round that both sides have, in the order
// of rounds. Several launches of one side in a round count as their geometric
// mean.
func byRound(a, b []Launch) []float64 {
	a, b = sortedByRound(a), sortedByRound(b)
	var out []float64
	for len(a) > 0 && len(b) > 0 {
		switch r, s := a[0].Round, b[0].Round; {
		case r < s:
			a = a[1:]
		case r > s:
			b = b[1:]
		default:
			var x, y float64
			x, a = roundMean(a)
			y, b = roundMean(b)
			out = append(out, x-y)
		}
	}
	return out
}

// roundMean gives the mean log of the first round of sorted launches, and the
// launches after it.
func roundMean(ls []Launch) (float64, []Launch) {
	sum, n := 0.0, 0
	for n < len(ls) && ls[n].Round == ls[0].Round {
		sum += math.Log(ls[n].Value)
		n++
	}
	return sum / float64(n), ls[n:]
}

// sortedByRound leaves launches of one round in their order.
func sortedByRound(ls []Launch) []Launch {
	inOrder := func(a, b Launch) int { return cmp.Compare(a.Round, b.Round) }
	if slices.IsSortedFunc(ls, inOrder) {
		return ls
	}
	ls = slices.Clone(ls)
	slices.SortStableFunc(ls, inOrder)
	return ls
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
	n := float64(len(v))
	return mean, math.Sqrt(squares(v) / (n - 1) / n)
}

// squares is the sum of the squared distances from the mean.
func squares(v []float64) float64 {
	var mean, ss float64
	for _, x := range v {
		mean += x
	}
	mean /= float64(len(v))
	for _, x := range v {
		ss += (x - mean) * (x - mean)
	}
	return ss
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

// cautious lowers Welch's degrees of freedom where they promise too much: when
// the smaller side happens to agree, its part of the error looks small and that
// of the many takes over. Simulated, with noise equal or up to eleven times larger
// on either side, 2 launches against 10 make 12 % false calls out of 5 claimed, 3
// against 10 make 7 %, and with this bound no more than 6 %. It costs power where
// the smaller side is truly quiet. Where both sides have the same number, and from
// 5 launches on, Welch's are right as they are.
func cautious(df float64, na, nb int) float64 {
	few := min(na, nb)
	if na == nb || few > 4 {
		return df
	}
	return math.Min(df, 1.2*float64(few-1))
}

func values(ls []Launch) []float64 {
	out := make([]float64, len(ls))
	for i, l := range ls {
		out[i] = l.Value
	}
	return out
}
