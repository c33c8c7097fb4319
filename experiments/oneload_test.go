package experiments

import (
	"errors"
	"strings"
	"testing"
)

// The best of all loads would be that of the largest, whatever server it has.
func TestNewPlan_TheBestOfSeveralLoadsIsRefused(t *testing.T) {
	t.Parallel()
	best := func(s *Spec) { s.After = AfterBest }
	for name, c := range map[string]struct {
		edit  func(*Spec)
		args  []string
		field string // that is wrong; "" for none
		loads string
	}{
		"after best":                       {best, []string{"steps=1..2", "bench.concurrency=1,32"}, "after: ", "the cells have 2: concurrency=1, concurrency=32"},
		"two settings of the work":         {best, []string{"steps=1..2", "bench.concurrency+bench.requests=1+16,32+128"}, "after: ", "concurrency=1 requests=16, concurrency=32 requests=128"},
		"quotable":                         {quotable, []string{"steps=1..2", "bench.concurrency=1,32"}, "bench.quotable: ", "concurrency=1, concurrency=32"},
		"the baseline is a server as well": {best, []string{"steps=2", "bench.concurrency=1,32"}, "after: ", "concurrency=32"},
		"one load":                         {best, []string{"steps=1..2", "bench.concurrency=32"}, "", ""},
		"one server":                       {func(s *Spec) { s.Baseline = nil; best(s) }, []string{"steps=2", "bench.concurrency=1,32"}, "", ""},
		"one but for its profiler":         {func(s *Spec) { s.Baseline = nil; best(s) }, []string{"patches=none,profiling-v4", "steps=2", "bench.concurrency=1,32"}, "", ""},
		"what is not the work":             {best, []string{"steps=1..2", "bench.stall=1m,2m"}, "", ""},
		"nothing that takes the best":      {func(*Spec) {}, []string{"steps=1..2", "bench.concurrency=1,32"}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := loadExample(t)
			c.edit(s)
			_, err := NewPlan(resolve(t, s, c.args...))
			var spec *SpecError
			switch {
			case c.field == "" && err == nil:
			case c.field == "" || !errors.As(err, &spec):
				t.Errorf("got %v", err)
			case !strings.Contains(err.Error(), c.field) || !strings.Contains(err.Error(), c.loads) || !strings.HasPrefix(spec.Hint(), "sweep one load at a time"):
				t.Errorf("got %v, hint %q", err, spec.Hint())
			}
		})
	}
}
