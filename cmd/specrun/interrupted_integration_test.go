//go:build integration || soak

package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
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
	t.Logf("seed %d", seed)
	u := newUser(t, bin)
	u.startLab(fast)
	spec, _ := u.practiceSpec()
	begin := time.Now()
	u.does(0, append(sixRuns(spec), "--store", "whole.db")...)
	whole := time.Since(begin)

	var left atomic.Int64
	t.Run("moments", func(t *testing.T) { // ends with the last of them
		for n := range moments {
			t.Run(fmt.Sprint(n+1), func(t *testing.T) {
				t.Parallel()
				k := killer{newUser(t, bin), rand.New(rand.NewPCG(seed, uint64(n))), whole}
				if k.test(n%2 == 1) {
					left.Add(1)
				}
			})
		}
	})
	t.Logf("killed at %d moments of sweeps of about %v; after %d of them something of the sweep was still running", moments, whole, left.Load())
}

// killer ends the user's sweeps at moments of the time that a whole one takes.
type killer struct {
	*user
	random *rand.Rand
	whole  time.Duration
}

// test kills a sweep, and the resumed one too if it is told so and that one is slow
// enough. It returns whether something of the first was still running then.
func (k killer) test(twice bool) (left bool) {
	t := k.t
	h := k.startLab(fast)
	spec, port := k.practiceSpec()
	after := []time.Duration{k.sweep(spec)}
	left = len(k.launched()) > 0
	if twice && k.begun() {
		a, moment := k.kill("resume", "--store", "results.db")
		after = append(after, moment)
		if a.code > 0 && !nothingLeft(a) {
			t.Errorf("resume is neither killed nor done: %s", a)
		}
	}
	if k.begun() {
		if a := k.run("resume", "--store", "results.db"); a.code != 0 && !nothingLeft(a) {
			t.Errorf("resume after the kill: %s", a)
		}
	} else { // killed before it had begun anything
		k.does(0, sixRuns(spec)...)
	}
	k.hasSixRuns()
	k.leftAlone(h, port)
	t.Logf("killed after %v", after)
	return left
}

// sweep kills a sweep. A moment after its end is none: then there is another one.
func (k killer) sweep(spec string) (after time.Duration) {
	k.t.Helper()
	for range 20 {
		a, after := k.kill(sixRuns(spec)...)
		switch a.code {
		case -1:
			return after
		case 0:
			k.removeStore("results.db")
		default:
			k.t.Fatalf("neither killed nor done: %s", a)
		}
	}
	k.t.Fatalf("twenty sweeps ended before they were killed")
	return 0
}

// kill runs a command that it ends at a random moment, if it still runs then.
func (k killer) kill(args ...string) (answer, time.Duration) {
	k.t.Helper()
	r := k.start(args...)
	after := time.Duration(k.random.Int64N(int64(k.whole)))
	timer := time.AfterFunc(after, func() { r.Process.Signal(syscall.SIGKILL) })
	defer timer.Stop()
	return r.end(), after
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
