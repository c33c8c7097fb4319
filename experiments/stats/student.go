package stats

import (
	"math"

	"github.com/aclements/go-moremath/mathx"
)

// Power is how often a true effect of the size of MinEffect is found: 8 times in
// 10. An effect of the size that the interval reaches to would be found only
// every other time.
const Power = 0.8

// Quantile is how many standard errors the interval at Confidence reaches to
// each side, for df degrees of freedom: 4.303 for 2.
func Quantile(df float64) float64 { return critical(df, 1-Confidence) }

// manyDF is where Student's t is the normal distribution to six digits.
const manyDF = 1e6

// twoSided is the chance that Student's t is at least as far from 0 as t.
func twoSided(t, df float64) float64 {
	switch {
	case math.IsInf(t, 0):
		return 0
	case df >= manyDF:
		return math.Erfc(math.Abs(t) / math.Sqrt2)
	}
	return mathx.BetaInc(df/(df+t*t), df/2, 0.5)
}

// critical is the t that has twoSided(t, df) = alpha. The library's inverse
// bisects; Newton's method needs a tenth of the time, which a simulation of a
// million comparisons notices. On logarithms of both the tail is concave, so it
// converges from anywhere.
func critical(df, alpha float64) float64 {
	normal := math.Sqrt2 * math.Erfcinv(alpha)
	if df >= manyDF {
		return normal
	}
	// The logs of the exact values for 1, 2 and infinitely many degrees of
	// freedom, interpolated over 1/df.
	one := math.Log(1 / math.Tan(math.Pi*alpha/2))
	two := math.Log(math.Sqrt2 * (1 - alpha) / math.Sqrt(alpha*(2-alpha)))
	inf := math.Log(normal)
	x := math.Min(1/df, 1)
	u := inf + x*(4*two-one-3*inf) + x*x*2*(one+inf-2*two)
	scale := lgamma((df+1)/2) - lgamma(df/2) - math.Log(df*math.Pi)/2
	for range 20 {
		t := math.Exp(u)
		tail := twoSided(t, df)
		density := math.Exp(scale - (df+1)/2*math.Log1p(t*t/df))
		step := math.Log(tail/alpha) * tail / (2 * density * t)
		u += step
		if math.Abs(step) < 1e-10 {
			break
		}
	}
	return math.Exp(u)
}

// detectable is the true effect that a test finds with Power which calls what is
// beyond t estimated standard errors. It is in these errors too: detectable * se
// has the right median although se is a guess. A test with an estimated error finds d when
// Z + d > t*S, with S the estimate over the truth; S has mean c4 and variance
// 1 - c4*c4, and taking it for normal is within 3 % of the noncentral t from 1
// degree of freedom on. S lies below 1 more often than not, which the division
// by its median makes good (Wilson and Hilferty's approximation).
func detectable(t, df float64) float64 {
	c4 := math.Sqrt(2/df) * math.Exp(lgamma((df+1)/2)-lgamma(df/2))
	return (t*c4 + powerZ*math.Sqrt(1+t*t*(1-c4*c4))) / typical(df)
}

// typical is the median of an estimated standard deviation over the true one.
func typical(df float64) float64 { return math.Pow(1-2/(9*df), 1.5) }

// powerZ is the normal quantile of Power.
var powerZ = math.Sqrt2 * math.Erfinv(2*Power-1)

func lgamma(x float64) float64 {
	v, _ := math.Lgamma(x)
	return v
}
