package experiments

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"specrun/deploy/server"
	"specrun/experiments/record"
	"specrun/internal/tier"
)

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
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
	for name, f := range map[string]*fakeForeign{"nobody": {}, "no answer": {at: foreignServer()}} {
		r := newRig(t)
		sum, err := Execute(context.Background(), r.attachDeps(f, errors.New("HTTP 500")), r.attachPlan(), nil)
		if err != nil || sum.Done != 0 || sum.Failed != 4 {
			t.Errorf("%s: %+v, %v", name, sum, err)
		}
		want := record.ClassNotReady
		if name == "nobody" {
			want = record.ClassUnreachable
		}
		r.sweep = sum.SweepID
		for _, run := range r.view().Runs {
			if run.Class != want {
				t.Errorf("%s: failed as %s: %s", name, run.Class, run.Reason)
			}
		}
	}
}

func TestAttach_AKillAtAnyBoundary(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
