package experiments

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"specrun/deploy/server"
	"specrun/experiments/record"
	"specrun/remote"
)

// Over a bad line a long step loses many connections that each worked for a
// while; one that is lost at once every time is given up.
func TestPatiently_GivesUpOnALineThatNeverWorks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lasts time.Duration
		ends  bool
	}{"lost at once": {time.Millisecond, false}, "lost now and then": {time.Minute, true}} {
		r := newRig(t)
		d := r.deps()
		now := time.Unix(1000, 0)
		d.Now = func() time.Time { return now }
		x, err := newExecution(d, r.plan(nil, "steps=2"), "s")
		if err != nil {
			t.Fatal(err)
		}
		calls := 0
		err = x.patiently(context.Background(), func() error {
			if calls++; calls == 20 {
				return nil
			}
			now = now.Add(c.lasts)
			return remote.ErrLost
		})
		if (err == nil) != c.ends || c.ends != (calls == 20) {
			t.Errorf("%s: %v after %d calls", name, err, calls)
		}
	}
}

// renewals counts goroutines that renew leases.
func renewals() int {
	buf := make([]byte, 1<<20)
	return strings.Count(string(buf[:runtime.Stack(buf, true)]), "experiments.every(")
}

// Not beside others, whose renewals are none of its own.
func TestExecute_NothingRenewsLeasesAfterTheEnd(t *testing.T) {
	before := renewals()
	for _, lose := range []bool{false, true} {
		r := newRig(t)
		r.hook = func(b Boundary, e record.Event) {
			if lose && b == AfterEvent && e.Step == stepStart && e.Kind == record.EventDone {
				r.w.mu.Lock()
				r.w.lost = 1 << 30
				r.w.mu.Unlock()
			}
		}
		_, err := Execute(context.Background(), r.deps(), r.plan(nil, "steps=2"), nil)
		if lose != (err != nil) {
			t.Errorf("lose %v: %v", lose, err)
		}
		_, err = r.startServer(context.Background(), r.singlePlan(nil))
		if lose != (err != nil) {
			t.Errorf("lose %v: %v", lose, err)
		}
		if n := renewals() - before; n != 0 {
			t.Errorf("lose %v: %d renewals go on", lose, n)
		}
	}
}

// The journal must tell who was in the way, not only that something was.
func TestExecute_AHeldLeaseIsNamedInTheJournal(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.hook = func(b Boundary, e record.Event) {
		if b == AfterEvent && e.Step == stepLaunch && e.Kind == record.EventIntent {
			r.w.leases["gpu-all"] = "by-hand" // the sweep has begun
		}
	}
	_, err := Execute(context.Background(), r.deps(), r.plan(func(s *Spec) { s.Server.GPUs = nil }, "steps=2"), nil)
	var held *server.HeldError
	if !errors.As(err, &held) {
		t.Fatal(err)
	}
	if !strings.Contains(err.Error(), "is left open") {
		t.Errorf("a launch was begun: %v", err)
	}
	for _, e := range r.view().Events {
		if e.Step == stepLaunch && e.Kind == record.EventDone && strings.Contains(string(e.Evidence), "gpu-all") {
			return
		}
	}
	t.Errorf("no event of the launch's end names the lease: %v", r.view().Events)
}

func TestExecute_SurvivesLostConnections(t *testing.T) {
	t.Parallel()
	p := newRig(t).plan(nil, "steps=2")
	for seed := range uint64(20) {
		r := newRig(t)
		rng := rand.New(rand.NewPCG(seed, 1))
		r.hook = func(b Boundary, e record.Event) {
			if b == AfterEvent && rng.IntN(4) == 0 {
				r.w.mu.Lock()
				r.w.lost = 1
				r.w.mu.Unlock()
			}
		}
		sum, err := Execute(context.Background(), r.deps(), p, nil)
		if err != nil || sum.Done != 2 {
			t.Fatalf("seed %d: %+v, %v", seed, sum, err)
		}
		r.settled(p)
	}
}

func TestExecute_AHostThatStaysAwayLeavesTheSweepToResume(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	gone := false
	r.hook = func(b Boundary, e record.Event) {
		if b == AfterEvent && e.Step == stepBench && e.Kind == record.EventIntent && !gone {
			gone = true
			r.w.mu.Lock()
			r.w.lost = 1 << 30
			r.w.mu.Unlock()
		}
	}
	p := r.plan(nil, "steps=2")
	sum, err := Execute(context.Background(), r.deps(), p, nil)
	var open *OpenError
	if !errors.As(err, &open) || !hostLost(err) || sum.State != record.SweepInterrupted {
		t.Fatalf("%+v, %v", sum, err)
	}
	if len(r.w.leftovers()) == 0 {
		t.Fatal("the server cannot have been stopped")
	}
	r.w.lost = 0
	starts := r.w.starts
	if sum, err = Resume(context.Background(), r.deps(), r.sweep, ResumeOptions{}); err != nil || sum.Done != 2 {
		t.Fatalf("%+v, %v", sum, err)
	}
	if r.w.starts != starts+1 {
		t.Errorf("%d starts after resume, want only the launch that was left", r.w.starts-starts)
	}
	r.settled(p)
}
