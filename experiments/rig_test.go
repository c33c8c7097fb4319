package experiments

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"specrun/experiments/record"
	"specrun/experiments/recordertest"
)

// rig is a controller's surroundings; mem and w outlive a controller.
type rig struct {
	t     *testing.T
	w     *world
	mem   *recordertest.Memory
	ids   int
	life  int // how many controllers there were
	hook  func(Boundary, record.Event)
	seen  []Progress
	sweep string
}

func newRig(t *testing.T) *rig {
	return &rig{t: t, w: newWorld(), mem: &recordertest.Memory{}}
}

func (r *rig) deps() Deps {
	r.life++
	return Deps{Recorder: r.mem, Hosts: r.w.dial, Engines: func(string) (Engine, error) { return fakeEngine{}, nil }, Collect: fakeCollect,
		Now: time.Now, IDs: func() string { r.ids++; return fmt.Sprintf("id%d", r.ids) },
		Getenv:     func(name string) (string, bool) { return "hunter2", name == "HF_TOKEN" },
		Controller: fmt.Sprintf("controller-%d", r.life), Version: "test",
		ControllerGone: func(string) bool { return true },
		OnEvent:        func(p Progress) { r.seen = append(r.seen, p); r.sweep = p.SweepID },
		Hook: func(b Boundary, e record.Event) {
			if r.hook != nil {
				r.hook(b, e)
			}
		},
		Poll: time.Millisecond, UndoTimeout: 5 * time.Second, Reconnect: time.Second}
}

func fakeCollect(w Window) (record.RunData, error) {
	if w.Checked.Model == "" || !w.Alive {
		return record.RunData{}, errors.New("collected without knowing the server")
	}
	if warmed := w.Warmup != nil && w.Warmup.Sent == w.Cell.Bench.Warmup.Requests(w.Cell.Bench.Concurrency); warmed != (w.Cell.Bench.Warmup != 0) {
		return record.RunData{}, fmt.Errorf("collected with the warm-up %+v of a plan with %v", w.Warmup, w.Cell.Bench.Warmup)
	}
	return record.RunData{Metrics: []record.Metric{{Name: "output_throughput", Unit: "tok/s", Value: float64(100 + w.Cell.Ord), Source: "client"}},
		Samples: []record.Sample{{Name: "log", Labels: map[string]string{"text": string(w.Log)}}}}, nil
}

func (r *rig) plan(edit func(*Spec), args ...string) *Plan {
	r.t.Helper()
	s := loadExample(r.t)
	s.Rounds = 1
	if edit != nil {
		edit(s)
	}
	return plan(r.t, s, args...)
}

func (r *rig) view() record.SweepView {
	r.t.Helper()
	v, err := r.mem.View(context.Background(), r.sweep)
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

// settled checks that each slot has exactly one result and that nothing of ours
// is left; it returns the results by slot.
func (r *rig) settled(p *Plan) map[string]record.Run {
	r.t.Helper()
	return r.settledRuns(p.Runs())
}

func (r *rig) settledRuns(want int) map[string]record.Run {
	r.t.Helper()
	v := r.view()
	results := map[string]record.Run{}
	for _, run := range v.Runs {
		switch run.State {
		case record.RunDone, record.RunFailed:
			if _, twice := results[run.SlotID]; twice {
				r.t.Errorf("slot %s has two results", run.SlotID)
			}
			results[run.SlotID] = run
		case record.RunActive:
			r.t.Errorf("run %s is still active", run.ID)
		}
	}
	if len(results) != want {
		r.t.Errorf("%d results for %d runs", len(results), want)
	}
	for _, l := range v.Launches {
		if l.State == record.LaunchActive || l.State == record.LaunchPlanned {
			r.t.Errorf("launch %s is still %s", l.ID, l.State)
		}
	}
	if left := r.w.leftovers(); len(left) > 0 {
		r.t.Errorf("left on the host: %v", left)
	}
	if len(r.w.disturbs) > 0 {
		r.t.Errorf("a measurement was disturbed: %v", r.w.disturbs)
	}
	return results
}
