package experiments

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"specrun/deploy/server"
	"specrun/experiments/record"
	"specrun/internal/tier"
)

// killed is what a controller ends with in these tests: nothing of it runs any
// more, no cleaning up, as after SIGKILL.
type killed struct{}

// alive runs a controller and says whether it lived to its end.
func alive(f func() (*Summary, error)) (sum *Summary, err error, lived bool) {
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(killed); !ok {
				panic(p)
			}
		}
	}()
	sum, err = f()
	return sum, err, true
}

// killAt makes the rig's controllers end at the n-th boundary from now on, and
// counts boundaries.
func (r *rig) killAt(n int) *int {
	count := 0
	r.hook = func(Boundary, record.Event) {
		count++
		if count == n {
			panic(killed{})
		}
	}
	return &count
}

func (r *rig) execute(p *Plan) (*Summary, error, bool) {
	d := r.deps()
	ids := d.IDs
	d.IDs = func() string {
		id := ids()
		if r.sweep == "" {
			r.sweep = id
		}
		return id
	}
	return alive(func() (*Summary, error) { return Execute(context.Background(), d, p, nil) })
}

func (r *rig) resume(o ResumeOptions) (*Summary, error, bool) {
	d := r.deps()
	return alive(func() (*Summary, error) { return Resume(context.Background(), d, r.sweep, o) })
}

// killPlan is one launch with two runs, with the baseline's before it.
func (r *rig) killPlan() *Plan {
	return r.plan(func(s *Spec) { s.Repeats = 2 }, "steps=2")
}

func TestResume_AfterAKillAtEveryEventBoundary(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	count := r.killAt(0)
	if _, err, _ := r.execute(r.killPlan()); err != nil {
		t.Fatal(err)
	}
	boundaries := *count
	if boundaries < 80 {
		t.Fatalf("only %d boundaries", boundaries)
	}
	for n := 1; n <= boundaries; n += tier.Every(9) {
		r := newRig(t)
		r.w.patches = []PatchRef{{Name: "theirs", SHA256: "x"}}
		p := r.killPlan()
		r.killAt(n)
		if _, _, lived := r.execute(p); lived {
			t.Fatalf("boundary %d was not reached", n)
		}
		starts := r.w.starts
		r.hook = nil
		sum, err, _ := r.resume(ResumeOptions{})
		if err != nil || sum.State != record.SweepDone || sum.Done != 4 || sum.Missing != 0 {
			t.Fatalf("killed at boundary %d: %+v, %v", n, sum, err)
		}
		r.settled(p)
		if len(r.w.patches) != 1 || r.w.patches[0].Name != "theirs" {
			t.Errorf("killed at boundary %d: patches are %v", n, r.w.patches)
		}
		if more := r.w.starts - starts; starts+more > 3 {
			t.Errorf("killed at boundary %d: %d starts for 2 launches", n, r.w.starts)
		}
	}
	t.Logf("%d boundaries", boundaries)
}

func TestResume_AfterKillsAtRandomBoundaries(t *testing.T) {
	t.Parallel()
	for seed := range uint64(tier.Size(2, 25)) {
		r := newRig(t)
		rng := rand.New(rand.NewPCG(seed, 2))
		r.w.ready = func(l server.Launch) error {
			if launchSteps(l) == "1" {
				return &server.ExitedError{Host: "gpu-01", Code: 2}
			}
			return nil
		}
		p := r.plan(func(s *Spec) { s.Repeats = 2 }, "steps=1..2")
		r.killAt(1 + rng.IntN(60))
		_, err, lived := r.execute(p)
		for tries := 0; !lived; tries++ {
			if tries == 200 {
				t.Fatal("never ends")
			}
			r.killAt(1 + rng.IntN(40))
			_, err, lived = r.resume(ResumeOptions{})
		}
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		failed := 0
		for _, run := range r.settled(p) {
			if run.State == record.RunFailed {
				failed++
			}
		}
		if failed != 2 || len(r.w.patches) != 0 {
			t.Errorf("seed %d: %d failed runs, patches %v", seed, failed, r.w.patches)
		}
	}
}

// at kills the controller right after the first event of that step and kind.
func (r *rig) at(step string, kind record.EventKind) {
	r.hook = func(b Boundary, e record.Event) {
		if b == AfterEvent && e.Step == step && e.Kind == kind && e.LaunchID != "" {
			panic(killed{})
		}
	}
}

// dieOnceTheBenchRuns executes a plan of one cell: the worker was started, and
// the controller dies right after.
func (r *rig) dieOnceTheBenchRuns(t *testing.T, p *Plan) {
	t.Helper()
	r.hook = func(b Boundary, e record.Event) {
		if b == AfterEvent && e.Step == stepBench && e.Kind == record.EventIntent {
			// The worker was started, and the controller dies right after.
			l := r.view().Launches[0]
			err := fakeBenches{r.w}.Start(context.Background(), BenchJob{Launch: l.ID, Dir: e.RunID, Model: "model", BaseURL: "http://x", LogPath: "/l", Plan: p.Cells[0].Bench})
			if err != nil {
				t.Error(err)
			}
			panic(killed{})
		}
	}
	r.execute(p)
	r.hook = nil
}

func TestResume_AdoptsAServerAndABenchmarkThatStillRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.plan(func(s *Spec) { s.Baseline = nil }, "steps=2")
	r.dieOnceTheBenchRuns(t, p)
	sum, err, _ := r.resume(ResumeOptions{})
	if err != nil || sum.Done != 1 || r.w.starts != 1 || len(r.w.benches) != 2 {
		t.Fatalf("%+v, %v: %d starts, %d benchmarks", sum, err, r.w.starts, len(r.w.benches))
	}
	r.settled(p)
	for _, run := range r.view().Runs {
		if run.Attempt != 1 {
			t.Errorf("the run was begun again: %+v", run)
		}
	}
}

func TestResume_ALostBenchmarkOrServerIsMeasuredInANewLaunch(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*world){
		"benchmark": func(w *world) {
			for _, b := range w.benches {
				b.state = BenchDead
			}
		},
		"server": func(w *world) {
			for _, s := range w.servers {
				s.phase = server.Exited
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			p := r.plan(func(s *Spec) { s.Baseline = nil }, "steps=2")
			r.at(stepWarm, record.EventDone)
			r.execute(p)
			lose(r.w)
			r.hook = nil
			sum, err, _ := r.resume(ResumeOptions{})
			if err != nil || sum.Done != 1 || r.w.starts != 2 {
				t.Fatalf("%+v, %v, %d starts", sum, err, r.w.starts)
			}
			r.settled(p)
			v := r.view()
			if v.Launches[0].State != record.LaunchCut || v.Runs[0].State != record.RunCut || v.Runs[1].Attempt != 2 {
				t.Errorf("%+v %+v", v.Launches, v.Runs)
			}
		})
	}
}

func TestResume_KeepsFailedRunsUnlessAsked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	broken := true
	r.w.ready = func(l server.Launch) error {
		if broken && launchSteps(l) == "1" {
			return &server.ExitedError{Host: "gpu-01", Code: 2}
		}
		return nil
	}
	p := r.plan(func(s *Spec) { s.Repeats = 2 }, "steps=1..2")
	if sum, err, _ := r.execute(p); err != nil || sum.Failed != 2 {
		t.Fatalf("%+v, %v", sum, err)
	}
	starts := r.w.starts
	if sum, err, _ := r.resume(ResumeOptions{}); err != nil || sum.Failed != 2 || r.w.starts != starts {
		t.Fatalf("%+v, %v, %d more starts", sum, err, r.w.starts-starts)
	}
	// Asked to, it takes the failed ones again, a kill in between included.
	broken = false
	r.at(stepReady, record.EventDone)
	r.resume(ResumeOptions{RetryFailed: true})
	r.hook = nil
	sum, err, _ := r.resume(ResumeOptions{RetryFailed: true})
	if err != nil || sum.Failed != 0 || sum.Done != 6 || sum.State != record.SweepDone {
		t.Fatalf("%+v, %v", sum, err)
	}
	r.settled(p)
	superseded := 0
	for _, run := range r.view().Runs {
		if run.State == record.RunSuperseded {
			superseded++
		}
	}
	if superseded != 2 {
		t.Errorf("%d superseded runs", superseded)
	}
}

func TestResume_ALivingControllerIsNotDisturbed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	now := time.Now()
	r.mem.NowUs = func() int64 { return now.UnixMicro() }
	p := r.killPlan()
	r.at(stepReady, record.EventDone)
	r.execute(p)
	r.hook = nil
	before := len(r.view().Events)
	d := r.deps()
	d.ControllerGone = func(string) bool { return false }
	_, err := Resume(context.Background(), d, r.sweep, ResumeOptions{})
	var claimed *ClaimedError
	if !errors.As(err, &claimed) || claimed.Controller != "controller-1" || len(r.view().Events) != before {
		t.Fatalf("%v", err)
	}
	// Its claim runs out, and then anybody may go on.
	now = now.Add(2 * time.Minute)
	if sum, err := Resume(context.Background(), d, r.sweep, ResumeOptions{}); err != nil || sum.Done != 4 {
		t.Errorf("%+v, %v", sum, err)
	}
	r.settled(p)
}

// overtaken lets another controller take the claim of a dead one first.
type overtaken struct {
	Recorder
	by string
}

func (o overtaken) Claim(ctx context.Context, sweep, controller string, expiresUs int64) error {
	err := o.Recorder.Claim(ctx, sweep, controller, expiresUs)
	if err == nil && expiresUs == 0 {
		err = o.Recorder.Claim(ctx, sweep, o.by, time.Now().Add(time.Minute).UnixMicro())
	}
	return err
}

func TestResume_TheSlowerOfTwoIsToldWhoWasFaster(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.at(stepReady, record.EventDone)
	r.execute(r.killPlan())
	r.hook = nil
	d := r.deps()
	d.Recorder = overtaken{d.Recorder, "controller-9"}
	d.ControllerGone = func(who string) bool { return who == "controller-1" }
	_, err := Resume(context.Background(), d, r.sweep, ResumeOptions{})
	var claimed *ClaimedError
	if !errors.As(err, &claimed) || claimed.Controller != "controller-9" {
		t.Fatalf("%v", err)
	}
}

// A launch that is taken up again and then fails fails the run that was being
// measured, and leaves neither it nor its benchmark behind.
func TestResume_AnAdoptedRunEndsWithItsLaunch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.plan(func(s *Spec) { s.Baseline = nil }, "steps=2")
	r.dieOnceTheBenchRuns(t, p)
	r.w.patches = nil // by hand, meanwhile
	r.w.patchErr = func(set []PatchRef) error {
		if len(set) > 0 {
			return errors.New("conflict")
		}
		return nil
	}
	sum, err, _ := r.resume(ResumeOptions{})
	if err != nil || sum.Failed != 1 || sum.Done != 0 {
		t.Fatalf("%+v, %v", sum, err)
	}
	r.settled(p)
	if v := r.view(); len(v.Runs) != 1 || v.Runs[0].Attempt != 1 {
		t.Errorf("%+v", v.Runs)
	}
}

// What the baseline answered is known to whoever goes on.
func TestResume_ComparesOutputsWithTheBaselineMeasuredBefore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.plan(func(s *Spec) { s.Repeats = 2 }, "steps=2")
	done := 0
	r.hook = func(b Boundary, e record.Event) {
		if b == AfterEvent && e.Step == stepCollect && e.Kind == record.EventDone {
			if done++; done == 2 { // the baseline's launch
				panic(killed{})
			}
		}
	}
	if _, _, lived := r.execute(p); lived {
		t.Fatal("it was not killed")
	}
	r.hook = nil
	want := ""
	for _, run := range r.view().Runs {
		if want == "" && run.State == record.RunDone {
			want = "of " + run.ID
		}
	}
	d := r.deps()
	var got []string
	d.Collect = func(w Window) (record.RunData, error) {
		if w.Cell.Baseline {
			t.Errorf("the baseline is measured again")
		}
		for _, q := range w.BaselineRequests {
			got = append(got, q.Output)
		}
		return fakeCollect(w)
	}
	if sum, err := Resume(context.Background(), d, r.sweep, ResumeOptions{}); err != nil || len(sum.Notes) > 0 {
		t.Fatalf("%+v, %v", sum, err)
	}
	if want == "" || !slices.Equal(got, []string{want, want}) {
		t.Errorf("compared with %q, want twice %q", got, want)
	}
}
