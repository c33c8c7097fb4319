package experiments

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"specrun/deploy/server"
	"specrun/experiments/record"
	"specrun/internal/tier"
)

// sharedEngine are two interpreters that see one checkout, and one more that
// sees its own.
func sharedEngine(theirs ...PatchRef) *fakeEngines {
	return &fakeEngines{
		sees:   map[string][]string{"/v/a": {"/src/worker.py"}, "/v/b": {"/src/worker.py"}, "/v/c": {"/c/worker.py"}},
		stacks: map[string][]PatchRef{"/src/worker.py": theirs},
	}
}

// What the sweep did through one interpreter is not what it found through
// another one that sees the same files.
func TestExecute_InterpretersOfOneCheckoutArePutBackTogether(t *testing.T) {
	t.Parallel()
	theirs := []PatchRef{{Name: "theirs", SHA256: "x"}}
	for _, before := range [][]PatchRef{nil, theirs} {
		r := newRig(t)
		r.w.engines = sharedEngine(before...)
		p := r.plan(func(s *Spec) { s.Baseline = nil }, "steps=2", "python=/v/a,/v/b,/v/c")
		sum, err := Execute(context.Background(), r.deps(), p, nil)
		if err != nil || sum.Done != 3 || len(sum.Notes) > 0 {
			t.Fatalf("%+v, %v", sum, err)
		}
		for file, want := range map[string][]PatchRef{"/src/worker.py": before, "/c/worker.py": nil} {
			if got := r.w.engines.stacks[file]; !samePatches(got, want) {
				t.Errorf("%s was left with %v, found with %v", file, got, want)
			}
		}
		found := 0
		for _, e := range r.view().Events {
			if e.Step == stepFound {
				found++
			}
		}
		if found != 1 {
			t.Errorf("what was found is recorded %d times", found)
		}
	}
}

func TestResume_PutsBackWhatTheFirstControllerFound(t *testing.T) {
	t.Parallel()
	for n := 1; ; n += tier.Every(9) {
		r := newRig(t)
		r.w.engines = sharedEngine()
		p := r.plan(func(s *Spec) { s.Baseline = nil }, "steps=2", "python=/v/a,/v/b")
		r.killAt(n)
		if _, _, lived := r.execute(p); lived {
			break
		}
		r.hook = nil
		sum, err, _ := r.resume(ResumeOptions{})
		if err != nil || sum.Done != 2 || len(r.w.engines.stacks["/src/worker.py"]) > 0 {
			t.Fatalf("killed at boundary %d: %+v, %v, %v", n, sum, err, r.w.engines.stacks)
		}
	}
}

func TestExecute_TwoSweepsOnOneCheckoutExcludeEachOther(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.w.engines = sharedEngine()
	other := newRig(t)
	other.w, other.ids = r.w, 100
	single := func(r *rig, python, patches string, gpu int) *Plan {
		return r.plan(func(s *Spec) { s.Baseline, s.Server.GPUs = nil, []int{gpu} }, "steps=2", "python="+python, "patches="+patches)
	}
	var refused, free error
	r.hook = func(b Boundary, e record.Event) {
		if b == AfterEvent && e.Step == stepStart && e.Kind == record.EventIntent && refused == nil {
			_, refused = Execute(context.Background(), other.deps(), single(other, "/v/b", "none", 1), nil)
			_, free = Execute(context.Background(), other.deps(), single(other, "/v/c", "none", 1), nil)
		}
	}
	if sum, err := Execute(context.Background(), r.deps(), single(r, "/v/a", "profiling-v4", 0), nil); err != nil || sum.Done != 1 {
		t.Fatalf("%+v, %v", sum, err)
	}
	var held *server.HeldError
	if !errors.As(refused, &held) || held.Lease.Owner.Launch != r.sweep {
		t.Errorf("on the same files: %v", refused)
	}
	if errors.As(free, &held) {
		t.Errorf("on other files: %v", free)
	}
}

// An interpreter that cannot be read fails its own cells, and is not patched
// when it can be read later: what was there is not known.
func TestExecute_AnUnreadableInterpreterFailsItsCellsOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.w.engines = sharedEngine()
	delete(r.w.engines.sees, "/v/c")
	p := r.plan(func(s *Spec) { s.Baseline = nil }, "steps=2", "python=/v/a,/v/c")
	r.w.onStart = func(server.Launch) { r.w.engines.sees["/v/c"] = []string{"/c/worker.py"} }
	sum, err := Execute(context.Background(), r.deps(), p, nil)
	if err != nil || sum.Done != 1 || sum.Failed != 1 || len(r.w.engines.stacks["/c/worker.py"]) > 0 {
		t.Fatalf("%+v, %v, %v", sum, err, r.w.engines.stacks)
	}
}

// With a change open no file is what it seems: what it comes to is what was
// found.
func TestExecute_WhatWasCutOffIsSettledBeforeItIsFound(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	theirs := []PatchRef{{Name: "theirs", SHA256: "x"}}
	r.w.patches, r.w.open = theirs, true
	sum, err := Execute(context.Background(), r.deps(), r.plan(nil, "steps=2"), nil)
	if err != nil || sum.Done != 2 || r.w.recovers != 1 {
		t.Fatalf("%+v, %v, %d recoveries", sum, err, r.w.recovers)
	}
	if !samePatches(r.w.patches, theirs) {
		t.Errorf("left with %v", r.w.patches)
	}
}

// An interrupt in the middle of a commit leaves it open: its files look like
// none of ours, and are.
func TestExecute_AnInterruptedChangeIsNotTakenForNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx, cancel := context.WithCancel(context.Background())
	p := r.plan(func(s *Spec) { s.Baseline = nil }, "steps=2")
	r.w.patchErr = func(set []PatchRef) error {
		if ctx.Err() != nil {
			return nil
		}
		cancel()
		r.w.patches, r.w.open = set, true
		return ctx.Err()
	}
	_, err := Execute(ctx, r.deps(), p, nil)
	var interrupted *InterruptedError
	if !errors.As(err, &interrupted) {
		t.Fatalf("%v", err)
	}
	if r.w.open || len(r.w.patches) > 0 {
		t.Errorf("left with %v, open %v", r.w.patches, r.w.open)
	}
}

func TestExecute_SaysWhenSomebodyElseChangedAFile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.w.engines = sharedEngine()
	r.w.onStart = func(server.Launch) { r.w.engines.touched = true }
	sum, err := Execute(context.Background(), r.deps(), r.plan(func(s *Spec) { s.Baseline = nil }, "steps=2", "python=/v/a"), nil)
	if err != nil || len(sum.Notes) != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
}

// Who applies a patch while the sweep runs has to learn that it is gone.
func TestExecute_SaysWhichPatchesOfOthersItRemoved(t *testing.T) {
	t.Parallel()
	theirs := PatchRef{Name: "by-hand", SHA256: digest([]byte("by hand"))}
	for name, axes := range map[string][]string{"at the end": {"steps=2"}, "for the next launch": {"steps=2,3"}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			applied := false
			r.w.onStart = func(server.Launch) {
				if !applied {
					r.w.patches, applied = append(slices.Clone(r.w.patches), theirs), true
				}
			}
			sum, err := Execute(context.Background(), r.deps(), r.plan(func(s *Spec) { s.Baseline = nil }, axes...), nil)
			if err != nil || len(r.w.patches) > 0 {
				t.Fatalf("%v, left with %v", err, r.w.patches)
			}
			if len(sum.Notes) != 1 || !strings.Contains(sum.Notes[0], "by-hand") {
				t.Errorf("notes: %q", sum.Notes)
			}
		})
	}
}

// fullDisk records nothing any more once it has recorded some events.
type fullDisk struct {
	Recorder
	left *int
}

func (f fullDisk) Record(ctx context.Context, e record.Event, c record.Change) error {
	if *f.left--; *f.left < 0 {
		return errors.New("disk full")
	}
	return f.Recorder.Record(ctx, e, c)
}

// What cannot be recorded is undone all the same: the host is not ours to keep.
func TestExecute_PutsTheHostBackWithoutARecord(t *testing.T) {
	t.Parallel()
	restored := 0
	for n := 1; ; n++ {
		r := newRig(t)
		d := r.deps()
		left := n
		d.Recorder = fullDisk{r.mem, &left}
		p := r.plan(func(s *Spec) { s.Baseline = nil }, "steps=2")
		_, err := Execute(context.Background(), d, p, nil)
		if left >= 0 {
			break
		}
		if got := r.w.leftovers(); len(got) > 0 || len(r.w.patches) > 0 {
			t.Errorf("disk full after %d events: left with %v and patches %v", n, got, r.w.patches)
		}
		var open *OpenError
		if !errors.As(err, &open) {
			t.Errorf("disk full after %d events: %v", n, err)
		} else if strings.Contains(err.Error(), "gpu-01: the patches for") && strings.Contains(err.Error(), "as the sweep found them") {
			restored++
		}
	}
	if restored == 0 {
		t.Error("no error says that the patches are back")
	}
}

func TestExecute_SaysThatTheHostIsStillPatched(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d, left := r.deps(), 1000
	d.Recorder = fullDisk{r.mem, &left}
	r.w.patchErr = func(set []PatchRef) error {
		if len(set) == 0 {
			return errors.New("read-only file system")
		}
		left = 0
		return nil
	}
	_, err := Execute(context.Background(), d, r.plan(func(s *Spec) { s.Baseline = nil }, "steps=2"), nil)
	var still *StillPatchedError
	if !errors.As(err, &still) || !strings.Contains(err.Error(), "gpu-01 is still patched") || !strings.Contains(err.Error(), "specrun rollback --host gpu-01") ||
		!strings.Contains(err.Error(), "disk full") || !strings.Contains(err.Error(), "read-only file system") {
		t.Errorf("%v", err)
	}
}
