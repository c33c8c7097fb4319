package experiments

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"specrun/deploy/server"
	"specrun/experiments/record"
)

func (r *rig) startServer(ctx context.Context, p *Plan) (*StartedServer, error) {
	d := r.deps()
	d.Recorder = nil // nothing is recorded
	return StartServer(ctx, d, p)
}

func (r *rig) singlePlan(edit func(*Spec)) *Plan {
	r.t.Helper()
	return r.plan(func(s *Spec) {
		s.Baseline = nil
		if edit != nil {
			edit(s)
		}
	}, "steps=2")
}

func TestStartServer_LeavesAReadyServerWithItsPatchesAndLeases(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, err := r.startServer(context.Background(), r.singlePlan(nil))
	if err != nil {
		t.Fatal(err)
	}
	on := r.w.servers[s.Launch]
	if on == nil || on.phase != server.Running || on.identity != s.Identity || launchSteps(on.launch) != "2" || s.Port != on.launch.Port || s.Ready.BaseURL == "" {
		t.Errorf("%+v", s)
	}
	if len(r.w.patches) != 1 || len(r.w.benches) != 0 {
		t.Errorf("patches %v, benchmarks %v", r.w.patches, r.w.benches)
	}
	left := r.w.leftovers()
	if len(left) != 2+len(s.Cell.Server.GPUs) || !slices.Contains(left, "server "+s.Launch) || !slices.Contains(left, "lease "+server.PortLease(s.Port)+" of "+s.Launch) {
		t.Errorf("left on the host: %v", left)
	}
	if len(r.w.left) != len(left)-1 {
		t.Errorf("nobody renews %v, but somebody the others of %v", r.w.left, left)
	}
	var about launchAbout
	if err := json.Unmarshal([]byte(on.launch.About), &about); err != nil {
		t.Fatal(err)
	}
	if about.Sweep != "" || about.Experiment == "" || typedParams(about.Params)["steps"] != int64(2) || len(about.Patches) != 1 {
		t.Errorf("%+v", about)
	}
	if strings.Contains(on.launch.About, "hunter2") {
		t.Error("a secret is kept in plain text")
	}
	// The GPUs are taken: a second one is refused and changes nothing.
	var held *server.HeldError
	if _, err := r.startServer(context.Background(), r.singlePlan(nil)); !errors.As(err, &held) {
		t.Errorf("a second server: %v", err)
	}
	if now := r.w.leftovers(); !slices.Equal(left, now) {
		t.Errorf("the second start left %v", now)
	}
}

func TestStartServer_OneThatFailsLeavesTheHostAsItWas(t *testing.T) {
	t.Parallel()
	crash := &server.CrashError{Host: "gpu-01", Crash: server.Crash{Kind: "cuda_oom", Evidence: "out of memory"}}
	for _, after := range []After{AfterRestore, AfterKeep} {
		r := newRig(t)
		before := []PatchRef{{Name: "theirs", SHA256: "x"}}
		r.w.patches = before
		r.w.ready = func(server.Launch) error { return crash }
		_, err := r.startServer(context.Background(), r.singlePlan(func(s *Spec) { s.After = after }))
		var got *server.CrashError
		if !errors.As(err, &got) || got != crash {
			t.Errorf("err = %v", err)
		}
		if left := r.w.leftovers(); len(left) > 0 || !samePatches(r.w.patches, before) {
			t.Errorf("after: %s: left %v, patches %v", after, left, r.w.patches)
		}
	}
}

func TestStartServer_AnInterruptUndoes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx, cancel := context.WithCancel(context.Background())
	r.hook = func(b Boundary, e record.Event) {
		if b == AfterEvent && e.Step == stepStart && e.Kind == record.EventDone {
			cancel()
		}
	}
	_, err := r.startServer(ctx, r.singlePlan(nil))
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "is undone") {
		t.Errorf("err = %v", err)
	}
	if left := r.w.leftovers(); len(left) > 0 || len(r.w.patches) > 0 || r.w.starts != 1 {
		t.Errorf("%d starts, left %v, patches %v", r.w.starts, left, r.w.patches)
	}
}

func TestStartServer_TriesAnotherPortOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	taken := 1
	r.w.ready = func(server.Launch) error {
		if taken--; taken < 0 {
			return nil
		}
		return &server.CrashError{Host: "gpu-01", Crash: server.Crash{Kind: "port_in_use"}}
	}
	s, err := r.startServer(context.Background(), r.singlePlan(nil))
	if err != nil || r.w.starts != 2 {
		t.Fatalf("%v, %d starts", err, r.w.starts)
	}
	for _, left := range r.w.leftovers() {
		if !strings.HasSuffix(left, " "+s.Launch) {
			t.Errorf("left by the first try: %s", left)
		}
	}
	r = newRig(t)
	r.w.ready = func(server.Launch) error {
		return &server.CrashError{Host: "gpu-01", Crash: server.Crash{Kind: "port_in_use"}}
	}
	if _, err := r.startServer(context.Background(), r.singlePlan(nil)); err == nil || r.w.starts != 2 || len(r.w.leftovers()) != 0 {
		t.Errorf("%v, %d starts, left %v", err, r.w.starts, r.w.leftovers())
	}
}

func TestStartServer_AHostThatIsLostIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.hook = func(b Boundary, e record.Event) {
		if b == AfterEvent && e.Step == stepStart && e.Kind == record.EventDone {
			r.w.mu.Lock()
			r.w.lost = 1 << 30
			r.w.mu.Unlock()
		}
	}
	_, err := r.startServer(context.Background(), r.singlePlan(nil))
	if !hostLost(err) || !strings.Contains(err.Error(), "launch id2 is left as it is") {
		t.Errorf("err = %v", err)
	}
}

// Between two launches of a sweep nobody has the GPUs, but the patches are its.
func TestStartServer_DuringASweepIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	other := newRig(t)
	other.w, other.ids = r.w, 100
	var refused error
	r.hook = func(b Boundary, e record.Event) {
		if b == BeforeEvent && e.Step == stepLaunch && e.Kind == record.EventIntent && e.LaunchID != "id2" && refused == nil {
			_, refused = other.startServer(context.Background(), other.singlePlan(nil))
		}
	}
	p := r.plan(nil, "steps=1..2")
	sum, err := Execute(context.Background(), r.deps(), p, nil)
	if err != nil || sum.Done != 3 || r.w.starts != 3 {
		t.Fatalf("%+v, %v, %d starts", sum, err, r.w.starts)
	}
	var held *server.HeldError
	if !errors.As(refused, &held) || held.Lease.Owner.Launch != r.sweep {
		t.Errorf("the server: %v", refused)
	}
	r.settled(p)
}
