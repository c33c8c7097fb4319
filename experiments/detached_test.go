package experiments

import (
	"context"
	"testing"
)

// bench.where: controller is another place in a sweep that goes on by itself: what
// explains a number has to say so, for cells of both have one key.
func TestExecute_ADetachedControllerIsTheHost(t *testing.T) {
	t.Parallel()
	for detached, want := range map[bool]string{false: "controller", true: "controller, which is the host"} {
		r := newRig(t)
		p := r.plan(nil, "steps=1", "bench.where=controller")
		deps := r.deps()
		deps.Detached = detached
		sum, err := Execute(context.Background(), deps, p, nil)
		if err != nil {
			t.Fatal(err)
		}
		view, err := r.mem.View(context.Background(), sum.SweepID)
		if err != nil || len(view.Runs) == 0 {
			t.Fatalf("%d runs, %v", len(view.Runs), err)
		}
		for _, run := range view.Runs {
			got := ""
			for _, f := range view.Data[run.ID].Provenance {
				if f.Group == "workload" && f.Key == "where" {
					got = f.Value
				}
			}
			if got != want {
				t.Errorf("detached %v: measured from %q, want %q", detached, got, want)
			}
		}
	}
}
