package experiments

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"specrun/deploy/server"
	"specrun/experiments/record"
)

// side is another controller on the same world, with cards of its own.
func (r *rig) side(ids int) *rig {
	o := newRig(r.t)
	o.w, o.ids = r.w, ids
	return o
}

// on is a sweep of one patched cell on one card.
func (r *rig) on(gpu int) *Plan {
	return r.plan(func(s *Spec) { s.Baseline, s.Server.GPUs = nil, []int{gpu} }, "steps=2")
}

func noted(s *Summary, text string) bool {
	return s != nil && slices.ContainsFunc(s.Notes, func(n string) bool { return strings.Contains(n, text) })
}

// What the second sweep finds is the first one's work: that is not what it puts
// back, whoever of the two ends last.
func TestExecute_WhoSharesAPatchSetLeavesItToTheLast(t *testing.T) {
	t.Parallel()
	before := []PatchRef{{Name: "theirs", SHA256: "x"}}
	for _, firstEndsFirst := range []bool{false, true} {
		a := newRig(t)
		a.w.engines = sharedEngine()
		a.w.engines.stacks["/src/worker.py"] = before
		b := a.side(100)
		planA := a.plan(func(s *Spec) { s.Baseline, s.Server.GPUs = nil, []int{0} }, "steps=2", "python=/v/a")
		planB := b.plan(func(s *Spec) { s.Baseline, s.Server.GPUs = nil, []int{1} }, "steps=2", "python=/v/b")
		stack := func() []PatchRef {
			a.w.mu.Lock()
			defer a.w.mu.Unlock()
			return a.w.engines.stacks["/src/worker.py"]
		}
		var sumB *Summary
		var errB error
		begun, aEnded, bEnded := make(chan struct{}), make(chan struct{}), make(chan struct{})
		b.hook = func(bd Boundary, e record.Event) {
			if bd == AfterEvent && e.Step == stepStart && e.Kind == record.EventDone {
				close(begun)
				if firstEndsFirst {
					<-aEnded
					if !samePatches(stack(), planB.Cells[0].Server.Patches) {
						t.Errorf("the first one to end put %v back under the other", stack())
					}
				}
			}
		}
		a.hook = func(bd Boundary, e record.Event) {
			if bd == AfterEvent && e.Step == stepStart && e.Kind == record.EventDone {
				go func() {
					defer close(bEnded)
					sumB, errB = Execute(context.Background(), b.deps(), planB, nil)
				}()
				select {
				case <-begun:
				case <-bEnded:
				}
				if !firstEndsFirst {
					<-bEnded
					if !samePatches(stack(), planA.Cells[0].Server.Patches) {
						t.Errorf("the second one put %v back under the first", stack())
					}
				}
			}
		}
		sumA, errA := Execute(context.Background(), a.deps(), planA, nil)
		close(aEnded)
		<-bEnded
		if errA != nil || errB != nil || sumA.Done != 1 || sumB.Done != 1 {
			t.Fatalf("%+v, %v; %+v, %v", sumA, errA, sumB, errB)
		}
		if !samePatches(stack(), before) {
			t.Errorf("first ends first %v: left with %v", firstEndsFirst, stack())
		}
		early := sumB
		if firstEndsFirst {
			early = sumA
		}
		if !noted(early, "which shares them") || !noted(sumB, "shares the patched files with "+sumA.SweepID) {
			t.Errorf("notes: %q, %q", sumA.Notes, sumB.Notes)
		}
		if left := a.w.leftovers(); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
}

// others gives somebody else a share in no patches at all, which is what the sweep
// has then.
func (w *world) others(sweep string) (lease string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range sortedKeys(w.leases) {
		if folder, ok := strings.CutSuffix(name, ".none."+sweep); ok {
			w.leases[folder+".none.other"] = "other"
			return folder + ".none.other"
		}
	}
	return ""
}

func TestExecute_ACellWithAnotherPatchSetStopsOrWaits(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{0, time.Minute} {
		r := newRig(t)
		// The baseline has no patches, and comes first.
		p := r.plan(nil, "steps=2")
		d := r.deps()
		d.Wait = wait
		theirs := ""
		r.hook = func(b Boundary, e record.Event) {
			if b == AfterEvent && e.Step == stepStart && e.Kind == record.EventDone && theirs == "" {
				theirs = r.w.others(r.sweep)
			}
		}
		waited := 0
		watch := d.OnEvent
		d.OnEvent = func(p Progress) {
			watch(p)
			if p.Step != StepWait {
				return
			}
			r.w.mu.Lock()
			defer r.w.mu.Unlock()
			if slices.Contains(slices.Collect(maps.Values(r.w.leases)), r.sweep) && slices.ContainsFunc(sortedKeys(r.w.leases), func(n string) bool { return strings.HasSuffix(n, ".none."+r.sweep) }) {
				t.Error("it keeps its own share while it waits: two that wait for one another would wait for ever")
			}
			if waited++; waited == 3 {
				delete(r.w.leases, theirs)
			}
		}
		sum, err := Execute(context.Background(), d, p, nil)
		if theirs == "" {
			t.Fatalf("the sweep had no share without patches: %v", r.w.leases)
		}
		var held *server.HeldError
		switch {
		case wait == 0:
			if !errors.As(err, &held) || held.Lease.Owner.Launch != "other" || sum.Failed != 0 || sum.Done != 1 {
				t.Errorf("without waiting: %+v, %v", sum, err)
			}
		case err != nil || sum.Done != 2 || waited < 3 || len(r.w.patches) > 0:
			t.Errorf("with waiting: %+v, %v after %d looks, left with %v", sum, err, waited, r.w.patches)
		}
	}
}

func TestExecute_WaitsForGPUsAsLongAsItMay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wait  time.Duration
		frees bool
	}{"until they are free": {time.Minute, true}, "no longer than it may": {time.Nanosecond, false}, "not at all": {0, false}} {
		r := newRig(t)
		r.w.leases["gpu-0"] = "by-hand"
		d := r.deps()
		d.Wait = c.wait
		var said []string
		d.OnEvent = func(p Progress) {
			if p.Step == StepWait {
				said = append(said, string(p.Phase)+" "+p.Message)
				if c.frees && len(said) == 3 {
					r.w.mu.Lock()
					delete(r.w.leases, "gpu-0")
					r.w.mu.Unlock()
				}
			}
		}
		sum, err := Execute(context.Background(), d, r.on(0), nil)
		var held *server.HeldError
		var late *WaitedError
		switch {
		case c.frees:
			if err != nil || sum.Done != 1 || len(said) < 3 || !strings.HasPrefix(said[0], "begin waiting for gpu-0") || !strings.HasPrefix(said[1], "note ") {
				t.Errorf("%s: %+v, %v, %q", name, sum, err, said)
			}
		case !errors.As(err, &held) || errors.As(err, &late) != (c.wait > 0) || sum.Launches != 0:
			t.Errorf("%s: %+v, %v", name, sum, err)
		}
		delete(r.w.leases, "gpu-0")
		if left := r.w.leftovers(); len(left) > 0 {
			t.Errorf("%s: left %v", name, left)
		}
	}
}

func TestExecute_LaunchesBesideItAreNamedWithTheRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.w.met = map[int][]string{}
	r.w.onStart = func(l server.Launch) { r.w.met[l.Port] = []string{"launch x (sweep y)"} }
	d := r.deps()
	var beside []string
	d.Collect = func(w Window) (record.RunData, error) {
		beside = w.Beside
		return fakeCollect(w)
	}
	sum, err := Execute(context.Background(), d, r.on(0), nil)
	if err != nil || sum.Done != 1 || !slices.Equal(beside, []string{"launch x (sweep y)"}) {
		t.Fatalf("%+v, %v: beside %q", sum, err, beside)
	}
	for _, data := range r.view().Data {
		for _, f := range data.Provenance {
			if f.Group == "host" && f.Key == "launches_beside" && f.Value == "launch x (sweep y)" {
				return
			}
		}
	}
	t.Error("its provenance does not tell")
}

func TestExecute_AGPUThatIsNotThereIsSaidBeforeAnything(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.w.cards = []string{"GPU-aa", "GPU-bb"}
	sum, err := Execute(context.Background(), r.deps(), r.on(7), nil)
	var none *NoGPUError
	if !errors.As(err, &none) || none.Index != "7" || !slices.Equal(none.Have, []string{"0", "1"}) || sum != nil {
		t.Fatalf("%+v, %v", sum, err)
	}
	if v, err := r.mem.View(context.Background(), "id1"); err == nil {
		t.Errorf("stored: %+v", v)
	}
}

func TestPortRoom(t *testing.T) {
	t.Parallel()
	flags := func(list ...string) ServerConfig {
		c := ServerConfig{Engine: "sglang"}
		for _, f := range list {
			name, value, ok := strings.Cut(f, "=")
			flag := ServerFlag{Name: name}
			if ok {
				flag.Values = []string{value}
			}
			c.Flags = append(c.Flags, flag)
		}
		return c
	}
	for _, c := range []struct {
		cfg     ServerConfig
		room    int
		derived []int
	}{
		{ServerConfig{Engine: "command"}, 1, nil},
		{flags("tp-size=8"), 1001, nil},
		{ServerConfig{Engine: "sglang", Flags: []ServerFlag{{Name: "enable-dp-attention", Kind: flagOmitted}}}, 1001, nil},
		{flags("dp-size=2", "enable-dp-attention"), 1001, []int{233, 234, 235, 236, 237, 238, 239}},
		{flags("dp-size=2", "enable-dp-attention", "dist-init-addr=10.0.0.1:5000"), 1001, nil},
	} {
		if room, derived := portRoom(c.cfg); room != c.room || !slices.Equal(derived, c.derived) {
			t.Errorf("%+v: %d %v, want %d %v", c.cfg, room, derived, c.room, c.derived)
		}
	}
}

func TestResolve_OnlyTheSpecsGPUsSayWhichGPUs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		gpus     []int
		env      string
		host     map[string]string
		accepted bool
	}{
		"in the spec":              {nil, "0,1", nil, false},
		"beside gpus":              {[]int{0}, "", nil, false},
		"no GPU at all":            {nil, "", nil, true},
		"of the host":              {nil, "-", map[string]string{visibleDevices: "3"}, false},
		"another one, of the host": {[]int{0}, "-", map[string]string{"NCCL_PROTO": "LL"}, true},
	} {
		cfg := ServerConfig{GPUs: c.gpus, Env: map[string]string{}, HostEnv: c.host}
		if c.env != "-" {
			cfg.Env[visibleDevices] = c.env
		}
		err := cfg.ownsGPUs("specrun.yaml")
		var fault *SpecError
		if errors.As(err, &fault) == c.accepted || err != nil && !strings.Contains(err.Error(), visibleDevices) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := loadExample(t)
	s.Server.Env = append(s.Server.Env, EnvVar{Name: visibleDevices, Value: Scalar{Text: "0,1", Value: "0,1"}})
	if _, err := Resolve(s, Options{Host: HostConfig{Name: "h"}, Renderer: fakeRenderer{}, Patches: func(name string) (PatchRef, error) { return PatchRef{Name: name}, nil }}); !errors.As(err, new(*SpecError)) {
		t.Errorf("through the spec: %v", err)
	}
}
