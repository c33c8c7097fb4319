package stats

import (
	"cmp"
	"math"
	"slices"
)

// Holm adjusts the p-values of comparisons made together, in their order: below
// 1 - Confidence, an adjusted one stands although it was not the only question
// asked; the chance of even one false finding among all stays 1 in 20, however
// the comparisons depend on each other. NaN (unknown) stays NaN and counts as not
// asked.
func Holm(ps []float64) []float64 {
	out := slices.Clone(ps)
	var asked []int
	for i, p := range ps {
		if !math.IsNaN(p) {
			asked = append(asked, i)
		}
	}
	slices.SortStableFunc(asked, func(a, b int) int { return cmp.Compare(ps[a], ps[b]) })
	least := 0.0
	for k, i := range asked {
		least = math.Min(1, math.Max(least, ps[i]*float64(len(asked)-k)))
		out[i] = least
	}
	return out
}
