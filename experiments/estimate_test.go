package experiments

import (
	"strings"
	"testing"
	"time"
)

func TestNewPlan_EstimatesFromWhatWasMeasured(t *testing.T) {
	t.Parallel()
	s := loadExample(t)
	s.Rounds, s.Repeats = 2, 3
	for _, c := range []struct {
		timing  Timing
		seconds int64
		basis   string
		guess   bool
	}{
		{Timing{Launch: 90 * time.Second, Run: 10500 * time.Millisecond}, 4*90 + 12*10 + 6, "earlier sweeps", false},
		{Timing{Launch: 90 * time.Second, Run: 10500 * time.Millisecond, Basis: "usual here"}, 4*90 + 12*10 + 6, "usual here", false},
		{Timing{Launch: 90 * time.Second}, -1, "guess", true}, // no run has ended yet
		{Timing{}, -1, "guess", true},
	} {
		e := resolve(t, s, "steps=2")
		e.timing = c.timing
		p, err := NewPlan(e)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Launches) != 4 || p.Runs() != 12 {
			t.Fatalf("%d launches, %d runs", len(p.Launches), p.Runs())
		}
		if c.seconds >= 0 && p.Estimate.Seconds != c.seconds || p.Estimate.Seconds == 0 || p.Estimate.Basis != c.basis || strings.Contains(p.Summary(), "guess") != c.guess {
			t.Errorf("%+v: %+v, %s", c.timing, p.Estimate, p.Summary())
		}
	}
}
