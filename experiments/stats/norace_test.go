//go:build !race

package stats

const simulated, seeds = 5000, 5 // comparisons a seed, and seeds
