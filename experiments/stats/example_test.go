package stats_test

import (
	"fmt"

	"specrun/experiments/stats"
)

// Three rounds in which the machine was 20 % faster and slower: round by round
// the first cell is 2 % ahead.
func ExampleCompare() {
	a := []stats.Launch{{Round: 0, Value: 102.04}, {Round: 1, Value: 122.63}, {Round: 2, Value: 81.71}}
	b := []stats.Launch{{Round: 0, Value: 100.02}, {Round: 1, Value: 120.01}, {Round: 2, Value: 80.03}}
	for _, interleaved := range []bool{true, false} {
		c := stats.Compare(a, b, interleaved)
		fmt.Printf("%.3f, separable %v, least effect %.1f %%\n", c.Ratio, *c.Separable, 100*c.MinEffect)
	}
	// Output:
	// 1.020, separable true, least effect 0.3 %
	// 1.020, separable false, least effect 97.6 %
}
