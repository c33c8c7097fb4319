package stats

import (
	"math"
	"testing"
)

// Time per token that rises with the context: what lies between two kept positions
// must not look slower than it was.
func TestCurve_FollowsARisingCost(t *testing.T) {
	elapsed := func(k int) float64 { return 10*float64(k) + 0.005*float64(k*k) }
	c := curve{ended: true}
	for _, k := range []int{32, 64, 96, 128, 150} {
		c.points = append(c.points, point{k, elapsed(k)})
	}
	for k := range 151 {
		if got, want := c.at(k), elapsed(k); math.Abs(got-want) > 0.0005*want+1e-9 {
			t.Errorf("after %d tokens: %v ms, want %v", k, got, want)
		}
	}
	if got := c.at(200); got != elapsed(150) {
		t.Errorf("beyond its end: %v", got)
	}
	short := curve{points: []point{{40, 400}}, ended: true}
	if got := short.at(10); got != 100 {
		t.Errorf("of one position: %v, want 100", got)
	}
}

// A stall stays between the positions that it happened between, and time never
// goes back.
func TestCurve_AStallDoesNotBendItsNeighbours(t *testing.T) {
	c := curve{points: []point{{32, 320}, {64, 640}, {96, 1960}, {128, 2280}, {160, 2600}}, ended: true}
	before := -1.0
	for k := range 161 {
		got := c.at(k)
		if got < before {
			t.Fatalf("after %d tokens %v ms, before that %v", k, got, before)
		}
		before = got
		if straight := 10 * float64(k); k <= 64 && math.Abs(got-straight) > 1e-9 {
			t.Errorf("before the stall, after %d tokens: %v ms, want %v", k, got, straight)
		}
	}
	// Two positions at one time, as a burst may give.
	burst := curve{points: []point{{32, 320}, {64, 320}, {96, 640}}, ended: true}
	if got := burst.at(48); got != 320 {
		t.Errorf("within a burst: %v", got)
	}
}
