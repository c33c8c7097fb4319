package experiments

import (
	"context"
	"strings"
	"testing"
	"time"

	"specrun/deploy/server"
	"specrun/experiments/record"
	"specrun/experiments/trust"
)

// A server that ends by itself between its last response and its stop: the run
// keeps its numbers, and says so.
func TestExecute_AServerThatEndedBeforeItsStopIsFound(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.w.beforeStop = func(s *fakeServer) {
		if s.phase == server.Running {
			s.phase, s.code = server.Exited, 139
			s.log.WriteString("segfault\n")
		}
	}
	p := r.plan(func(s *Spec) { s.Repeats = 2; s.Baseline = nil }, "steps=2")
	sum, err := Execute(context.Background(), r.deps(), p, nil)
	if err != nil || sum.Done != 2 || sum.State != record.SweepDone {
		t.Fatalf("%+v, %v", sum, err)
	}
	r.settled(p)
	v := r.view()
	labelled := 0
	for i, run := range v.Runs {
		for _, l := range v.Data[run.ID].Labels {
			if l.Name != trust.DiedAfter {
				continue
			}
			labelled++
			if i != 1 || !strings.Contains(l.Reason, "exit status 139") || !strings.Contains(l.Reason, "segfault") {
				t.Errorf("run %d: %q", i, l.Reason)
			}
			if v.Data[run.ID].Metrics == nil {
				t.Error("its numbers are gone")
			}
		}
	}
	if labelled != 1 || len(sum.Notes) != 1 || !strings.Contains(sum.Notes[0], "keeps its numbers") {
		t.Errorf("%d labels, notes %q", labelled, sum.Notes)
	}
}

type suspecting struct{ answering }

func (suspecting) Suspect() *server.Crash {
	return &server.Crash{Kind: "oom", Evidence: "a line that proves nothing"}
}

// What the processes of somebody else's server do is not looked at: a line that only
// explains an end is no end while a long prompt is at work.
func TestServerWatch_AnAttachedServerIsNotSuspectedOfStandingStill(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.w.servers["l"] = &fakeServer{phase: server.Running}
	a := &attempt{x: &execution{host: &Host{Name: "gpu-01", Server: fakeServers{r.w}}}}
	a.rec.ID, a.cfg.Attach = "l", &AttachConfig{}
	w := &serverWatch{a: a, log: suspecting{}}
	if err := w.closely(t.Context(), time.Minute, "no token came"); err != nil {
		t.Error(err)
	}
	a.cfg.Attach = nil
	if err := w.closely(t.Context(), time.Minute, "no token came"); !isFailure(err) || !strings.Contains(err.Error(), "proves nothing") {
		t.Errorf("one of ours of which nothing is seen: %v", err)
	}
}

// A log that gets shorter while it is measured gives no lines of another time.
func TestExecute_ALogThatWasCutIsSaid(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]string{"emptied": "", "written anew": "other lines\n" + strings.Repeat("row of somebody\n", 200)} {
		r := newRig(t)
		r.w.onLook = func(launch string) {
			r.w.mu.Lock()
			defer r.w.mu.Unlock()
			s := r.w.servers[launch]
			for _, b := range r.w.benches {
				if s != nil && b.state == BenchDone && b.job.Launch == launch && strings.HasPrefix(s.log.String(), "starting") {
					s.log.Reset()
					s.log.WriteString(cut)
				}
			}
		}
		var cuts []string
		d := r.deps()
		d.Collect = func(w Window) (record.RunData, error) {
			cuts = append(cuts, w.LogCut)
			if len(w.Log) > 0 {
				t.Errorf("%s: lines of another log: %q", name, w.Log)
			}
			return record.RunData{}, nil
		}
		p := r.plan(func(s *Spec) { s.Baseline = nil; s.Repeats = 1 }, "steps=2", "bench.warmup=0")
		sum, err := Execute(context.Background(), d, p, nil)
		if err != nil || sum.Done != 1 {
			t.Fatalf("%s: %+v, %v", name, sum, err)
		}
		if len(cuts) != 1 || !strings.Contains(cuts[0], "was cut") {
			t.Errorf("%s: %q", name, cuts)
		}
	}
}

func TestTorn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text   string
		before bool
		want   string
	}{
		{"", true, ""},
		{"\na line\n", true, ""},
		{"a line\n", false, ""},
		{"\na line\nhalf", true, "when the benchmark ended"},
		{"half of one\na line\n", true, "when the benchmark began"},
		{"\na line\n 10%|\r 20%|", true, ""},
		{"half", true, "when the benchmark ended"},
	} {
		if got := torn([]byte(c.text), c.before); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

// The first is the end of a real SGLang 0.5.12.
func TestOutlivedGrace(t *testing.T) {
	t.Parallel()
	id := server.Identity{PID: 7}
	for name, c := range map[string]struct {
		proof server.Proof
		want  bool
	}{
		"killed itself, drained":  {server.Proof{Identity: id, Terminated: true, Signal: 9}, false},
		"a worker of it remained": {server.Proof{Identity: id, Terminated: true, Signal: 9, Killed: []int{8}}, false},
		"ignored TERM":            {server.Proof{Identity: id, Terminated: true, Signal: 9, Killed: []int{7, 8}}, true},
		"ended":                   {server.Proof{Identity: id, Terminated: true}, false},
		"was dead before":         {server.Proof{Identity: id, Signal: 9, Killed: []int{8}}, false},
	} {
		if got := outlivedGrace(c.proof); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
