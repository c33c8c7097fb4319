package experiments

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"specrun/deploy/server"
)

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
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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
		"a service's":                     {&fakeForeign{saved: []server.Saved{savedServer("s1")}, err: &server.ServiceError{Host: "gpu-01", ID: "s1", Unit: "user sglang.service"}}, "systemctl --user start sglang.service on gpu-01"},
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
