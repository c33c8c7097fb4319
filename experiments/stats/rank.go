package stats

import (
	"cmp"
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
)

// mannWhitney is the two-sided p-value of the rank test of two samples.
func mannWhitney(a, b []float64) float64 {
	return benchmath.AssumeNothing.Compare(sample(a), sample(b)).P
}

// signedRank is the exact two-sided p-value of Wilcoxon's signed rank test:
// whether differences lie around 0, from their ranks by size alone. Differences
// of 0 say nothing and are left out; equal sizes share their mean rank.
func signedRank(diffs []float64) float64 {
	d := slices.DeleteFunc(slices.Clone(diffs), func(x float64) bool { return x == 0 })
	if len(d) == 0 {
		return 1
	}
	slices.SortFunc(d, func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
	// Ranks are counted in halves, so that shared ones are whole numbers.
	ranks := make([]int, len(d))
	total, positive := 0, 0
	for i := 0; i < len(d); {
		j := i
		for j < len(d) && math.Abs(d[j]) == math.Abs(d[i]) {
			j++
		}
		for k := i; k < j; k++ {
			ranks[k] = i + 1 + j
			total += ranks[k]
			if d[k] > 0 {
				positive += ranks[k]
			}
		}
		i = j
	}
	// chance[s] is that of a sum of s when each sign is a coin's.
	chance := make([]float64, total+1)
	chance[0] = 1
	for _, r := range ranks {
		for s := total; s >= 0; s-- {
			chance[s] /= 2
			if s >= r {
				chance[s] += chance[s-r] / 2
			}
		}
	}
	tail := 0.0
	for _, p := range chance[:min(positive, total-positive)+1] {
		tail += p
	}
	return math.Min(1, 2*tail)
}
