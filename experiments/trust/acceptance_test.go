package trust

import (
	"strings"
	"testing"

	"specrun/experiments/record"
)

// What log and counters say of the drafts agrees, or it is said what is missing.
func TestCheckSums(t *testing.T) {
	for name, c := range map[string]struct {
		sums    *Sums
		steps   int
		outcome record.Outcome
		text    string
	}{
		"agree":       {&Sums{3, 1000, 600, 1008, 604}, 3, record.Pass, "log 1000, counters 1008"},
		"tail":        {&Sums{3, 800, 500, 1000, 600}, 3, record.NotCheckable, "lacks a tail of 200 drafted tokens"},
		"head":        {&Sums{3, 1016, 600, 1000, 600}, 3, record.NotCheckable, "16 drafted tokens"},
		"accepted":    {&Sums{3, 1000, 500, 1000, 600}, 3, record.NotCheckable, "accepted: log 500, counters 600"},
		"no line":     {&Sums{0, 0, 0, 1000, 600}, 3, record.NotCheckable, "all 1000 drafted tokens"},
		"nothing":     {nil, 3, record.NotCheckable, "not both"},
		"baseline":    {nil, 0, record.NotCheckable, speculating},
		"none at all": {&Sums{2, 0, 0, 0, 0}, 3, record.Pass, "log 0, counters 0"},
	} {
		got := checkSums(Input{Steps: c.steps, Sums: c.sums})
		if got.Outcome != c.outcome || !strings.Contains(got.Explanation, c.text) || got.Name != CheckSums {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
