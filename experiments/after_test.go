package experiments

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

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

// fakeForeign is what is there of servers that specrun did not start.
type fakeForeign struct {
	w      *world
	saved  []server.Saved
	starts map[string]int // restarts by launch
	err    error          // of the next restart
	at     *server.Attachment
	leases []server.Lease
}

func (f *fakeForeign) Leases(context.Context) ([]server.Lease, error) { return f.leases, nil }

func (f *fakeForeign) Saved(context.Context) ([]server.Saved, error) { return f.saved, nil }

func (f *fakeForeign) Restart(_ context.Context, id string, o RestartOptions) (*Restarted, error) {
	if err := f.err; err != nil {
		f.err = nil
		return nil, err
	}
	for i, s := range f.saved {
		if s.ID != id {
			continue
		}
		launch := firstOf(s.Launch, o.Launch)
		if f.starts == nil {
			f.starts = map[string]int{}
		}
		f.starts[launch]++
		f.saved[i].Launch, f.saved[i].Restored = launch, launch
		return &Restarted{Saved: s, Launch: launch, URL: "http://127.0.0.1:31000"}, nil
	}
	return nil, &server.NotSavedError{Host: "gpu-01", ID: id}
}

func (f *fakeForeign) Attach(_ context.Context, to server.AttachTo) (server.Attachment, error) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if f.at == nil {
		return server.Attachment{}, &server.AttachError{Host: "gpu-01", To: to}
	}
	s := f.w.servers[to.Launch]
	if s == nil {
		s = &fakeServer{launch: server.Launch{ID: to.Launch, Port: to.Port}, phase: server.Running, identity: f.at.State.Identity}
		s.log.WriteString("before\n")
		f.w.servers[to.Launch] = s
	}
	at := *f.at
	at.State.Launch, at.State.Phase, at.State.Attached, at.State.LogPath = to.Launch, server.Running, true, "/state/runs/"+to.Launch+"/server.log"
	return at, nil
}

func (r *rig) withForeign(d Deps, f *fakeForeign) Deps {
	f.w = r.w
	dial := d.Hosts
	d.Hosts = func(ctx context.Context, name string) (*Host, error) {
		h, err := dial(ctx, name)
		if h != nil {
			h.Foreign = f
		}
		return h, err
	}
	return d
}

func savedServer(id string) server.Saved {
	return server.Saved{ID: id, Argv: []string{"python3", "-m", "x", "--api-key", "hunter3secret"}, Port: 31000, Stopped: time.Now()}
}

func TestAfterRestore_StartsWhatWasSavedOnce(t *testing.T) {
	f := &fakeForeign{saved: []server.Saved{savedServer("s1"), {ID: "running"}}}
	r := newRig(t)
	d := r.withForeign(r.deps(), f)
	sum, err := Execute(context.Background(), d, r.plan(nil, "steps=2"), nil)
	if err != nil || len(sum.Left) != 1 || sum.Left[0].Saved != "s1" || len(f.starts) != 1 {
		t.Fatalf("%+v, %v, starts %v", sum, err, f.starts)
	}
	for _, p := range r.seen {
		if strings.Contains(p.Message, "hunter3secret") {
			t.Errorf("a secret is shown: %s", p.Message)
		}
	}
	// Saved and pending anew since: that is no business of a sweep that has ended.
	f.saved = []server.Saved{savedServer("s1")}
	if sum, err = Resume(context.Background(), r.withForeign(r.deps(), f), sum.SweepID, ResumeOptions{}); err != nil || len(sum.Left) != 0 {
		t.Errorf("resumed: %+v, %v", sum, err)
	}
	// With another word after: nothing is started.
	for _, after := range []After{AfterStop, AfterBest} {
		f := &fakeForeign{saved: []server.Saved{savedServer("s1")}}
		r := newRig(t)
		if _, err := Execute(context.Background(), r.withForeign(r.deps(), f), r.plan(func(s *Spec) { s.After = after }, "steps=2"), nil); err != nil || len(f.starts) != 0 {
			t.Errorf("after: %s: %v, starts %v", after, err, f.starts)
		}
	}
}

func TestAfterRestore_OneThatFailsLeavesTheSweepOpenAndIsTriedAgain(t *testing.T) {
	f := &fakeForeign{saved: []server.Saved{savedServer("s1")}, err: errors.New("no memory")}
	r := newRig(t)
	sum, err := Execute(context.Background(), r.withForeign(r.deps(), f), r.plan(nil, "steps=2"), nil)
	var not *NotRestoredError
	if !errors.As(err, &not) || not.Saved != "s1" || !strings.Contains(err.Error(), "no memory") || sum.Done != 4 && sum.Done != 2 {
		t.Fatalf("%+v, %v", sum, err)
	}
	if sum, err = Resume(context.Background(), r.withForeign(r.deps(), f), sum.SweepID, ResumeOptions{}); err != nil || len(sum.Left) != 1 {
		t.Errorf("resumed: %+v, %v", sum, err)
	}
}

// What is not this sweep's to start stays as it is, is named, and keeps no sweep open.
func TestAfterRestore_LeavesWhatIsNotItsOwn(t *testing.T) {
	old := savedServer("s1")
	old.Stopped = time.Unix(1_000_000_000, 0)
	queue := func(owner string, expired bool) []server.Lease {
		return []server.Lease{{Name: "queue-1", Owner: server.Owner{Launch: owner, Controller: "anna@desk, pid 7 [x]", What: "sweep s2"}, Expired: expired}}
	}
	for name, c := range map[string]struct {
		f    *fakeForeign
		note string // "": it is started
	}{
		"stopped long before":             {&fakeForeign{saved: []server.Saved{old}}, "more than a day before"},
		"another sweep":                   {&fakeForeign{saved: []server.Saved{savedServer("s1")}, leases: queue("other", false)}, "sweep s2 of anna@desk, pid 7)"},
		"another sweep's place has ended": {&fakeForeign{saved: []server.Saved{savedServer("s1")}, leases: queue("other", true)}, ""},
		"another user's":                  {&fakeForeign{saved: []server.Saved{savedServer("s1")}, err: &server.OwnerError{Host: "gpu-01", ID: "s1", Owner: "anna", Me: "ben"}}, "was user anna's"},
	} {
		r := newRig(t)
		sum, err := Execute(context.Background(), r.withForeign(r.deps(), c.f), r.plan(nil, "steps=2"), nil)
		switch {
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case c.note == "" && len(sum.Left) != 1:
			t.Errorf("%s: not started: %v", name, sum.Notes)
		case c.note != "" && (len(sum.Left) != 0 || len(c.f.starts) != 0 || !strings.Contains(strings.Join(sum.Notes, "\n"), c.note)):
			t.Errorf("%s: left %v, starts %v, notes %q", name, sum.Left, c.f.starts, sum.Notes)
		}
	}
}

// attachEngine answers readiness probes.
type attachEngine struct {
	fakeEngine
	probe error
}

type answering struct{ err error }

func (p answering) Observe([]byte) server.Observation                 { return server.Observation{} }
func (p answering) Probe(context.Context, *http.Client, string) error { return p.err }
func (e attachEngine) Readiness(ServerConfig) server.Readiness        { return answering{e.probe} }
func (attachEngine) CrashIn([]byte) *server.Crash                     { return nil }
func (r *rig) attachDeps(f *fakeForeign, probe error) Deps {
	d := r.withForeign(r.deps(), f)
	d.Engines = func(string) (Engine, error) { return attachEngine{probe: probe}, nil }
	return d
}

const attachSpec = `version: 1
name: attached
server:
  engine: sglang
  attach: {url: "http://127.0.0.1:31000"}
bench: {requests: 2, max_tokens: 8, warmup: 0}
rounds: 2
repeats: 2
`

func (r *rig) attachPlan(args ...string) *Plan {
	r.t.Helper()
	s, err := LoadSpec("attach.yaml", []byte(attachSpec))
	if err != nil {
		r.t.Fatal(err)
	}
	return plan(r.t, s, args...)
}

func foreignServer() *server.Attachment {
	p := server.Process{Identity: server.Identity{BootID: "b", PID: 77, StartTicks: 5}, User: "anna", Argv: []string{"/opt/python3", "-m", "sglang", "--api-key", "hunter3secret"}, Program: "/opt/python3"}
	return &server.Attachment{State: server.State{Identity: p.Identity}, Holder: server.Holder{Port: 31000, PID: 77, User: "anna"}, Process: &p,
		Unread: []string{"its environment: the process is user anna's"}}
}

func TestAttach_MeasuresWithoutAStartOrALease(t *testing.T) {
	r := newRig(t)
	f := &fakeForeign{at: foreignServer(), leases: []server.Lease{{Name: "gpu-all", Owner: server.Owner{Controller: "pid 9 on x", What: "sweep other"}}}}
	p := r.attachPlan("bench.concurrency=1,2")
	if len(p.Launches) != 1 || len(p.Launches[0].Runs) != 8 || p.Launches[0].Command != "" {
		t.Fatalf("rounds are no launches of a server that is not started: %+v", p.Launches)
	}
	sum, err := Execute(context.Background(), r.attachDeps(f, nil), p, nil)
	if err != nil || sum.Done != 8 || sum.Launches != 1 {
		t.Fatalf("%+v, %v", sum, err)
	}
	if r.w.starts != 0 || len(r.w.leases) != 0 || len(r.w.patches) != 0 {
		t.Errorf("%d starts, leases %v, patches %v", r.w.starts, r.w.leases, r.w.patches)
	}
	r.sweep = sum.SweepID
	v := r.view()
	for _, e := range v.Events {
		if strings.Contains(string(e.Evidence), "hunter3secret") {
			t.Errorf("a secret of its command line is stored with %s %s", e.Step, e.Kind)
		}
	}
	if strings.Contains(fmt.Sprint(v.Launches[0].Argv), "hunter3secret") {
		t.Errorf("a secret of its command line is stored: %v", v.Launches[0].Argv)
	}
	for _, d := range v.Data {
		facts := map[string]string{}
		for _, f := range d.Provenance {
			facts[f.Key] += f.Value + ";"
		}
		if facts["attached"] != "http://127.0.0.1:31000;" || !strings.Contains(facts["note"], "user anna's") || !strings.Contains(facts["note"], "sweep other") {
			t.Errorf("provenance %v", facts)
		}
	}
	for _, e := range v.Events {
		if e.Step == stepStart || e.Step == stepStop || e.Step == stepLease || e.Step == stepPatch {
			t.Errorf("step %s %s of an attached launch", e.Step, e.Kind)
		}
	}
}

func TestAttach_AServerThatIsStartedAnewFailsItsRun(t *testing.T) {
	r := newRig(t)
	r.w.bench = func(server.Launch, BenchJob) string { return "server-dies" }
	p := r.attachPlan()
	sum, err := Execute(context.Background(), r.attachDeps(&fakeForeign{at: foreignServer()}, nil), p, nil)
	if err != nil || sum.Failed == 0 || sum.Done != 0 {
		t.Fatalf("%+v, %v", sum, err)
	}
	r.sweep = sum.SweepID
	for _, run := range r.view().Runs {
		if run.State == record.RunFailed && (run.Class != record.ClassServerDied || !strings.Contains(run.Reason, "http://127.0.0.1:31000")) {
			t.Errorf("run failed as %s: %s", run.Class, run.Reason)
		}
	}
}

func TestAttach_NobodyThereOrNoAnswer(t *testing.T) {
	for name, f := range map[string]*fakeForeign{"nobody": {}, "no answer": {at: foreignServer()}} {
		r := newRig(t)
		sum, err := Execute(context.Background(), r.attachDeps(f, errors.New("HTTP 500")), r.attachPlan(), nil)
		if err != nil || sum.Done != 0 || sum.Failed != 4 {
			t.Errorf("%s: %+v, %v", name, sum, err)
		}
	}
}

func TestAttach_AKillAtAnyBoundary(t *testing.T) {
	r := newRig(t)
	f := &fakeForeign{at: foreignServer()}
	count := r.killAt(0)
	if _, err := Execute(context.Background(), r.attachDeps(f, nil), r.attachPlan(), nil); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= *count; n += tier.Every(5) {
		r := newRig(t)
		f := &fakeForeign{at: foreignServer()}
		r.killAt(n)
		d := r.attachDeps(f, nil)
		ids := d.IDs
		d.IDs = func() string {
			id := ids()
			if r.sweep == "" {
				r.sweep = id
			}
			return id
		}
		if _, _, lived := alive(func() (*Summary, error) { return Execute(context.Background(), d, r.attachPlan(), nil) }); lived {
			t.Fatalf("boundary %d was not reached", n)
		}
		r.hook = nil
		sum, err := Resume(context.Background(), r.attachDeps(f, nil), r.sweep, ResumeOptions{})
		if err != nil || sum.Done != 4 || sum.State != record.SweepDone || r.w.starts != 0 {
			t.Errorf("killed at boundary %d: %+v, %v, %d starts", n, sum, err, r.w.starts)
		}
		r.settled(r.attachPlan())
	}
}

func TestAttach_RefusesWhatCannotBe(t *testing.T) {
	for _, c := range []struct{ add, arg, want string }{
		{"", "flag.tp-size=1,2", "flags that it was started with"},
		{"", "env.X=1,2", "environment that it was started with"},
		{"", "patches=none,profiling-v4", "not patched"},
		{"", "python=/a,/b", "runs already"},
		{"patches: [profiling-v4]\n", "", "not patched"},
		{"baseline: {flags: {}}\n", "", "no baseline"},
		{"after: best\n", "", "neither stopped nor started"},
		{"after: stop\n", "", "neither stopped nor started"},
	} {
		s, err := LoadSpec("attach.yaml", []byte(attachSpec+c.add))
		if err != nil {
			t.Fatal(err)
		}
		var args []string
		if c.arg != "" {
			args = []string{c.arg}
		}
		axes, err := ParseArgs(args)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Resolve(s, Options{Axes: axes, Host: HostConfig{Name: "h"}, Renderer: fakeRenderer{}, Patches: func(name string) (PatchRef, error) { return PatchRef{Name: name}, nil }})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s%s: %v; want %q", c.add, c.arg, err, c.want)
		}
	}
	if _, err := StartServer(context.Background(), Deps{}, newRig(t).attachPlan()); err == nil || !strings.Contains(err.Error(), "nothing to start") {
		t.Errorf("start: %v", err)
	}
}
