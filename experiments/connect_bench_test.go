package experiments

import (
	"testing"

	"specrun/experiments/bench"
)

// Only the measured load ends with its last answer: a warm-up sends another
// round, and a program that has ended is told by its state.
func TestEnding(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		p    bench.Progress
		want bool
	}{
		"begins":        {bench.Progress{State: bench.StateRunning, Phase: bench.PhaseMeasure}, false},
		"in the middle": {bench.Progress{State: bench.StateRunning, Phase: bench.PhaseMeasure, Total: 8, Done: 7}, false},
		"all answered":  {bench.Progress{State: bench.StateRunning, Phase: bench.PhaseMeasure, Total: 8, Done: 8}, true},
		"warmed up":     {bench.Progress{State: bench.StateRunning, Phase: bench.PhaseWarm, Total: 8, Done: 8}, false},
		"done":          {bench.Progress{State: bench.StateDone, Phase: bench.PhaseMeasure, Total: 8, Done: 8}, false},
		"dead":          {bench.Progress{State: bench.StateDead, Phase: bench.PhaseMeasure, Total: 8, Done: 8}, false},
	} {
		if got := ending(c.p); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
