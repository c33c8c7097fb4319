//go:build integration || soak

package main

import (
	"testing"
)

// TestAcceptance runs a really built specrun as its users do, each part with a
// home, a folder and a practice host of its own.
func TestAcceptance(t *testing.T) {
	bin := buildSpecrun(t)
	for _, part := range []struct {
		name string
		test func(*testing.T, string)
	}{
		{"sweep finds the best cell of the model", testSweepFindsTheBest},
		{"bad input changes nothing", testBadInput},
		{"failing cells are results", testFailingCells},
		{"flags reach the server unchanged", testFlagsReachTheServer},
		{"two at once", testTwoAtOnce},
		{"side by side", testSideBySide},
		{"interrupt", testInterrupt},
		{"parse", testParse},
		{"kill while the best cell is repeated", testKilledQuotable},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, bin) })
	}
	t.Run("kill at random moments", func(t *testing.T) { testKills(t, bin, 3) })
}
