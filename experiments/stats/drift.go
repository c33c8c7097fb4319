package stats

import (
	"fmt"
	"math"
	"slices"
)

// minForDrift rounds show both a move and the noise around it.
const minForDrift = 4

// drift asks whether a cell, usually the baseline, moved over the rounds, which
// means that the host and not the cell has changed. noise is what is remembered of
// the host, nil nothing. The result is later rounds over earlier ones; NA and NB
// count them.
//
// From 4 rounds on it asks, by Student's t on logs, for a trend and for a step
// between the halves of the rounds; from 6 on also for a step after the first and
// before the last third. The clearest answer counts, its P multiplied by the
// number of questions, so that a host that stands still is called drifting in at
// most 1 of 20 sweeps. A step finds what is sudden and a trend what creeps; with
// four rounds neither finds the other's. Several launches of a round count as
// their geometric mean.
//
// With 2 or 3 rounds the noise beside a move is unknown, and only with memory is
// there a verdict: whether the last round differs from the first by more than
// three times what is ordinary between launches.
func drift(ls []Launch, noise *Noise) Comparison {
	c := nothing()
	s, ok := seriesOf(ls)
	n := len(s.logs)
	switch {
	case !ok:
		c.TooFew = "a value is not positive and finite"
	case n >= minForDrift:
		s.judge(&c)
	case n < 2 || !noise.usable():
		c.TooFew = fmt.Sprintf("%d rounds; drift shows from %d on", n, minForDrift)
	default:
		diff, se := s.logs[n-1]-s.logs[0], noise.SD*math.Sqrt2
		c.NA, c.NB, c.Ratio = 1, 1, math.Exp(diff)
		c.P = pValue(diff, memoryDoubt*se, float64(noise.DF))
		separable := c.P < 1-Confidence
		c.Separable = &separable
		c.MinEffect = math.Expm1((memoryDoubt*critical(float64(noise.DF), 1-Confidence) + powerZ) * se)
		c.Method = fmt.Sprintf("last against first of %d rounds, beyond %dx the remembered noise of %s between launches (%s)", n, memoryDoubt, percent(math.Expm1(noise.SD)), noise.Basis)
	}
	return c
}

// series is one log for each round, in order.
type series struct {
	rounds []float64
	logs   []float64
}

func seriesOf(ls []Launch) (series, bool) {
	var s series
	if _, ok := logarithms(values(ls)); !ok {
		return s, false
	}
	for rest := sortedByRound(ls); len(rest) > 0; {
		s.rounds = append(s.rounds, float64(rest[0].Round))
		var mean float64
		mean, rest = roundMean(rest)
		s.logs = append(s.logs, mean)
	}
	return s, true
}

func (s series) slice(from, to int) series { return series{s.rounds[from:to], s.logs[from:to]} }

// line fits a straight line: its slope in logs a round, the standard error of
// that, and what remains.
func (s series) line() (slope, se, rest float64) {
	n := float64(len(s.logs))
	middle, _ := moments(s.rounds)
	mean, _ := moments(s.logs)
	var xy float64
	for i, x := range s.rounds {
		xy += (x - middle) * (s.logs[i] - mean)
	}
	xx := squares(s.rounds)
	slope = xy / xx
	for i, x := range s.rounds {
		e := s.logs[i] - mean - slope*(x-middle)
		rest += e * e
	}
	return slope, math.Sqrt(rest / (n - 2) / xx), rest
}

// step is how far the rounds from k on lie from those before, its standard error
// with one noise for both, and what remains.
func (s series) step(k int) (diff, se, rest float64) {
	before, _ := moments(s.logs[:k])
	after, _ := moments(s.logs[k:])
	rest = squares(s.logs[:k]) + squares(s.logs[k:])
	n := float64(len(s.logs))
	return after - before, math.Sqrt(rest / (n - 2) * (1/float64(k) + 1/(n-float64(k)))), rest
}

// minForThirds rounds also have thirds that show noise.
const minForThirds = 6

func (s series) judge(c *Comparison) {
	n := len(s.logs)
	df := float64(n - 2)
	splits := []int{n / 2}
	if n >= minForThirds {
		splits = append(splits, n/3, n-n/3)
	}
	questions := float64(len(splits) + 1)
	t := critical(df, (1-Confidence)/questions)
	p, diff, se := math.Inf(1), 0.0, 0.0
	for _, k := range splits {
		by, byError, _ := s.step(k)
		if step := pValue(by, byError, df); step < p {
			p, diff, se = step, by, byError
			c.NA, c.NB = n-k, k
		}
		if k == n/2 {
			c.MinEffect = math.Expm1(detectable(t, df) * byError)
		}
	}
	c.Method = fmt.Sprintf("t on logs for a step after %d of %d rounds", c.NB, n)
	slope, slopeError, _ := s.line()
	if trend := pValue(slope, slopeError, df); trend < p {
		c.NA, c.NB = n-n/2, n/2
		early, _ := moments(s.rounds[:c.NB])
		late, _ := moments(s.rounds[c.NB:])
		p, diff, se = trend, slope*(late-early), slopeError*(late-early)
		c.Method = fmt.Sprintf("t on logs for a trend over %d rounds", n)
	}
	c.P = math.Min(1, questions*p)
	separable := c.P < 1-Confidence
	c.Ratio, c.Separable = math.Exp(diff), &separable
	c.Lo, c.Hi = math.Exp(diff-t*se), math.Exp(diff+t*se)
}

// Band is a stretch of rounds over which the baseline moved: what was measured in
// the rounds From to To lies between baselines that differ.
type Band struct {
	From, To int
	Ratio    float64 // baseline after over before
	P        float64 // of the drift that the band is part of
}

// DriftBands says in which rounds the baseline moved, in order; none when it did
// not drift. A step gives the two rounds on either side of it, since launches
// between two baselines may have seen either; what looks rather like a trend
// gives all the rounds. Each side of a step is asked again if it has 4 rounds.
func DriftBands(base []Launch, noise *Noise) []Band {
	s, ok := seriesOf(base)
	if !ok {
		return nil
	}
	return s.bands(drift(base, noise))
}

func (s series) bands(d Comparison) []Band {
	if d.Separable == nil || !*d.Separable {
		return nil
	}
	n := len(s.logs)
	from, to := int(s.rounds[0]), int(s.rounds[n-1])
	if n < minForDrift {
		return []Band{{from, to, d.Ratio, d.P}}
	}
	best, least, by := 0, math.Inf(1), 0.0
	for k := 1; k < n; k++ {
		if diff, _, rest := s.step(k); rest < least {
			best, least, by = k, rest, diff
		}
	}
	slope, _, rest := s.line()
	if rest <= least {
		return []Band{{from, to, math.Exp(slope * float64(to-from)), d.P}}
	}
	before, after := s.slice(0, best), s.slice(best, n)
	return slices.Concat(
		before.bandsWithin(),
		[]Band{{int(s.rounds[best-1]), int(s.rounds[best]), math.Exp(by), d.P}},
		after.bandsWithin())
}

func (s series) bandsWithin() []Band {
	if len(s.logs) < minForDrift {
		return nil
	}
	var d Comparison
	s.judge(&d)
	return s.bands(d)
}

// Normalize gives a cell's values as if the baseline had stood still: each is
// divided by the baseline of its round and multiplied by the baseline's median, so
// that the baseline's own median stays what it is. Rounds without a baseline are left out and named.
// This adds the noise of one baseline launch to every value, so it helps only
// where the baseline drifts by more than that. False when a baseline value is not
// positive and finite, or there is none.
func Normalize(cell, base []Launch) (normalized []Launch, missing []int, ok bool) {
	s, ok := seriesOf(base)
	if !ok || len(base) == 0 {
		return nil, nil, false
	}
	middle := math.Log(Median(values(base)))
	for _, l := range cell {
		i, found := slices.BinarySearch(s.rounds, float64(l.Round))
		switch {
		case found:
			normalized = append(normalized, Launch{l.Round, l.Value * math.Exp(middle-s.logs[i])})
		case !slices.Contains(missing, l.Round):
			missing = append(missing, l.Round)
		}
	}
	return normalized, missing, true
}
