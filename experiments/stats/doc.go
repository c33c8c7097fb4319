// Package stats turns the values of launches into medians, intervals and
// comparisons. It is pure: values in, numbers out.
//
// The words matter here. Readings of one launch agree far better with each
// other than launches do (on a real server 1 % within a launch, 9 % between),
// so n counts launches: first reduce a launch to one value, its median, then
// come here. One launch says nothing about the noise between launches, and
// nothing is ever separable then.
//
//	n       interval                                    comparison
//	1       none                                        unknown: Separable is nil
//	2       none                                        t on logs, only a large effect shows
//	3-5     t on logs of the values ("t-log")           t on logs
//	6 up    t-log, and the rank-based one beside it     t on logs, and Mann-Whitney beside it
//
// Comparisons are on logarithms, because effects are ratios. Two cells whose
// rounds were interleaved are compared round by round, which takes out what
// drifts from round to round. The mathematics comes from x/perf/benchmath and
// the Student distribution behind it.
package stats
