package stats

import (
	"fmt"
	"math"
)

// Noise is what earlier sweeps taught about a metric on a host: how far apart
// launches of one cell lie. A nil one, one without degrees of freedom or without
// spread teaches nothing.
//
// A comparison uses it where its own launches say next to nothing about noise,
// that is with two launches on a side (their spread has one or two degrees of
// freedom). There each of two ways to a finding has half the allowed rate of
// false findings:
//
//   - by its own spread, as without memory;
//   - against three times what is remembered, on the degrees of freedom that
//     memory rests on.
//
// So memory adds findings that two launches alone could not make, and the rate of
// false ones holds whenever memory is right, too high by any factor, rests on few
// launches, or is up to three times too low. Three, because on one server both
// 3 % and 11 % between launches were seen, in different configurations.
//
// Two simpler rules are not used. Pooling the two variances when an F test finds
// them consistent fails when memory is three times too low: one or two degrees of
// freedom can't refute it, and of what is claimed at 5 % it makes 23 % with two
// rounds and 14 % with three. And "never less than memory says" throws away what interleaving
// gains: memory contains what drifts from round to round, which pairs do not.
// From three launches on, halving the rate that their own spread may use costs
// more than memory adds, so there it only serves planning: MinEffect.
type Noise struct {
	SD    float64 // of the logs of values, between launches of one cell
	DF    int     // degrees of freedom that SD rests on
	Basis string  // in words: "14 launches of 5 cells"
}

// memoryDoubt is by how much memory may be too low.
const memoryDoubt = 3

// PoolNoise pools the spread within groups: each holds the values of the
// launches of one cell, with nothing changed between them. Groups with fewer than
// two usable values, and values that are not positive and finite, are left out. A
// wild launch makes the result too high, which is the safe side.
func PoolNoise(groups [][]float64) Noise {
	var ss float64
	var df, launches, cells int
	for _, group := range groups {
		logs := make([]float64, 0, len(group))
		for _, v := range group {
			if v > 0 && !math.IsInf(v, 1) {
				logs = append(logs, math.Log(v))
			}
		}
		if len(logs) < 2 {
			continue
		}
		ss += squares(logs)
		df += len(logs) - 1
		launches += len(logs)
		cells++
	}
	if df == 0 {
		return Noise{SD: math.NaN(), Basis: "no cell with two launches"}
	}
	of := "cells"
	if cells == 1 {
		of = "cell"
	}
	return Noise{SD: math.Sqrt(ss / float64(df)), DF: df, Basis: fmt.Sprintf("%d launches of %d %s", launches, cells, of)}
}

// Ordinary is how far apart two launches of one cell lie at most in 95 of 100
// cases, as a fraction.
func (n *Noise) Ordinary() float64 {
	if !n.usable() {
		return math.NaN()
	}
	return math.Expm1(critical(float64(n.DF), 1-Confidence) * n.SD * math.Sqrt2)
}

// MinEffect is, before anything is measured, the minimum detectable effect of a
// comparison of two cells over so many interleaved rounds, as a fraction, if the
// noise is what is remembered. What drifts from round to round is in the memory
// and drops out of the comparison, so the comparison will rather be finer. NaN
// below two rounds, where nothing is ever found.
func (n *Noise) MinEffect(rounds int) float64 {
	if !n.usable() || rounds < 2 {
		return math.NaN()
	}
	df := float64(rounds - 1)
	se := n.SD * math.Sqrt(2/float64(rounds))
	if rounds < minForT {
		return math.Expm1(n.recalled(se))
	}
	return math.Expm1(detectable(Quantile(df), df) * typical(df) * se)
}

func (n *Noise) usable() bool {
	return n != nil && n.DF >= 1 && n.SD > 0 && !math.IsInf(n.SD, 1)
}

// recall judges a comparison of two launches or rounds with the help of memory;
// where they gave the very same value, by memory alone.
func (c *Comparison) recall(diff float64, e spread, df float64, n *Noise) {
	const half = (1 - Confidence) / 2
	remembered := n.SD * math.Sqrt(1/float64(c.NA)+1/float64(c.NB))
	own, found := c.P, math.Inf(1)
	if e.shown {
		found = detectable(critical(df, half), e.df) * e.se
	} else {
		own = 1
	}
	c.P = math.Min(1, 2*math.Min(own, pValue(diff, memoryDoubt*remembered, float64(n.DF))))
	c.MinEffect = math.Expm1(math.Min(found, n.recalled(remembered)))
	c.Method += fmt.Sprintf(", or beyond %dx the remembered noise of %s between launches (%s)", memoryDoubt, percent(math.Expm1(n.SD)), n.Basis)
}

// recalled is the log of the effect that is found with Power against memory
// alone, for a standard error of the difference that memory gives.
func (n *Noise) recalled(se float64) float64 {
	return (memoryDoubt*critical(float64(n.DF), (1-Confidence)/2) + powerZ) * se
}

func percent(fraction float64) string { return fmt.Sprintf("%.1f %%", 100*fraction) }
