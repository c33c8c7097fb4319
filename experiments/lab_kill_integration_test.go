//go:build integration || soak

package experiments_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"specrun/experiments"
	"specrun/experiments/lab"
	"specrun/experiments/record"
	"specrun/experiments/store"
	"specrun/internal/tier"
)

// orders are what a controller process is to do.
type orders struct {
	Host   lab.Host
	Store  string
	Plan   string        // file
	Resume bool          // the only sweep there is, if there is one
	Kill   int           // end at that boundary; 0 = never
	After  time.Duration // end after that time; 0 = never
}

func controller(file string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var o orders
	if err := json.Unmarshal(raw, &o); err != nil {
		return err
	}
	ctx := context.Background()
	db, err := store.Open(ctx, o.Store)
	if err != nil {
		return err
	}
	defer db.Close()
	count := 0
	d := deps(o.Host, db)
	d.Hook = func(experiments.Boundary, record.Event) {
		if count++; count == o.Kill {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	if o.After > 0 {
		time.AfterFunc(o.After, func() { syscall.Kill(os.Getpid(), syscall.SIGKILL) })
	}
	if o.Resume {
		id, err := db.LatestSweep(ctx)
		if err == nil {
			_, err = experiments.Resume(ctx, d, id, experiments.ResumeOptions{})
		}
		if !errors.Is(err, store.ErrNotFound) {
			return err
		} // else it was killed before anything was begun
	}
	text, err := os.ReadFile(o.Plan)
	if err != nil {
		return err
	}
	p, err := experiments.DecodePlan(text)
	if err != nil {
		return err
	}
	p.Spec = json.RawMessage(`{}`)
	_, err = experiments.Execute(ctx, d, p, nil)
	fmt.Println("boundaries", count)
	return err
}

// child runs a controller process; killed says that it ended by SIGKILL.
func child(t *testing.T, o orders) (out string, killed bool) {
	t.Helper()
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "orders.json")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := exec.Command(self, "controller", file).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return string(text), true
	}
	if err != nil {
		t.Fatalf("controller: %v: %s", err, text)
	}
	return string(text), false
}

// killer is one practice host on which controllers are killed. Several of them
// share a machine, so each has a port of its own.
type killer struct {
	lab  *lab.Lab
	plan *experiments.Plan
	file string
}

func newKiller(t *testing.T, edit func(*experiments.Spec), args ...string) *killer {
	t.Helper()
	k := &killer{lab: startLab(t, 0.05, nil), file: filepath.Join(t.TempDir(), "plan.json")}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	k.plan = planFor(t, k.lab.Host(), func(s *experiments.Spec) {
		s.Server.Port = port
		edit(s)
	}, args...)
	text, _, err := k.plan.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(k.file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return k
}

// oneLaunch is a launch with two runs.
func oneLaunch(s *experiments.Spec) { s.Baseline, s.Repeats = nil, 2 }

// kill ends a new sweep's controller as told, resumes it, and checks the end.
func (k *killer) kill(t *testing.T, boundary int, after time.Duration) (out string, killed bool) {
	t.Helper()
	o := orders{Host: k.lab.Host(), Store: filepath.Join(t.TempDir(), "results.db"), Plan: k.file, Kill: boundary, After: after}
	out, killed = child(t, o)
	o.Resume, o.Kill, o.After = true, 0, 0
	child(t, o)
	db := openStore(t, o.Store)
	defer db.Close()
	settled(t, k.lab, db, k.plan)
	return out, killed
}

// TestLab_SIGKILLAtEveryEventBoundaryThenResume kills the real thing at every
// third boundary, in the soak at each. TestResume_AfterAKillAtEveryEventBoundary
// leaves out none, with a host that is imitated.
func TestLab_SIGKILLAtEveryEventBoundaryThenResume(t *testing.T) {
	t.Parallel()
	out, _ := newKiller(t, oneLaunch, "steps=2").kill(t, 0, 0)
	_, number, _ := strings.Cut(strings.TrimSpace(out), "boundaries ")
	boundaries, err := strconv.Atoi(number)
	if err != nil || boundaries < 40 {
		t.Fatalf("%q: %v", out, err)
	}
	t.Logf("%d boundaries", boundaries)
	const hosts = 4
	stride := tier.Stride(3)
	for h := range hosts {
		t.Run(fmt.Sprintf("host %d", h), func(t *testing.T) {
			t.Parallel()
			k := newKiller(t, oneLaunch, "steps=2")
			for n := 1 + h*stride; n <= boundaries; n += hosts * stride {
				if _, killed := k.kill(t, n, 0); !killed || t.Failed() {
					t.Fatalf("boundary %d of %d: killed %v", n, boundaries, killed)
				}
			}
		})
	}
}

func TestLab_SIGKILLAtRandomMomentsThenResume(t *testing.T) {
	t.Parallel()
	k := newKiller(t, func(s *experiments.Spec) { s.Repeats = 2 }, "steps=1..2")
	if k.plan.Runs() != 6 {
		t.Fatalf("%d runs", k.plan.Runs())
	}
	begin := time.Now()
	k.kill(t, 0, 0)
	whole := time.Since(begin)
	killed := 0
	for range moments {
		after := time.Duration(mathrand.Int64N(int64(whole)))
		_, hit := k.kill(t, 0, after)
		if hit {
			killed++
		}
		if t.Failed() {
			t.Fatalf("killed after %v", after)
		}
	}
	t.Logf("%d of %d sweeps of about %v were killed", killed, moments, whole)
}
