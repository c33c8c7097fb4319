package experiments

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"specrun/deploy/server"
	"specrun/experiments/record"
	"specrun/internal/tier"
)

// bestPlan has the best cell last (fakeCollect), with a profiler in its patches.
func (r *rig) bestPlan(edit func(*Spec)) *Plan {
	p := r.plan(func(s *Spec) {
		s.After, s.Repeats = AfterBest, 1
		if edit != nil {
			edit(s)
		}
	}, "steps=2")
	for i := range p.Cells {
		c := &p.Cells[i].Server
		c.Patches = slices.Clone(c.Patches)
		for j := range c.Patches {
			c.Patches[j].Probe, c.Patches[j].Env = "light", map[string]string{"EAGLE3_PROFILE": "1"}
			c.Env = maps.Clone(c.Env)
			c.Env["EAGLE3_PROFILE"] = "1"
		}
	}
	return p
}

// running are the launches whose server runs.
func (w *world) running() []*fakeServer {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*fakeServer
	for _, s := range w.servers {
		if s.phase == server.Running {
			out = append(out, s)
		}
	}
	return out
}

// leftBest checks that exactly the best cell's server is left, and how.
func (r *rig) leftBest(what string, sum *Summary) {
	r.t.Helper()
	running := r.w.running()
	if len(running) != 1 || running[0].stopped {
		r.t.Fatalf("%s: %d servers run", what, len(running))
	}
	l := running[0].launch
	if _, on := l.Env["EAGLE3_PROFILE"]; on || launchSteps(l) != "2" || len(r.w.patches) != 0 {
		r.t.Errorf("%s: the server has steps=%s, environment %v, patches %v", what, launchSteps(l), l.Env, r.w.patches)
	}
	if sum != nil && (len(sum.Left) != 1 || sum.Left[0].Launch != l.ID || sum.Left[0].Cell == nil || sum.Left[0].Cell.Ord != 1) {
		r.t.Errorf("%s: left %+v, it is launch %s", what, sum.Left, l.ID)
	}
	for name, by := range r.w.leases {
		if by != l.ID || !slices.Contains(r.w.left, name) {
			r.t.Errorf("%s: lease %s of %s is not left to the server", what, name, by)
		}
	}
	for _, l := range r.view().Launches {
		if l.State == record.LaunchActive || l.State == record.LaunchPlanned {
			r.t.Errorf("%s: launch %s is still %s", what, l.ID, l.State)
		}
	}
}

func TestAfterBest_LeavesTheServerWithoutItsProfiler(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sum, err, _ := r.execute(r.bestPlan(nil))
	if err != nil || sum.State != record.SweepDone || sum.Done != 2 {
		t.Fatalf("%+v, %v", sum, err)
	}
	r.leftBest("executed", sum)
	starts := r.w.starts
	// It was done: nothing is started once more, whatever became of the server.
	r.w.running()[0].phase = server.Exited
	if sum, err, _ = r.resume(ResumeOptions{}); err != nil || len(sum.Left) != 0 || r.w.starts != starts {
		t.Errorf("resumed: %+v, %v, %d starts more", sum, err, r.w.starts-starts)
	}
}

func TestAfterBest_AKillAtAnyBoundary(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	count := r.killAt(0)
	if _, err, _ := r.execute(r.bestPlan(nil)); err != nil {
		t.Fatal(err)
	}
	for n := *count; n > *count-30; n -= tier.Every(4) { // those of what comes after the launches
		r := newRig(t)
		r.killAt(n)
		if _, _, lived := r.execute(r.bestPlan(nil)); lived {
			t.Fatalf("boundary %d was not reached", n)
		}
		r.hook = nil
		sum, err, _ := r.resume(ResumeOptions{})
		if err != nil || sum.State != record.SweepDone || sum.Done != 2 {
			t.Fatalf("killed at boundary %d: %+v, %v", n, sum, err)
		}
		r.leftBest(fmt.Sprintf("killed at boundary %d", n), nil)
		if r.w.starts > 4 {
			t.Errorf("killed at boundary %d: %d starts", n, r.w.starts)
		}
	}
}

func TestAfterBest_AStartThatFailsLeavesTheSweepOpen(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.bestPlan(nil)
	r.w.ready = func(l server.Launch) error {
		if l.Env["EAGLE3_PROFILE"] == "" && launchSteps(l) == "2" {
			return &server.ExitedError{Host: "gpu-01", Code: 3}
		}
		return nil
	}
	_, err, _ := r.execute(p)
	var open *OpenError
	if !errors.As(err, &open) || !strings.Contains(err.Error(), "after: best") {
		t.Fatalf("%v", err)
	}
	r.settled(p)
	r.w.ready = nil
	sum, err, _ := r.resume(ResumeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.leftBest("resumed", sum)
}

// More to measure ends the server that was left: it would be in the way.
func TestAfterBest_RetryingWhatFailedStopsItFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.bestPlan(func(s *Spec) { s.Repeats = 2 })
	failing := ""
	r.w.bench = func(_ server.Launch, j BenchJob) string {
		if failing == "" {
			failing = j.Dir
		}
		if j.Dir == failing {
			return "fail"
		}
		return ""
	}
	sum, err, _ := r.execute(p)
	if err != nil || sum.Failed != 1 {
		t.Fatalf("%+v, %v", sum, err)
	}
	before := r.w.running()[0].launch.ID
	sum, err, _ = r.resume(ResumeOptions{RetryFailed: true})
	if err != nil || sum.Failed != 0 || sum.Done != 4 {
		t.Fatalf("%+v, %v", sum, err)
	}
	r.leftBest("retried", sum)
	if r.w.running()[0].launch.ID == before {
		t.Error("the server was not started anew")
	}
}

func TestWithoutProfilers_KeepsWhatOthersSet(t *testing.T) {
	t.Parallel()
	c := ServerConfig{Env: map[string]string{"A": "1", "B": "2", "C": "mine"}, Patches: []PatchRef{
		{Name: "measures", Probe: "sync", Env: map[string]string{"A": "1", "B": "2", "C": "theirs"}},
		{Name: "changes", Probe: "none", Env: map[string]string{"B": "2"}},
	}}
	got := withoutProfilers(c)
	if want := map[string]string{"B": "2", "C": "mine"}; !maps.Equal(got.Env, want) || len(got.Patches) != 1 || got.Patches[0].Name != "changes" {
		t.Errorf("%+v", got)
	}
	if len(c.Env) != 3 || len(c.Patches) != 2 {
		t.Errorf("the cell's own was changed: %+v", c)
	}
}
