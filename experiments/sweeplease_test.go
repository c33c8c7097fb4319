package experiments

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"specrun/deploy/server"
	"specrun/experiments/record"
)

// Another sweep between two launches would take this one's patches for its own
// finding, so it is refused before it touches anything.
func TestExecute_ASecondSweepIsRefusedAndCanBeResumed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.plan(nil, "steps=1..2")
	other := newRig(t)
	other.w, other.ids = r.w, 100
	var second *Summary
	var refused error
	r.hook = func(b Boundary, e record.Event) {
		if b == BeforeEvent && e.Step == stepLaunch && e.Kind == record.EventIntent && e.LaunchID != "id2" && second == nil {
			second, refused = Execute(context.Background(), other.deps(), p, nil) // between two launches
		}
	}
	sum, err := Execute(context.Background(), r.deps(), p, nil)
	if err != nil || sum.Done != 3 || sum.Failed != 0 {
		t.Fatalf("the first sweep: %+v, %v", sum, err)
	}
	var held *server.HeldError
	if !errors.As(refused, &held) || held.Lease.Owner.Launch != r.sweep || second == nil || second.Failed != 0 || second.Launches != 0 {
		t.Fatalf("the second sweep: %+v, %v", second, refused)
	}
	if open := new(OpenError); !errors.As(refused, &open) || !strings.Contains(refused.Error(), "was not begun") || !strings.HasSuffix(open.Hint(), "specrun resume "+second.SweepID+" begins it") {
		t.Errorf("nothing is left open: %v", refused)
	}
	v, err := other.deps().Recorder.View(context.Background(), second.SweepID)
	if err != nil || v.Sweep.State != record.SweepInterrupted || v.Sweep.EndedUs == 0 || len(v.Launches) != 0 {
		t.Errorf("stored of the second sweep: %+v, %v", v.Sweep, err)
	}
	sum, err = Resume(context.Background(), other.deps(), second.SweepID, ResumeOptions{})
	if err != nil || sum.Done != 3 {
		t.Fatalf("the second sweep later: %+v, %v", sum, err)
	}
	if left := r.w.leftovers(); len(left) > 0 || len(r.w.patches) > 0 {
		t.Errorf("left: %v %v", left, r.w.patches)
	}
}

// A server started by hand has the GPUs: that says nothing about the cells.
func TestExecute_HeldGPUsEndTheSweepWithoutAResult(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.plan(func(s *Spec) { s.Server.GPUs = nil }, "steps=2")
	r.w.leases["gpu-all"] = "by-hand"
	sum, err := Execute(context.Background(), r.deps(), p, nil)
	var held *server.HeldError
	if !errors.As(err, &held) || sum.Failed != 0 || sum.State != record.SweepInterrupted || r.w.starts != 0 {
		t.Fatalf("%+v, %v", sum, err)
	}
	delete(r.w.leases, "gpu-all")
	if sum, err = Resume(context.Background(), r.deps(), sum.SweepID, ResumeOptions{}); err != nil || sum.Done != 2 {
		t.Fatalf("%+v, %v", sum, err)
	}
	if left := r.w.leftovers(); len(left) > 0 || len(r.w.patches) > 0 {
		t.Errorf("left: %v %v", left, r.w.patches)
	}
}

// Where a stop could not be proved nothing is started, and nothing is stored of a
// sweep that was refused for it.
func TestExecute_AMarkedHostIsRefusedBeforeAnythingIsStored(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.w.marks = []server.Mark{{Launch: "l0", Processes: []server.Survivor{{PID: 5, State: "D"}}}}
	deps := r.deps()
	begun := ""
	deps.IDs = func() string { begun = "k3v7"; return begun }
	sum, err := Execute(context.Background(), deps, r.plan(nil, "steps=2"), nil)
	var marked *server.MarkedError
	if !errors.As(err, &marked) || marked.Marks[0].Launch != "l0" || sum != nil {
		t.Fatalf("%+v, %v", sum, err)
	}
	if v, err := r.mem.View(context.Background(), begun); err == nil {
		t.Errorf("stored: %+v", v)
	}
}

// One that was stored for another controller to make is refused as well, not begun and
// failed.
func TestResume_BeginsNothingOnAMarkedHost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.plan(nil, "steps=2")
	if err := Begin(context.Background(), r.deps().Recorder, p, "cut", r.deps().Now()); err != nil {
		t.Fatal(err)
	}
	r.w.marks = []server.Mark{{Launch: "l0", Processes: []server.Survivor{{PID: 5, State: "D"}}}}
	sum, err := Resume(context.Background(), r.deps(), "cut", ResumeOptions{})
	var open *OpenError
	if !errors.As(err, new(*server.MarkedError)) || !errors.As(err, &open) || !open.Unbegun || sum.Launches != 0 || sum.State != record.SweepInterrupted {
		t.Fatalf("%+v, %v", sum, err)
	}
	if v, err := r.mem.View(context.Background(), "cut"); err != nil || len(v.Launches) != 0 || v.Sweep.State != record.SweepInterrupted {
		t.Errorf("stored: %+v, %v", v, err)
	}
	r.w.marks = nil
	if sum, err = Resume(context.Background(), r.deps(), "cut", ResumeOptions{}); err != nil || sum.Done != 2 {
		t.Fatalf("%+v, %v", sum, err)
	}
}

// A mark that another's stop sets between two launches says nothing about the cells.
func TestExecute_AMarkEndsTheSweepWithoutAResult(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.plan(nil, "steps=1..2")
	r.hook = func(b Boundary, e record.Event) {
		if b == AfterEvent && e.Step == stepLaunch && e.Kind == record.EventDone {
			r.w.marks = []server.Mark{{Launch: "l0", Processes: []server.Survivor{{PID: 5, State: "D"}}}}
		}
	}
	sum, err := Execute(context.Background(), r.deps(), p, nil)
	var open *OpenError
	if !errors.As(err, new(*server.MarkedError)) || !errors.As(err, &open) || sum.Done != 1 || sum.Failed != 0 || sum.State != record.SweepInterrupted {
		t.Fatalf("%+v, %v", sum, err)
	}
	if hint := open.Hint(); !strings.HasPrefix(hint, "specrun server stop l0 ") || !strings.Contains(hint, "then specrun resume "+sum.SweepID) {
		t.Errorf("hint: %s", hint)
	}
	r.hook, r.w.marks = nil, nil
	if sum, err = Resume(context.Background(), r.deps(), sum.SweepID, ResumeOptions{}); err != nil || sum.Done != 3 {
		t.Fatalf("%+v, %v", sum, err)
	}
	r.settled(p)
}

// Nothing is to be undone of a sweep that was refused, so its end needs neither the
// leases that others have nor the host.
func TestResume_EndsASweepOfWhichNothingWasBegun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.plan(func(s *Spec) { s.Server.GPUs = nil }, "steps=2")
	if err := Begin(context.Background(), r.deps().Recorder, p, "cut", r.deps().Now()); err != nil {
		t.Fatal(err)
	}
	r.w.leases["gpu-all"] = "by-hand"
	for range 2 { // as it was begun, and as it was ended
		deps := r.deps()
		deps.Hosts = func(context.Context, string) (*Host, error) { return nil, errors.New("the host is asked") }
		sum, err := Resume(context.Background(), deps, "cut", ResumeOptions{EndOnly: true})
		if err != nil || sum.State != record.SweepInterrupted || sum.Missing != 2 || sum.Launches != 0 {
			t.Fatalf("%+v, %v", sum, err)
		}
		if v, err := deps.Recorder.View(context.Background(), "cut"); err != nil || v.Sweep.State != record.SweepInterrupted {
			t.Errorf("%+v, %v", v.Sweep, err)
		}
	}
	delete(r.w.leases, "gpu-all")
	if sum, err := Resume(context.Background(), r.deps(), "cut", ResumeOptions{}); err != nil || sum.Done != 2 {
		t.Fatalf("its claim was not given up, or it cannot be begun any more: %+v, %v", sum, err)
	}
}

// Who finds the leases of a detached sweep must learn that no terminal is behind it.
func TestExecute_ADetachedSweepNamesItselfSo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	deps := r.deps()
	deps.Detached = true
	x, err := newExecution(deps, r.plan(nil, "steps=2"), "k3v7")
	if err != nil {
		t.Fatal(err)
	}
	if got := x.sweepOwner().What; got != server.DetachedSweep+"k3v7" {
		t.Errorf("the sweep's leases are of %q", got)
	}
	if got := (&attempt{x: x}).owner().What; got != server.DetachedSweep+"k3v7" {
		t.Errorf("a launch's leases are of %q", got)
	}
}

// One card has one name for everybody, whatever numbers it goes by.
func TestExecute_LeasesGPUsByUUID(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cards []string
		names []string
	}{{[]string{"GPU-aa", "GPU-bb", "GPU-cc"}, []string{"gpu-GPU-bb", "gpu-GPU-cc"}}, {nil, []string{"gpu-1", "gpu-2"}}} {
		r := newRig(t)
		r.w.cards = c.cards
		var leased, given []string
		r.w.onStart = func(l server.Launch) {
			for name := range r.w.leases {
				if strings.HasPrefix(name, "gpu-") {
					leased = append(leased, name)
				}
			}
			given = l.GPUs
		}
		p := r.plan(func(s *Spec) { s.Baseline, s.Server.GPUs = nil, []int{1, 2} }, "steps=2")
		if sum, err := Execute(context.Background(), r.deps(), p, nil); err != nil || sum.Done != 1 {
			t.Fatalf("%+v, %v", sum, err)
		}
		// CUDA may count in another order than nvidia-smi: a UUID is always the same card.
		want := []string{strings.TrimPrefix(c.names[0], "gpu-"), strings.TrimPrefix(c.names[1], "gpu-")}
		if !slices.Equal(given, want) {
			t.Errorf("the server is given %v, want %v", given, want)
		}
		if slices.Sort(leased); !slices.Equal(leased, c.names) {
			t.Errorf("leased %v, want %v", leased, c.names)
		}
	}
}

// A sweep that was killed gives way at once when nothing of it runs, and not
// before; whoever is not known to have ended never does.
func TestExecute_AKilledSweepGivesWay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		serverRuns, controllerLives bool
		gives                       bool
	}{
		"nothing of it runs":            {false, false, true},
		"its server runs":               {true, false, false},
		"its controller may still live": {false, true, false},
	} {
		r := newRig(t)
		p := r.plan(nil, "steps=2")
		r.at(stepStart, record.EventDone)
		if _, _, lived := r.execute(p); lived {
			t.Fatal("not killed")
		}
		r.hook = nil
		if !c.serverRuns {
			for _, s := range r.w.servers {
				s.phase = server.Exited
			}
		}
		killed, d := r.sweep, r.deps()
		d.ControllerGone = func(string) bool { return !c.controllerLives }
		sum, err := Execute(context.Background(), d, p, nil)
		var held *server.HeldError
		var abandoned *AbandonedError
		switch {
		case c.gives:
			if err != nil || sum.Done != 2 || len(sum.Notes) == 0 || !strings.Contains(sum.Notes[0], "specrun resume "+killed) {
				t.Errorf("%s: %+v, %v", name, sum, err)
			}
			if again, err := Resume(context.Background(), r.deps(), killed, ResumeOptions{}); err != nil || again.Done != 2 {
				t.Errorf("%s: the killed one later: %+v, %v", name, again, err)
			}
		case !errors.As(err, &held) || errors.As(err, &abandoned) != c.serverRuns || sum.Launches != 0:
			t.Errorf("%s: %+v, %v", name, sum, err)
		}
	}
}

// While one controller looks at what a killed sweep left, nobody resumes that; and
// what was resumed before is not taken.
func TestExecute_WhatIsTakenOverIsNotResumed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.plan(nil, "steps=2")
	r.at(stepStart, record.EventDone)
	if _, _, lived := r.execute(p); lived {
		t.Fatal("not killed")
	}
	r.hook = nil
	for _, s := range r.w.servers {
		s.phase = server.Exited
	}
	killed := r.sweep
	dead := func(name string) bool { return name == "controller-1" }
	d := r.deps()
	d.ControllerGone = dead
	tried := 0
	r.w.onLook = func(launch string) {
		if tried++; tried > 1 {
			return
		}
		other := r.deps()
		other.ControllerGone = dead
		_, err := Resume(context.Background(), other, killed, ResumeOptions{})
		if !errors.As(err, new(*ClaimedError)) {
			t.Errorf("resumed meanwhile: %v", err)
		}
	}
	sum, err := Execute(context.Background(), d, p, nil)
	if err != nil || sum.Done != 2 || tried == 0 {
		t.Errorf("%+v, %v after %d looks", sum, err, tried)
	}
	r.w.onLook = nil
	if again, err := Resume(context.Background(), r.deps(), killed, ResumeOptions{}); err != nil || again.Done != 2 {
		t.Errorf("the killed one later: %+v, %v", again, err)
	}
}
