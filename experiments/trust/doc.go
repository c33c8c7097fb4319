// Package trust judges how far a run's numbers can be believed: it crosses what
// independent sources say about the same thing (checks) and names what limits a
// number (labels). Numbers are labelled, never dropped or corrected.
//
// It is pure: Assess reads plain values and returns plain values. Measuring,
// reading logs and asking hosts is done before; storing and printing after.
//
// A check passes, fails, or is not checkable, which is no failure: the data for
// it was not there. Each says in one line what it compared. A label's name and
// rule stand in one table, Labels, and nowhere else.
//
// What a profiler claims in its own words is held against the benchmark, and a
// gap is split into factors: another way of counting accepted tokens, another
// cycle, and, with a run without the patch beside it, the patch's own cost. See
// SplitGap and SplitGapAcross.
//
//	labels, checks := trust.Assess(trust.Input{Concurrency: 1, Steps: 2, Metrics: metrics, ...})
package trust
