package experiments

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"specrun/deploy/server"
	"specrun/experiments/record"
	"specrun/internal/tier"
)

func TestAutoPort_LaunchesBeginApartWithinTheRange(t *testing.T) {
	t.Parallel()
	places := map[int]bool{}
	for i := range 2000 {
		port := autoPort(fmt.Sprintf("launch%d", i))
		if port < firstAutoPort || port >= firstAutoPort+autoPorts*autoPortStep || port%autoPortStep != 0 {
			t.Fatalf("port %d", port)
		}
		places[port] = true
	}
	if len(places) < autoPorts/2 {
		t.Errorf("2000 launches begin at %d places only", len(places))
	}
	if last := autoPort("x"); last != autoPort("x") {
		t.Error("the same launch begins elsewhere")
	}
	if end := firstAutoPort + autoPortStep*autoPorts + sglangRoom; end > 32768 {
		t.Errorf("ports up to %d may be taken by outgoing connections", end)
	}
}

// launches describes each launch of the rig's sweep: state and port.
func (r *rig) ports() []int {
	var out []int
	for _, l := range r.view().Launches {
		for i, word := range l.Argv {
			if word == "--port" {
				var n int
				fmt.Sscan(l.Argv[i+1], &n)
				out = append(out, n)
			}
		}
	}
	return out
}

func TestExecute_AnAutomaticPortPassesByWhoIsThere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for port := firstAutoPort; port < firstAutoPort+autoPorts*autoPortStep; port += 2 * autoPortStep {
		r.w.foreign[port] = server.Holder{Port: port, PID: 4711}
	}
	p := r.plan(nil, "steps=2")
	if sum, err := Execute(context.Background(), r.deps(), p, nil); err != nil || sum.Done != 2 {
		t.Fatalf("%+v, %v", sum, err)
	}
	for i, port := range r.ports() {
		want := autoPort(r.view().Launches[i].ID)
		if _, taken := r.w.foreign[want]; taken {
			want += autoPortStep
		}
		if port != want {
			t.Errorf("launch %d is on port %d, want %d", i, port, want)
		}
	}
	r.settled(p)
}

// A stranger may take the port after it was found free: before the start, which
// then refuses, or while the server comes up, which then dies.
func TestExecute_APortThatIsTakenMeanwhileIsLeftForAnother(t *testing.T) {
	t.Parallel()
	taken := map[string]func(r *rig){
		"before the start": func(r *rig) {
			once := true
			r.hook = func(b Boundary, e record.Event) {
				if once && b == AfterEvent && e.Step == stepLease && e.Kind == record.EventDone {
					once = false
					port := autoPort(e.LaunchID)
					r.w.foreign[port] = server.Holder{Port: port, PID: 4711}
				}
			}
		},
		"while it comes up": func(r *rig) {
			once := true
			r.w.ready = func(server.Launch) error {
				if !once {
					return nil
				}
				once = false
				return &server.CrashError{Host: "gpu-01", Crash: server.Crash{Kind: "port_in_use", Evidence: "address already in use"}}
			}
		},
	}
	for name, arrange := range taken {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			arrange(r)
			p := r.plan(nil, "steps=2")
			sum, err := Execute(context.Background(), r.deps(), p, nil)
			if err != nil || sum.Done != 2 || sum.Failed != 0 || sum.Launches != 3 {
				t.Fatalf("%+v, %v", sum, err)
			}
			v := r.view()
			if v.Launches[0].State != record.LaunchFailed || v.Launches[1].State != record.LaunchDone {
				t.Errorf("launches are %s and %s", v.Launches[0].State, v.Launches[1].State)
			}
			if ports := r.ports(); len(ports) != 3 || ports[0] == ports[1] {
				t.Errorf("ports %v", ports)
			}
			r.settled(p)
		})
	}
}

func TestExecute_ASecondTakenPortIsAFailure(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.w.ready = func(server.Launch) error {
		return &server.CrashError{Host: "gpu-01", Crash: server.Crash{Kind: "port_in_use", Evidence: "address already in use"}}
	}
	p := r.plan(nil, "steps=2")
	sum, err := Execute(context.Background(), r.deps(), p, nil)
	if err != nil || sum.Failed != 2 || r.w.starts != 4 {
		t.Fatalf("%+v, %v, %d starts for two cells", sum, err, r.w.starts)
	}
	for _, run := range r.settled(p) {
		if run.Class != record.ClassPortInUse {
			t.Errorf("%+v", run)
		}
	}
	// A port that the spec names is not exchanged.
	fixed := newRig(t)
	fixed.w.ready = r.w.ready
	p = fixed.plan(func(s *Spec) { s.Server.Port = 31000 }, "steps=2")
	if sum, err := Execute(context.Background(), fixed.deps(), p, nil); err != nil || sum.Failed != 2 || fixed.w.starts != 2 {
		t.Errorf("%+v, %v, %d starts", sum, err, fixed.w.starts)
	}
}

func TestResume_AfterAKillWhileThePortIsChanged(t *testing.T) {
	t.Parallel()
	run := func(n int) (r *rig, p *Plan, lived bool, boundaries int) {
		r = newRig(t)
		once := true
		r.w.ready = func(server.Launch) error {
			if !once {
				return nil
			}
			once = false
			return &server.CrashError{Host: "gpu-01", Crash: server.Crash{Kind: "port_in_use"}}
		}
		p = r.plan(func(s *Spec) { s.Baseline = nil }, "steps=2")
		count := r.killAt(n)
		_, _, lived = r.execute(p)
		r.hook = nil
		return r, p, lived, *count
	}
	_, _, _, boundaries := run(0)
	for n := 1; n <= boundaries; n += tier.Every(9) {
		r, p, lived, _ := run(n)
		if lived {
			t.Fatalf("boundary %d was not reached", n)
		}
		sum, err, _ := r.resume(ResumeOptions{})
		if err != nil || sum.Done != 1 || sum.Failed != 0 {
			t.Fatalf("killed at boundary %d: %+v, %v", n, sum, err)
		}
		r.settled(p)
	}
}

func TestNewPlan_SaysWhichPortOfACommandIsAPlaceholder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l := r.plan(nil, "steps=2").Launches[0]
	if l.Placeholder == 0 || !strings.Contains(l.Command, fmt.Sprint("--port ", l.Placeholder)) {
		t.Errorf("placeholder %d in %s", l.Placeholder, l.Command)
	}
	l = r.plan(func(s *Spec) { s.Server.Port = 31000 }, "steps=2").Launches[0]
	if l.Placeholder != 0 || !strings.Contains(l.Command, "--port 31000") {
		t.Errorf("placeholder %d in %s", l.Placeholder, l.Command)
	}
}
