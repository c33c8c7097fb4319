package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestLease_OneHolderUntilReleased(t *testing.T) {
	b := newBench(t)
	names := []string{"port-30000", "gpu-all"}
	a := Owner{Launch: "la", Controller: "me@laptop pid 1", What: "sweep x"}
	if err := AcquireLease(t.Context(), b.h, b.state, names, a, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := AcquireLease(t.Context(), b.h, b.state, names, a, time.Minute); err != nil {
		t.Errorf("the same launch again: %v", err)
	}
	// Another controller that goes on with the launch is who is named from then on.
	a.Controller = "me@laptop pid 2"
	if err := AcquireLease(t.Context(), b.h, b.state, names, a, time.Minute); err != nil {
		t.Errorf("the same launch by another controller: %v", err)
	}
	other := Owner{Launch: "lb", Controller: "you@desk"}
	shown := &HeldError{Host: "h", Lease: Lease{Name: "gpu-all", Owner: Owner{Launch: "la", Controller: "pid 7 on desk [boot 1 id 2]"}}}
	if text := shown.Error(); !strings.Contains(text, "by pid 7 on desk for") {
		t.Errorf("not for people: %s", text)
	}
	shown.Lease.Owner.What = "sweep k3v7"
	if hint := shown.Hint(); !strings.Contains(hint, "interrupt that specrun") {
		t.Errorf("a specrun in a terminal: %s", hint)
	}
	shown.Lease.Owner.What = DetachedSweep + "k3v7" // nobody can interrupt that one
	if hint := shown.Hint(); strings.Contains(hint, "interrupt") || !strings.Contains(hint, "specrun resume k3v7 follows it and specrun cancel k3v7 ends it") {
		t.Errorf("a detached one: %s", hint)
	}
	err := AcquireLease(t.Context(), b.h, b.state, []string{"port-30001", "gpu-all"}, other, time.Minute)
	var held *HeldError
	if !errors.As(err, &held) || held.Lease.Owner != a || held.Lease.Name != "gpu-all" || held.Lease.Alive {
		t.Fatalf("err = %v", err)
	}
	// all or none
	list, err := Leases(t.Context(), b.h, b.state)
	if err != nil || len(list) != 2 {
		t.Errorf("leases = %+v, %v", list, err)
	}
	if err := ReleaseLease(t.Context(), b.h, b.state, names, other); err != nil {
		t.Fatal(err)
	}
	if err := RefreshLease(t.Context(), b.h, b.state, names, a, time.Minute); err != nil {
		t.Errorf("a stranger's release took it: %v", err)
	}
	if err := ReleaseLease(t.Context(), b.h, b.state, names, a); err != nil {
		t.Fatal(err)
	}
	if err := AcquireLease(t.Context(), b.h, b.state, names, other, time.Minute); err != nil {
		t.Errorf("after release: %v", err)
	}
	var lost *LeaseLostError
	if err := RefreshLease(t.Context(), b.h, b.state, names, a, time.Minute); !errors.As(err, &lost) {
		t.Errorf("refresh of a lost lease: %v", err)
	}
}

func TestLease_ReclaimsOnlyFromTheControllerThatWasSeen(t *testing.T) {
	b := newBench(t)
	names := []string{"port-30000", "patches-aabb"}
	dead := Owner{Launch: "la", Controller: "me@laptop pid 1"}
	again := Owner{Launch: "la", Controller: "me@laptop pid 2"} // resumed it
	for _, holder := range []Owner{dead, again} {
		if err := AcquireLease(t.Context(), b.h, b.state, names, holder, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	other := Owner{Launch: "lb", Controller: "you"}
	for _, o := range []Owner{dead, {Launch: "lb", Controller: again.Controller}} {
		if err := ReclaimLease(t.Context(), b.h, b.state, names, o); err != nil {
			t.Fatal(err)
		}
		if err := RefreshLease(t.Context(), b.h, b.state, names, again, time.Minute); err != nil {
			t.Errorf("%+v took it: %v", o, err)
		}
	}
	if err := ReclaimLease(t.Context(), b.h, b.state, names, again); err != nil {
		t.Fatal(err)
	}
	if err := AcquireLease(t.Context(), b.h, b.state, names, other, time.Minute); err != nil {
		t.Errorf("reclaimed: %v", err)
	}
}

func TestLease_AllGPUsExcludeEachOne(t *testing.T) {
	b := newBench(t)
	for i, c := range [][2]string{{"gpu-all", "gpu-3"}, {"gpu-3", "gpu-all"}} {
		a, o := Owner{Launch: fmt.Sprint("a", i)}, Owner{Launch: fmt.Sprint("o", i)}
		if err := AcquireLease(t.Context(), b.h, b.state, c[:1], a, time.Minute); err != nil {
			t.Fatal(err)
		}
		var held *HeldError
		if err := AcquireLease(t.Context(), b.h, b.state, c[1:], o, time.Minute); !errors.As(err, &held) || held.Lease.Name != c[0] {
			t.Fatalf("%v: %v", c, err)
		}
		if err := ReleaseLease(t.Context(), b.h, b.state, c[:1], a); err != nil {
			t.Fatal(err)
		}
		if err := AcquireLease(t.Context(), b.h, b.state, c[1:], o, time.Minute); err != nil {
			t.Fatal(err)
		}
		if err := ReleaseLease(t.Context(), b.h, b.state, c[1:], o); err != nil {
			t.Fatal(err)
		}
	}
	a, o := Owner{Launch: "x"}, Owner{Launch: "y"}
	if err := AcquireLease(t.Context(), b.h, b.state, []string{"gpu-0"}, a, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := AcquireLease(t.Context(), b.h, b.state, []string{"gpu-1"}, o, time.Minute); err != nil {
		t.Errorf("another card: %v", err)
	}
}

// expire makes a lease end now, by the host's clock.
func (b *bench) expire(name string) {
	b.t.Helper()
	dirs, err := filepath.Glob(filepath.Join(b.state, "locks", name, "lock.*"))
	if err != nil || len(dirs) == 0 {
		b.t.Fatalf("no lease %s: %v", name, err)
	}
	if err := os.WriteFile(filepath.Join(dirs[len(dirs)-1], "expires"), fmt.Appendln(nil, time.Now().Unix()-1), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func TestLease_ExpiredIsFreeUnlessItsLaunchLives(t *testing.T) {
	b := newBench(t)
	l := b.launch("live", freePort(t), "--silent")
	names := []string{PortLease(l.Port)}
	if err := AcquireLease(t.Context(), b.h, b.state, names, Owner{Launch: l.ID, Controller: "me"}, time.Minute); err != nil {
		t.Fatal(err)
	}
	b.start(l)
	b.expire(names[0])
	other := Owner{Launch: "next"}
	var held *HeldError
	if err := AcquireLease(t.Context(), b.h, b.state, names, other, time.Minute); !errors.As(err, &held) || !held.Lease.Alive || held.Lease.Owner.Launch != l.ID {
		t.Fatalf("err = %v", err)
	}
	if _, err := b.stop("live", StopOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := AcquireLease(t.Context(), b.h, b.state, names, other, time.Minute); err != nil {
		t.Errorf("expired, and its launch is dead: %v", err)
	}
}

func TestLease_ConcurrentTakersOfAnExpiredOne(t *testing.T) {
	b := newBench(t)
	names := []string{"port-1"}
	if err := AcquireLease(t.Context(), b.h, b.state, names, Owner{Launch: "old"}, time.Minute); err != nil {
		t.Fatal(err)
	}
	b.expire("port-1")
	const takers = 6
	got := make(chan error)
	for i := range takers {
		go func() {
			got <- AcquireLease(t.Context(), b.h, b.state, names, Owner{Launch: fmt.Sprint("taker", i)}, time.Minute)
		}()
	}
	var won int
	for range takers {
		err := <-got
		var held *HeldError
		switch {
		case err == nil:
			won++
		case !errors.As(err, &held):
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d of %d hold it", won, takers)
	}
}

func TestLease_MakerThatDiedBeforeItSaidWho(t *testing.T) {
	b := newBench(t)
	dir := filepath.Join(b.state, "locks", "port-9", "lock.1")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	names := []string{"port-9"}
	var held *HeldError
	if err := AcquireLease(t.Context(), b.h, b.state, names, Owner{Launch: "x"}, time.Minute); !errors.As(err, &held) || !held.Lease.Unowned {
		t.Fatalf("err = %v", err)
	}
	old := time.Now().Add(-10 * time.Minute)
	if err := os.Chtimes(dir, old, old); err != nil {
		t.Fatal(err)
	}
	if err := AcquireLease(t.Context(), b.h, b.state, names, Owner{Launch: "x"}, time.Minute); err != nil {
		t.Error(err)
	}
}

func TestLease_RefusesBadNames(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"install-x", "port-../x", "gpu-a b", ""} {
		if err := AcquireLease(t.Context(), b.h, b.state, []string{name}, Owner{Launch: "x"}, time.Minute); err == nil {
			t.Errorf("%q was taken for a name", name)
		}
	}
	if err := AcquireLease(t.Context(), b.h, b.state, []string{"port-1"}, Owner{}, time.Minute); err == nil {
		t.Error("a lease without a launch was given")
	}
}

func TestLease_ALaunchIsReleasedWhole(t *testing.T) {
	b := newBench(t)
	if err := ReleaseLaunch(t.Context(), b.h, b.state, "la"); err != nil {
		t.Errorf("with no leases at all: %v", err)
	}
	mine := []string{"port-30010", "gpu-0", "gpu-GPU-6f"}
	if err := AcquireLease(t.Context(), b.h, b.state, mine, Owner{Launch: "la"}, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := AcquireLease(t.Context(), b.h, b.state, []string{"port-30020", "gpu-1"}, Owner{Launch: "lb"}, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := ReleaseLaunch(t.Context(), b.h, b.state, "la"); err != nil {
		t.Fatal(err)
	}
	left, err := Leases(t.Context(), b.h, b.state)
	if err != nil || len(left) != 2 || left[0].Owner.Launch != "lb" || left[1].Owner.Launch != "lb" {
		t.Errorf("left: %+v, %v", left, err)
	}
}

func TestLease_OneThatIsLeftHoldsWhileItsServerLives(t *testing.T) {
	b := newBench(t)
	l := b.launch("left", freePort(t))
	b.start(l)
	names := []string{"port-30010", "gpu-all"}
	mine, other := Owner{Launch: l.ID, Controller: "me"}, Owner{Launch: "other"}
	if err := AcquireLease(t.Context(), b.h, b.state, names, mine, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := LeaveLease(t.Context(), b.h, b.state, names, mine); err != nil {
		t.Fatal(err)
	}
	var held *HeldError
	if err := AcquireLease(t.Context(), b.h, b.state, names[1:], other, time.Minute); !errors.As(err, &held) || !held.Lease.Alive {
		t.Errorf("while its server lives: %v", err)
	}
	if _, err := b.stopID(l.ID, StopOptions{Grace: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	if err := AcquireLease(t.Context(), b.h, b.state, names[1:], other, time.Minute); err != nil {
		t.Errorf("after its server ended: %v", err)
	}
	var lost *LeaseLostError
	if err := LeaveLease(t.Context(), b.h, b.state, names[1:], mine); !errors.As(err, &lost) {
		t.Errorf("leaving somebody else's: %v", err)
	}
}
