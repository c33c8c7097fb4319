//go:build integration || soak

package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// sixRuns is a sweep of six runs in three launches.
func sixRuns(spec string) []string {
	return []string{"sweep", "-f", spec, "steps=1..2", "--rounds", "1", "--repeats", "2", "--host", "lab", "--store", "results.db"}
}

// slots are the finished runs by what they measured; each may be there once.
func (u *user) slots() map[string]int {
	u.t.Helper()
	done := map[string]int{}
	for _, r := range u.does(0, "list", "--runs", "--json", "--store", "results.db").lines(u.t, "run") {
		switch r["state"] {
		case "done":
			done[fmt.Sprint(r["params"], r["baseline"], r["round"], r["repeat"])]++
		case "cut", "superseded":
		default:
			u.t.Errorf("run %v is %v: %v", r["id"], r["state"], r["reason"])
		}
	}
	return done
}

func (u *user) hasSixRuns() {
	u.t.Helper()
	done := u.slots()
	if len(done) != 6 {
		u.t.Errorf("%d slots are filled, want 6: %v", len(done), done)
	}
	for slot, n := range done {
		if n != 1 {
			u.t.Errorf("slot %s is filled %d times", slot, n)
		}
	}
}

// testKills ends the real program by SIGKILL at random moments of a sweep, and
// every other time the resumed one too; resume then fills what is missing.
func testKills(t *testing.T, bin string, moments int) {
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)

	u := newUser(t, bin)
	h := u.startLab(fast)
	spec, port := u.practiceSpec()
	begin := time.Now()
	u.does(0, append(sixRuns(spec), "--store", "whole.db")...)
	whole := time.Since(begin)

	// A moment after the sweep's end is none: draw again.
	kill := func(args ...string) (after time.Duration) {
		for range 20 {
			r := u.start(args...)
			after = time.Duration(random.Int64N(int64(whole)))
			timer := time.AfterFunc(after, func() { r.Process.Signal(syscall.SIGKILL) })
			a := r.end()
			timer.Stop()
			switch a.code {
			case -1:
				return after
			case 0:
				u.removeStore("results.db")
			default:
				t.Fatalf("neither killed nor done: %s", a)
			}
		}
		t.Fatalf("twenty sweeps ended before they were killed")
		return 0
	}
	left := 0 // kills that left something running
	for n := range moments {
		u.removeStore("results.db")
		after := []time.Duration{kill(sixRuns(spec)...)}
		if len(u.launched()) > 0 {
			left++
		}
		if n%2 == 1 && u.begun() { // the resumed one, too, if it is slow enough
			r := u.start("resume", "--store", "results.db")
			after = append(after, time.Duration(random.Int64N(int64(whole))))
			timer := time.AfterFunc(after[1], func() { r.Process.Signal(syscall.SIGKILL) })
			if a := r.end(); a.code > 0 && !nothingLeft(a) {
				t.Errorf("resume is neither killed nor done: %s", a)
			}
			timer.Stop()
		}
		if u.begun() {
			if a := u.run("resume", "--store", "results.db"); a.code != 0 && !nothingLeft(a) {
				t.Errorf("resume after the kill: %s", a)
			}
		} else { // killed before it had begun anything
			u.does(0, sixRuns(spec)...)
		}
		u.hasSixRuns()
		u.leftAlone(h, port)
		if t.Failed() {
			t.Fatalf("moment %d of seed %d: killed after %v", n+1, seed, after)
		}
	}
	t.Logf("killed at %d moments of sweeps of about %v; after %d of them something of the sweep was still running", moments, whole, left)
}

// nothingLeft says that the killed sweep had just ended.
func nothingLeft(a answer) bool { return strings.Contains(a.stderr, "no sweep is left") }

// begun says whether the store holds a sweep.
func (u *user) begun() bool {
	a := u.run("list", "--json", "--store", "results.db")
	if a.code != 0 && !strings.Contains(a.stdout, "no results yet") {
		u.t.Fatal(a)
	}
	return a.code == 0 && len(a.lines(u.t, "sweep")) > 0
}

// testInterrupt is Ctrl-C: it stops cleanly, and resume goes on.
func testInterrupt(t *testing.T, bin string) {
	u := newUser(t, bin)
	h := u.startLab(fast)
	spec, port := u.practiceSpec()
	u.does(0, "apply", "profiling-v3", "--host", "lab")
	venv := filepath.Dir(filepath.Dir(h.Python))
	found := tree(t, venv)

	r := u.start(sixRuns(spec)...)
	r.until("[1/3]")
	must(t, r.Process.Signal(syscall.SIGINT))
	a := r.end()
	if a.code != 130 || !strings.Contains(a.stderr, "specrun resume") {
		t.Fatalf("want exit 130 and how to go on: %s", a)
	}
	sweeps := u.does(0, "list", "--json", "--store", "results.db").lines(t, "sweep")
	if len(sweeps) != 1 || sweeps[0]["state"] != "interrupted" {
		t.Errorf("want one interrupted sweep: %v", sweeps)
	}
	if !portIsFree(port) {
		t.Error("the server was left running")
	}
	// The patches that were there before are there again.
	sameTree(t, found, tree(t, venv))

	u.does(0, "resume", "--store", "results.db")
	u.hasSixRuns()
	sameTree(t, found, tree(t, venv))
	u.does(0, "rollback", "--host", "lab")
	u.leftAlone(h, port)
}
