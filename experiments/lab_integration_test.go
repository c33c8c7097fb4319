//go:build integration || soak

package experiments_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"specrun/deploy"
	"specrun/experiments"
	"specrun/experiments/bench"
	"specrun/experiments/lab"
	"specrun/experiments/record"
	"specrun/experiments/store"
	"specrun/patches"
	"specrun/remote"
)

// The test binary is the benchmark worker on the practice host, and a
// controller that ends itself by SIGKILL.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "bench-worker" {
		if err := bench.Serve(context.Background(), os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) > 2 && os.Args[1] == "controller" {
		if err := controller(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// tokenName is the only variable that these controllers have.
const tokenName = "PRACTICE_TEST_TOKEN"

func deps(h lab.Host, r experiments.Recorder) experiments.Deps {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return experiments.Deps{
		Getenv:   func(name string) (string, bool) { return "open-sesame", name == tokenName },
		Recorder: r,
		Hosts: func(ctx context.Context, name string) (*experiments.Host, error) {
			c, err := remote.Dial(ctx, remote.Config{Name: name, Address: h.Address, Port: h.Port, User: h.User,
				IdentityFiles: []string{h.IdentityFile}, KnownHosts: []string{h.KnownHosts}})
			if err != nil {
				return nil, err
			}
			return experiments.Connect(c, experiments.ConnectOptions{StateDir: h.StateDir, Worker: bench.FindWorker(self, self),
				Patches: func(name string) (*patches.Patch, error) { return patches.Lookup(name) }, Library: patches.Library}), nil
		},
		Engines: experiments.Engines, Collect: experiments.Collect, Now: time.Now,
		IDs: func() string {
			var b [5]byte
			rand.Read(b[:])
			return hex.EncodeToString(b[:])
		},
		Controller: experiments.Controller(), ControllerGone: experiments.ControllerGone, Version: "test",
	}
}

func startLab(t *testing.T, scale float64, edit func(*lab.Settings)) *lab.Lab {
	t.Helper()
	s, err := lab.DefaultSettings()
	if err != nil {
		t.Fatal(err)
	}
	s.Scale = scale
	if edit != nil {
		edit(&s)
	}
	l, err := lab.Start(context.Background(), lab.Options{Dir: filepath.Join(t.TempDir(), "lab"), Settings: &s})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return l
}

func planFor(t *testing.T, h lab.Host, edit func(*experiments.Spec), args ...string) *experiments.Plan {
	t.Helper()
	s, err := experiments.LoadSpec(lab.SpecName, lab.Spec())
	if err != nil {
		t.Fatal(err)
	}
	s.Rounds = 1
	if edit != nil {
		edit(s)
	}
	axes, err := experiments.ParseArgs(args)
	if err != nil {
		t.Fatal(err)
	}
	eng, err := experiments.Engines(s.Server.Engine)
	if err != nil {
		t.Fatal(err)
	}
	e, err := experiments.Resolve(s, experiments.Options{Axes: axes, Renderer: eng,
		Host: experiments.HostConfig{Name: "lab", Python: h.Python, Cwd: h.Cwd, StateDir: h.StateDir, Env: h.Env},
		Patches: func(name string) (experiments.PatchRef, error) {
			p, err := patches.Lookup(name)
			if err != nil {
				return experiments.PatchRef{}, err
			}
			return experiments.RefOf(p), nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := experiments.NewPlan(e)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// processes lists what runs with the practice host's settings in its
// environment: servers and benchmark workers.
func processes(t *testing.T, l *lab.Lab) []string {
	t.Helper()
	entries, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		raw, err := os.ReadFile(e)
		if err == nil && strings.Contains(string(raw), "SPECRUN_RUN_ID=") && strings.Contains(string(raw), l.Dir()) {
			cmd, err := os.ReadFile(filepath.Join(filepath.Dir(e), "cmdline"))
			if err == nil && len(cmd) > 0 {
				out = append(out, strings.ReplaceAll(string(cmd), "\x00", " "))
			}
		}
	}
	return out
}

func openStore(t *testing.T, path string) *store.Store {
	t.Helper()
	db, err := store.Open(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// nobodyInstalls checks that no script holds files of the engine. One that was
// ended together with its connection leaves a lock that is stale at once.
func nobodyInstalls(t *testing.T, l *lab.Lab) {
	t.Helper()
	here := remote.Local(remote.LocalConfig{Name: "here", Dir: t.TempDir()})
	defer here.Close()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		locks, err := deploy.LockStatus(context.Background(), here, l.Host().StateDir)
		if err != nil {
			t.Fatal(err)
		}
		held := slices.DeleteFunc(locks, func(k deploy.Lock) bool { return !k.Held })
		if len(held) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("still held: %+v", held)
			return
		}
	}
}

// settled checks the store and the host after a sweep.
func settled(t *testing.T, l *lab.Lab, db *store.Store, p *experiments.Plan) record.SweepView {
	t.Helper()
	ctx := context.Background()
	id, err := db.LatestSweep(ctx)
	if err != nil {
		t.Fatal(err)
	}
	v, err := db.View(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	done := map[string]int{}
	for _, r := range v.Runs {
		switch r.State {
		case record.RunDone:
			done[r.SlotID]++
		case record.RunFailed:
			t.Errorf("run %s failed: %s: %s", r.ID, r.Class, r.Reason)
		case record.RunActive:
			t.Errorf("run %s is active", r.ID)
		}
	}
	if len(done) != p.Runs() {
		t.Errorf("%d slots are done, want %d", len(done), p.Runs())
	}
	for slot, n := range done {
		if n != 1 {
			t.Errorf("slot %s is done %d times", slot, n)
		}
	}
	if left := processes(t, l); len(left) > 0 {
		t.Errorf("left running: %v", left)
	}
	locks, err := filepath.Glob(filepath.Join(l.Host().StateDir, "locks", "*", "lock.*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, lock := range locks {
		if strings.HasPrefix(filepath.Base(filepath.Dir(lock)), "install-") {
			continue
		}
		if _, err := os.Stat(filepath.Join(lock, "released")); errors.Is(err, os.ErrNotExist) {
			t.Errorf("still held: %s", lock)
		}
	}
	nobodyInstalls(t, l)
	return v
}

func TestLab_SweepMeasuresWhatTheModelSays(t *testing.T) {
	t.Parallel()
	l := startLab(t, 1, nil)
	p := planFor(t, l.Host(), nil, "steps=1..2")
	db := openStore(t, filepath.Join(t.TempDir(), "results.db"))
	defer db.Close()
	d := deps(l.Host(), db)
	d.OnEvent = func(p experiments.Progress) {
		if p.Message != "" {
			t.Log(p.Step, p.Phase, p.Message)
		}
	}
	sum, err := experiments.Execute(context.Background(), d, p, nil)
	if err != nil || sum.State != record.SweepDone {
		t.Fatalf("%+v, %v", sum, err)
	}
	v := settled(t, l, db, p)
	for _, r := range v.Runs {
		m := map[string]float64{}
		for _, x := range v.Data[r.ID].Metrics {
			m[x.Name+" "+x.Source] = x.Value
		}
		t.Logf("%s: total %.2f accept %.3f throughput %.1f labels %v", r.SlotID, m["cycle_total profiler"], m["accept_len profiler"], m["output_throughput client"], v.Data[r.ID].Labels)
		if r.SlotID[len(r.SlotID)-8:] == "c2.r0.p0" && m["cycle_total profiler"] == 0 {
			t.Error("no cycle was counted")
		}
		labels := map[string]bool{}
		for _, label := range v.Data[r.ID].Labels {
			labels[label.Name] = true
		}
		if !labels["simulated"] {
			t.Errorf("run %s is not labelled simulated: %v", r.ID, v.Data[r.ID].Labels)
		}
	}
}

func TestLab_FailingCellsAreResults(t *testing.T) {
	t.Parallel()
	one, two, three := 1, 2, 3
	l := startLab(t, 0.05, func(s *lab.Settings) {
		s.Failures = []lab.Failure{{Kind: lab.Crash, Steps: &one}, {Kind: lab.NeverReady, Steps: &two}, {Kind: lab.Stall, Steps: &three, AfterTokens: 40}}
	})
	p := planFor(t, l.Host(), func(s *experiments.Spec) {
		s.Server.Ready = experiments.Ready{Timeout: 3 * time.Second, Stall: 3 * time.Second}
	},
		"steps=1..4", "bench.stall=1s")
	db := openStore(t, filepath.Join(t.TempDir(), "results.db"))
	defer db.Close()
	sum, err := experiments.Execute(context.Background(), deps(l.Host(), db), p, nil)
	if err != nil || sum.Failed != 3 || sum.Done != 2 {
		t.Fatalf("%+v, %v", sum, err)
	}
	v, err := db.View(context.Background(), sum.SweepID)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range v.Runs {
		t.Logf("%s %s %s: %s", r.SlotID, r.State, r.Class, r.Reason)
		if r.State == record.RunFailed && (r.Class == record.ClassInternal || r.Reason == "") {
			t.Errorf("%+v", r)
		}
	}
	if left := processes(t, l); len(left) > 0 {
		t.Errorf("left running: %v", left)
	}
}
