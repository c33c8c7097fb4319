//go:build integration || soak

package main

import (
	"testing"
)

// TestAcceptance runs a really built specrun as its users do, each part with a
// home, a folder and a practice host of its own: they mostly wait, so they run
// side by side.
func TestAcceptance(t *testing.T) {
	t.Parallel()
	bin := buildSpecrun(t)
	for _, part := range []struct {
		name string
		test func(*testing.T, string)
	}{
		{"kill at random moments", func(t *testing.T, bin string) { testKills(t, bin, 3) }},
		{"sweep finds the best cell of the model", testSweepFindsTheBest},
		{"sweep finds another one of other settings", testSweepFindsAnother},
		{"kill while the best cell is repeated", testKilledQuotable},
		{"failing cells are results", testFailingCells},
		{"side by side", testSideBySide},
		{"two at once", testTwoAtOnce},
		{"interrupt", testInterrupt},
		{"bad input changes nothing", testBadInput},
		{"flags reach the server unchanged", testFlagsReachTheServer},
		{"parse", testParse},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			part.test(t, bin)
		})
	}
}
