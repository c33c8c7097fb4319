package stats

import (
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
)

// Confidence of every interval and, as 1 - Confidence, the rate of false
// findings of every comparison.
const Confidence = 0.95

// Fewest launches for each kind of interval.
const (
	minForT    = 3
	minForRank = 6 // below it the interval of a median at 95 % is infinite
)

// Kinds of intervals, as they are printed.
const (
	TLog = "t-log" // Student's t on the logs of the values, around their geometric mean
	Rank = "rank"  // order statistics around the median
)

// Interval is a range that holds the true middle in 95 of 100 cases.
type Interval struct {
	Kind   string // TLog or Rank
	Lo, Hi float64
}

// Summary is what is known of a number after n launches.
type Summary struct {
	Median   float64 // NaN when there is no launch
	N        int     // launches
	Interval *Interval
	Rank     *Interval // beside Interval, from 6 launches on
}

// Summarize summarizes the values of launches, one value each. There is no
// interval for fewer than three, nor when a value is not positive and finite, and
// none is narrower than the digits of the values allow.
func Summarize(values []float64) Summary {
	s := Summary{Median: Median(values), N: len(values)}
	if len(values) < minForT {
		return s
	}
	// Relative to the median, so that equal values give exactly that value.
	relative := make([]float64, len(values))
	for i, v := range values {
		relative[i] = v / s.Median
	}
	logs, ok := logarithms(relative)
	if !ok || s.Median <= 0 {
		return s
	}
	mean, se := moments(logs)
	half := Quantile(float64(len(values)-1)) * blurred(se, unseen(values), len(values))
	s.Interval = &Interval{Kind: TLog, Lo: s.Median * math.Exp(mean-half), Hi: s.Median * math.Exp(mean+half)}
	if len(values) < minForRank {
		return s
	}
	r := benchmath.AssumeNothing.Summary(sample(values), Confidence)
	if !math.IsInf(r.Lo, 0) && !math.IsInf(r.Hi, 0) {
		s.Rank = &Interval{Kind: Rank, Lo: r.Lo, Hi: r.Hi}
	}
	return s
}

// Median is the middle value, the mean of the two middle ones for an even
// number, and NaN for none. A NaN among the values makes it NaN.
func Median(values []float64) float64 {
	if len(values) == 0 || slices.ContainsFunc(values, math.IsNaN) {
		return math.NaN()
	}
	v := slices.Clone(values)
	slices.Sort(v)
	m := len(v) / 2
	if len(v)%2 == 1 {
		return v[m]
	}
	return v[m-1] + (v[m]-v[m-1])/2
}

// sample copies, since benchmath sorts what it is given.
func sample(values []float64) *benchmath.Sample {
	t := benchmath.DefaultThresholds
	return benchmath.NewSample(slices.Clone(values), &t)
}

// logarithms is false when a value has none.
func logarithms(values []float64) ([]float64, bool) {
	out := make([]float64, len(values))
	for i, v := range values {
		if !(v > 0) || math.IsInf(v, 1) {
			return nil, false
		}
		out[i] = math.Log(v)
	}
	return out, true
}
