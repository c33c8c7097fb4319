package store

import (
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"specrun/experiments/record"
)

// there and here are two stores: a sweep that was begun here goes on there.
func thereAndHere(t *testing.T) (there, here *Store) {
	t.Helper()
	here = fresh(t)
	if err := here.Begin(t.Context(), plan("s")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "results.db")
	if err := here.Export(t.Context(), "s", path); err != nil {
		t.Fatal(err)
	}
	return open(t, path), here
}

// goOn is begin for a sweep that the store has.
func goOn(t *testing.T, s *Store, launch string) *journal {
	t.Helper()
	j := &journal{t: t, s: s, l: record.Launch{ID: launch, SweepID: "s", Host: "gpu-01", State: record.LaunchActive}}
	j.must(record.Change{Launch: &j.l, SweepID: "s", SweepState: record.SweepActive})
	return j
}

func (j *journal) attach(name, content string) {
	j.t.Helper()
	if _, err := j.s.Attach(j.t.Context(), record.Artifact{LaunchID: j.l.ID, Name: name}, strings.NewReader(content)); err != nil {
		j.t.Fatal(err)
	}
}

// fetch merges as commands do: what is kept first.
func fetch(t *testing.T, there, here *Store) Merged {
	t.Helper()
	missing, err := here.Missing(t.Context(), there, "s")
	if err != nil {
		t.Fatal(err)
	}
	for _, sha := range missing {
		r, _, err := there.Kept(t.Context(), sha)
		if err == nil {
			err = errors.Join(here.Keep(t.Context(), sha, r), r.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	m, err := here.Merge(t.Context(), there, "s")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// same compares all that two stores have of the sweep, but where files lie.
func same(t *testing.T, there, here *Store) {
	t.Helper()
	diff := cmp.Diff(view(t, there, "s"), view(t, here, "s"), cmpopts.EquateEmpty(), cmpopts.EquateNaNs(), cmpopts.IgnoreFields(record.Artifact{}, "Path"))
	if diff != "" {
		t.Errorf("the stores differ (-there +here):\n%s", diff)
	}
}

// At every moment of a sweep that goes on elsewhere a merge brings what there is,
// and a second one nothing.
func TestMerge_AtEveryMomentAndTwice(t *testing.T) {
	t.Parallel()
	there, here := thereAndHere(t)
	var j *journal
	ended := data()
	for _, step := range []struct {
		name string
		do   func()
		runs int
	}{
		{"nothing yet", func() {}, 0},
		{"a launch", func() { j = goOn(t, there, "l1") }, 0},
		{"a run begins", func() { j.must(record.Change{Run: j.run("r1", "s-base-a", 1, record.RunActive)}) }, 1},
		{"it is done", func() { j.must(record.Change{Run: j.run("r1", "s-base-a", 1, record.RunDone), Data: &ended}) }, 1},
		{"a log is kept", func() { j.attach("server.log", "a log\n") }, 0},
		{"two more runs", func() {
			j.must(record.Change{Run: j.run("r2", "s-base-b", 1, record.RunFailed)})
			j.must(record.Change{Run: j.run("r3", "s-one-a", 1, record.RunActive)})
		}, 2},
		{"the process is killed, and another one goes on", func() {
			j.must(record.Change{Run: j.run("r3", "s-one-a", 1, record.RunCut)})
			j = goOn(t, there, "l2")
			j.must(record.Change{Run: j.run("r4", "s-one-a", 2, record.RunDone), Data: &ended})
		}, 2},
		{"a failed run is taken again", func() {
			j.must(record.Change{Supersede: "r2", Run: j.run("r5", "s-base-b", 2, record.RunDone), Data: &ended})
		}, 2},
		{"a label comes later", func() {
			j.must(record.Change{Labels: map[string][]record.Label{"r4": {{Name: "crashed-late", Reason: "after the last response"}}}})
		}, 0},
		{"a quote", func() {
			cells := []record.Cell{{ID: "s-quote", SweepID: "s", Ord: 3, Key: "quote", Params: record.Params{}}}
			if err := there.Extend(t.Context(), "s", cells, []record.Slot{{ID: "s-quote-a", CellID: "s-quote"}}, "s-two"); err != nil {
				t.Fatal(err)
			}
		}, 0},
		{"the end", func() {
			j.l.State = record.LaunchDone
			j.must(record.Change{Launch: &j.l, SweepID: "s", SweepState: record.SweepDone})
		}, 0},
	} {
		step.do()
		if m := fetch(t, there, here); m.Runs != step.runs || m.Stale {
			t.Errorf("%s: %+v, want %d runs", step.name, m, step.runs)
		}
		same(t, there, here)
		if m := fetch(t, there, here); m.Runs != 0 || m.Events != 0 || m.Stale || len(m.Without) > 0 {
			t.Errorf("%s: a second time brings %+v", step.name, m)
		}
		same(t, there, here)
	}
	// A store that has nothing of it gets all at once.
	late := fresh(t)
	if m := fetch(t, there, late); m.Runs != 5 {
		t.Errorf("%+v", m)
	}
	same(t, there, late)
}

// What is older than what is here takes nothing back, and what went on in both
// places is refused as a whole.
func TestMerge_StaleAndDiverged(t *testing.T) {
	t.Parallel()
	there, here := thereAndHere(t)
	goOn(t, there, "l1")
	fetch(t, there, here)
	j := goOn(t, here, "l2")
	ended := data()
	j.must(record.Change{Run: j.run("r1", "s-one-a", 1, record.RunDone), Data: &ended})
	before := view(t, here, "s")
	if m := fetch(t, there, here); !m.Stale {
		t.Errorf("%+v, want stale", m)
	}
	goOn(t, there, "l3")
	_, err := here.Merge(t.Context(), there, "s")
	var diverged *DivergedError
	if !errors.As(err, &diverged) || diverged.SweepID != "s" {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff(before, view(t, here, "s"), cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("something was taken (-before +after):\n%s", diff)
	}
}

func TestMerge_Refuses(t *testing.T) {
	t.Parallel()
	there, here := thereAndHere(t)
	if _, err := here.Merge(t.Context(), there, "x"); !errors.Is(err, ErrNotFound) {
		t.Errorf("unknown sweep: %v", err)
	}
	other := fresh(t)
	p := plan("s")
	p.Sweep.PlanSHA = "cd34"
	if err := other.Begin(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Merge(t.Context(), there, "s"); !errors.Is(err, ErrExists) {
		t.Errorf("another sweep of that id: %v", err)
	}
	goOn(t, there, "l1").attach("server.log", "a log\n")
	if _, err := here.Merge(t.Context(), there, "s"); err == nil || len(view(t, here, "s").Launches) != 0 {
		t.Errorf("a list of files that are not here: %v", err)
	}
	missing, err := here.Missing(t.Context(), there, "s")
	if err != nil || len(missing) != 1 {
		t.Fatalf("%v, %v", missing, err)
	}
	var wrong *HashError
	if err := here.Keep(t.Context(), missing[0], strings.NewReader("a lag\n")); !errors.As(err, &wrong) {
		t.Errorf("other content: %v", err)
	}
}

// Two followers merge while the sweep goes on: both succeed at every moment, and
// nothing is there twice.
func TestMerge_ManyAtOnceWhileItGoesOn(t *testing.T) {
	t.Parallel()
	there, here := thereAndHere(t)
	again := open(t, here.Path())
	done := make(chan struct{})
	var group sync.WaitGroup
	for _, to := range []*Store{here, again} {
		group.Go(func() {
			for last := false; !last; {
				select {
				case <-done:
					last = true
				default:
				}
				if _, err := to.Merge(t.Context(), there, "s"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	j := goOn(t, there, "l1")
	ended := data()
	for i, slot := range plan("s").Slots {
		id := "r" + string(rune('0'+i))
		j.must(record.Change{Run: j.run(id, slot.ID, 1, record.RunActive)})
		j.must(record.Change{Run: j.run(id, slot.ID, 1, record.RunDone), Data: &ended})
	}
	close(done)
	group.Wait()
	same(t, there, here)
}

func TestClaim_ForeverIsNamed(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	begin(t, s, "s")
	if holder, _, err := s.Holder(t.Context(), "s"); holder != "" || err != nil {
		t.Errorf("%q, %v", holder, err)
	}
	if err := s.Claim(t.Context(), "s", "a host", Forever); err != nil {
		t.Fatal(err)
	}
	holder, until, err := s.Holder(t.Context(), "s")
	if holder != "a host" || until != Forever || err != nil {
		t.Errorf("%q until %d, %v", holder, until, err)
	}
	held, err := s.HeldForever(t.Context())
	if diff := cmp.Diff(map[string]string{"s": "a host"}, held); diff != "" || err != nil {
		t.Errorf("%s%v", diff, err)
	}
	err = s.Claim(t.Context(), "s", "somebody", epoch.UnixMicro())
	if err == nil || strings.Contains(err.Error(), "expires") {
		t.Errorf("got %v", err)
	}
}
