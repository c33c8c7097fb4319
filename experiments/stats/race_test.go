//go:build race

package stats

// The race detector makes arithmetic ten times slower and finds nothing in it.
const simulated, seeds = 300, 2
