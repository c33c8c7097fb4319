// Package stats turns the values of launches into medians, intervals and
// comparisons, and says what they are worth. It is pure: values in, numbers out.
//
// The words matter here. Noise has levels: runs of one launch agree far better
// with each other than launches do (on a real server 1 % within a launch, 9 %
// between), so n counts launches. Medians reduces each launch to one value first,
// and Split says at which level the noise of a cell arises. One launch says
// nothing about the noise between launches, and nothing is ever separable then.
//
//	n       interval                                    comparison
//	1       none                                        unknown: Separable is nil, TooFew says why
//	2       none                                        t on logs, only a large effect shows; Noise helps
//	3-5     t on logs of the values ("t-log")           t on logs
//	6 up    t-log, and the rank-based one beside it     t on logs, and a test on ranks beside it
//
// A ratio is of the medians, as cells are shown and ranked by; whether it is more
// than noise is judged by means. These are of logarithms, because effects are ratios. Two cells whose
// rounds were interleaved are compared round by round, which takes out what
// drifts from round to round; others by Welch's test. Each comparison has a P
// value and its minimum detectable effect, the true effect that it finds Power of
// the time: without that, "not separable" can't be told from "not measured well
// enough". A test under go test simulates 25 000 comparisons for each kind of
// noise and checks the rate of false findings, the power, and the effects printed.
//
// What surrounds a comparison: Holm adjusts the P of many cells asked at once;
// Outliers names wild launches, which stay in (one makes the comparison blind, by
// widening its noise, and never makes it find what is not there); Noise is what a
// host's earlier launches teach; DriftBands tells whether and where the
// baseline moved over the rounds, and Normalize divides that out.
//
// The mathematics comes from x/perf/benchmath and the distributions behind it.
package stats
