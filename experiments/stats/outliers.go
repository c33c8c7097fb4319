package stats

import (
	"math"
	"slices"
)

// minForOutliers values show by their spread which of them is wild: of three, two
// that happen to agree would condemn the third. There the third must be off by
// farOfThree, as a fraction, and by gapOfThree times what the others differ by.
const (
	minForOutliers = 4
	farOfThree     = 0.1
	gapOfThree     = 4
)

// farOut is from how many robust standard deviations on a value is wild, by
// number of values from minForOutliers on: 2 in 100 clean samples have one that
// far out (simulated). Few values need a larger bound, since their median
// deviation is often small by luck, odd numbers more so than even ones.
var farOut = [...]float64{4: 11.3, 5: 13, 6: 7.8, 7: 8.3, 8: 6.4, 9: 6.8, 10: 5.9}

// madSigma makes the median absolute deviation of normal noise its standard
// deviation.
const madSigma = 1.4826

// sameButOne is how far, as a fraction, a value must be from the others to be
// wild where over half of them are equal, so that they show no noise.
const sameButOne = 0.01

// Outliers gives the indices of values far from the others by their modified
// z-score (distance from the median over the median distance), on logs where all
// are positive. They are to be named and never dropped: a wild launch is a fact
// about the host, and a number without it would claim more than is known. Of three
// values only one that is off by over a tenth can be told, and of fewer none, except
// one that is not finite, which always is one.
func Outliers(values []float64) []int {
	var out, at []int
	var finite []float64
	for i, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			out = append(out, i)
			continue
		}
		at, finite = append(at, i), append(finite, v)
	}
	n := len(finite)
	if n == minForOutliers-1 && len(out) == 0 {
		return outlierOfThree(finite)
	}
	if n < minForOutliers || len(out) > 0 {
		return out
	}
	same := sameButOne
	if logs, ok := logarithms(finite); ok {
		finite = logs
	} else {
		same *= math.Abs(Median(finite))
	}
	middle := Median(finite)
	distances := make([]float64, n)
	for i, v := range finite {
		distances[i] = math.Abs(v - middle)
	}
	bound := 4 + 19/float64(n)
	if n < len(farOut) {
		bound = farOut[n]
	}
	limit := bound * madSigma * Median(distances)
	if limit == 0 {
		limit = same
	}
	for i, d := range distances {
		if d > limit {
			out = append(out, at[i])
		}
	}
	return out
}

// outlierOfThree is the one of three positive values that is far from the others.
func outlierOfThree(values []float64) []int {
	logs, ok := logarithms(values)
	if !ok {
		return nil
	}
	for i, v := range logs {
		others := slices.Delete(slices.Clone(logs), i, i+1)
		apart := math.Abs(others[0] - others[1])
		off := math.Min(math.Abs(v-others[0]), math.Abs(v-others[1]))
		if off > math.Log1p(farOfThree) && off > gapOfThree*apart {
			return []int{i}
		}
	}
	return nil
}
