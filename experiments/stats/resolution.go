package stats

import "math"

// resolution is the step that values are printed in: the coarsest of 1, 0.5, 0.1,
// 0.05, ... that all of them are multiples of, and 0 when there is none. Values
// read out of a log have one or two decimals, and the median of an even number of
// them may lie halfway between; measured values have as many digits as a float64
// holds.
func resolution(values []float64) float64 {
	for _, v := range values {
		if !multiple(v, finest) {
			return 0
		}
	}
	for scale := 1.0; scale <= 1/finest; scale *= 10 {
		for _, part := range [...]float64{1, 2} {
			fits := len(values) > 0
			for _, v := range values {
				fits = fits && multiple(v, 1/(scale*part))
			}
			if fits {
				return 1 / (scale * part)
			}
		}
	}
	return finest
}

// finest is the step below which a value counts as not rounded.
const finest = 1e-6

// multiple allows for what a decimal fraction loses in binary.
func multiple(v, step float64) bool {
	x := v / step
	return math.Abs(x-math.Round(x)) <= 1e-14*math.Max(1e6, math.Abs(x))
}

// unseen is the least standard deviation of logs that values printed in steps may
// hide: half a step. Launches that all print 20.1 lie somewhere between 20.05 and
// 20.15, so that their agreement proves no more than that.
func unseen(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return resolution(values) / 2 / (sum / float64(len(values)))
}

// blurred is a standard error of n logs that is no less than rounding leaves it.
func blurred(se, hidden float64, n int) float64 {
	return math.Max(se, hidden/math.Sqrt(float64(n)))
}
