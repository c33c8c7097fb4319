//go:build soak

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A sweep that goes on by itself, of which followers, fetches and the process on the
// host are killed at random moments, a second laptop fetching as well: at the end each
// run is there once, and nothing of it is left on the host.
func TestSoakDetachedKillsAtRandomMoments(t *testing.T) {
	const kills, rounds = 30, 6
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	within := func(d time.Duration) { time.Sleep(time.Duration(random.Int64N(int64(d)))) }
	u := newUser(t, buildSpecrun(t))
	h := u.startLab(fast)
	spec, port := u.practiceSpec()
	sweep := []string{"sweep", "-f", spec, "steps=1..2", "--rounds", fmt.Sprint(rounds), "--repeats", "2", "--host", "lab", "--store", "results.db"}
	r := u.start(append(sweep, "--detach")...)
	r.until("goes on on lab by itself")
	must(t, r.Process.Signal(syscall.SIGKILL))
	r.end()
	id := u.newestSweep()
	dir := filepath.Join(h.StateDir, "detached", id)
	made := map[string]int{}
	for n := 0; n < kills; n++ {
		if _, err := os.Stat(dir); err != nil {
			t.Logf("it had ended after %d kills", n)
			break
		}
		kind, limit, args := "follower", 2*time.Second, []string{"resume", id, "--store", "results.db"}
		switch n % 3 {
		case 1:
			kind, limit, args = "fetch", 400*time.Millisecond, []string{"list", "--host", "lab", "--store", []string{"results.db", "other.db"}[random.IntN(2)]}
		case 2:
			kind, limit = "process on the host", time.Second
		}
		made[kind]++
		if n%3 == 2 {
			within(limit)
			killIfThere(t, dir)
		} else {
			r := u.start(args...)
			within(limit)
			must(t, r.Process.Signal(syscall.SIGKILL))
			r.end()
		}
		u.does(0, "list", "--store", "results.db")
	}
	t.Logf("killed: %v", made)
	// Of the last kill something may have been left to be undone first.
	var a answer
	for range 3 {
		if a = u.run("resume", id, "--store", "results.db"); a.code == 0 {
			break
		}
		t.Logf("resume: %s", a)
	}
	if a.code != 0 {
		t.Errorf("it does not come to its end: %s", a)
	}
	done := u.slots()
	if len(done) != 3*rounds*2 {
		t.Errorf("%d slots are filled, want %d", len(done), 3*rounds*2)
	}
	for slot, n := range done {
		if n != 1 {
			t.Errorf("slot %s is filled %d times", slot, n)
		}
	}
	u.leftAlone(h, port)
	if dirs := u.detached(h); len(dirs) > 0 {
		t.Errorf("left on the host: %v", dirs)
	}
	u.does(0, "list", "--host", "lab", "--store", "other.db")
}

// killIfThere is killOnHost for a process that may have ended a moment ago.
func killIfThere(t *testing.T, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "identity"))
	if err != nil {
		return
	}
	var boot string
	var pid int
	if _, err := fmt.Sscan(string(text), &boot, &pid); err != nil {
		t.Fatal(err)
	}
	// The number may be another process's by now.
	if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && bytes.Contains(line, []byte(dir)) {
		must(t, syscall.Kill(pid, syscall.SIGKILL))
	}
}
