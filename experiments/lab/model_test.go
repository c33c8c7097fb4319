package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// newEnvironment is a practice environment. All tests have the same one, since
// compiling it takes longer than most of them: one that changes its files takes
// ownEnvironment.
func newEnvironment(t *testing.T) environment {
	t.Helper()
	e, err := sharedEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

var sharedEnvironment = sync.OnceValues(func() (environment, error) {
	return installFresh(filepath.Join(scratch, "venv"))
})

// ownEnvironment installs an environment for one test.
func ownEnvironment(t *testing.T) environment {
	t.Helper()
	e, err := installFresh(filepath.Join(t.TempDir(), "venv"))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func installFresh(dir string) (environment, error) {
	e, fresh, err := install(context.Background(), dir, "")
	if err == nil && !fresh {
		err = errors.New("an empty folder held an environment")
	}
	return e, err
}

// cleanEnv is the environment that test processes get: nothing of the
// developer's but PATH.
func cleanEnv(settings string, extra ...string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "NCCL_PROTO=LL",
		"SPECRUN_LAB_SETTINGS=" + settings}, extra...)
}

// runScript runs a script of testdata and decodes the JSON that it prints.
func runScript(t *testing.T, e environment, s Settings, out any, name string, args ...string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "settings.json")
	if err := s.write(path); err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(e.python(), append([]string{script}, args...)...)
	cmd.Env = cleanEnv(path, "PYTHONDONTWRITEBYTECODE=1")
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", name, withStderr(err))
	}
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatalf("%s printed %q: %v", name, text, err)
	}
}

func quiet(t *testing.T) Settings {
	t.Helper()
	s, err := DefaultSettings()
	if err != nil {
		t.Fatal(err)
	}
	s.CycleNoise, s.LaunchNoise = 0, 0
	return s
}

type row struct {
	Total, Draft, Verify, Extend, Other float64
	Tokens, Resets                      int
}

// The arithmetic of the emulated device, on its own clock: exact.
func TestCycle(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	s := quiet(t)
	slow := s
	slow.SyncCost = 4.1
	sloped := s
	sloped.ContextSlope = 100 // at 1,000 tokens verify takes twice its time
	for _, c := range []struct {
		name     string
		settings Settings
		steps    int
		probe    string
		want     row
	}{
		{"one step", s, 1, "light", row{Total: 17.9, Draft: 0.5, Verify: 17.2, Extend: 0.2}},
		{"two steps", s, 2, "light", row{Total: 20.1, Draft: 0.5, Verify: 19.4, Extend: 0.2}},
		{"three steps", s, 3, "light", row{Total: 22.3, Draft: 0.5, Verify: 21.6, Extend: 0.2}},
		{"four steps", s, 4, "light", row{Total: 24.5, Draft: 0.5, Verify: 23.8, Extend: 0.2}},
		{"events", s, 2, "events", row{Total: 20.1, Draft: 1.4, Verify: 18.0, Extend: 0.7}},
		{"synchronized", s, 2, "sync", row{Total: 22.8, Draft: 2.15, Verify: 18.95, Extend: 0.95, Other: 0.75}},
		{"slow synchronize", slow, 2, "sync", row{Total: 45.9, Draft: 6.0, Verify: 22.8, Extend: 4.8, Other: 12.3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got row
			runScript(t, e, c.settings, &got, "cycles.py", fmt.Sprint(c.steps), c.probe, "100")
			for _, f := range []struct {
				name      string
				got, want float64
			}{
				{"total", got.Total, c.want.Total}, {"draft", got.Draft, c.want.Draft},
				{"verify", got.Verify, c.want.Verify}, {"extend", got.Extend, c.want.Extend},
				{"other", got.Other, c.want.Other},
			} {
				if math.Abs(f.got-f.want) > 1e-6 {
					t.Errorf("%s: got %.6f ms, want %.6f", f.name, f.got, f.want)
				}
			}
			if want := c.settings.AcceptLength(c.steps) * 100; math.Abs(float64(got.Tokens)-want) > want/100 {
				t.Errorf("tokens of 100 cycles: got %d, want %.1f within 1 %%", got.Tokens, want)
			}
			syncs := map[string]int{"sync": 2}[c.probe]
			if model := c.settings.Cycle(c.steps, true, syncs); math.Abs(model-c.want.Total) > 1e-6 {
				t.Errorf("Settings.Cycle: got %.6f, want %.6f", model, c.want.Total)
			}
		})
	}
	t.Run("context slope", func(t *testing.T) {
		var flat, steep row
		runScript(t, e, s, &flat, "cycles.py", "1", "light", "500")
		runScript(t, e, sloped, &steep, "cycles.py", "1", "light", "500")
		// Mean context of these cycles: 10 prompt tokens, then 1.56 a cycle.
		want := 16.5 * (10 + 1.56*500/2) / 1000
		if got := steep.Total - flat.Total; math.Abs(got-want) > 0.05*want {
			t.Errorf("verify got %.3f ms slower by context, want about %.3f", got, want)
		}
	})
}

// A process that stood still catches up, unless it is too late for that.
func TestLateProcess(t *testing.T) {
	t.Parallel()
	var got []struct {
		Total        float64
		Resets, Done int
	}
	runScript(t, newEnvironment(t), quiet(t), &got, "late.py", "0", "40", "59", "61", "500")
	for i, want := range []struct {
		total  float64
		resets int
	}{{100, 0}, {100, 0}, {100, 0}, {151, 1}, {590, 1}} { // a read was due 10 ms after the pause began
		if math.Abs(got[i].Total-want.total) > 1e-6 || got[i].Resets != want.resets || got[i].Done != 10 {
			t.Errorf("pause %d: got %+v, want %+v and 10 pieces of work done", i, got[i], want)
		}
	}
}

func TestAcceptance(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	s := quiet(t)
	var got map[string]struct{ Mean, Worst100, Worst25 float64 }
	runScript(t, e, s, &got, "acceptance.py")
	for steps, want := range map[int]float64{1: 1.56, 2: 1.8736, 3: 1.952, 4: 1.96768} {
		g := got[fmt.Sprint(steps)]
		if math.Abs(g.Mean-want) > 0.001 || math.Abs(s.AcceptLength(steps)-want) > 1e-9 {
			t.Errorf("%d steps: accept length got %.4f, model %.4f, want %.4f", steps, g.Mean, s.AcceptLength(steps), want)
		}
		if g.Worst100 > 0.01 || g.Worst25 > 0.06 {
			t.Errorf("%d steps: 100 cycles deviate by up to %.4f, 25 by up to %.4f", steps, g.Worst100, g.Worst25)
		}
	}
}

// The numbers that documentation gives for the default settings.
func TestModel(t *testing.T) {
	s := quiet(t)
	rate := func(steps int, lowLatency bool) float64 { // of one request, in tok/s
		return 1000 * s.AcceptLength(steps) / s.Cycle(steps, lowLatency, 0)
	}
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"1 step, tok/s", rate(1, true), 87.2},
		{"2 steps, tok/s", rate(2, true), 93.2},
		{"3 steps, tok/s", rate(3, true), 87.5},
		{"4 steps, tok/s", rate(4, true), 80.3},
		{"no speculation, tok/s", rate(0, true), 88.5},
		{"2 steps without LL, ms", s.Cycle(2, false, 0), 30.0},
		{"2 steps without LL, tok/s", rate(2, false), 62.5},
		{"no speculation without LL, tok/s", rate(0, false), 82.0},
		{"synchronized, 1 step", s.Cycle(1, true, 2) / s.Cycle(1, true, 0), 1.15},
		{"synchronized, 3 steps", s.Cycle(3, true, 2) / s.Cycle(3, true, 0), 1.12},
		{"synchronized, 4 steps", s.Cycle(4, true, 2) / s.Cycle(4, true, 0), 1.11},
	} {
		if math.Abs(c.got-c.want) > 0.0051*c.want {
			t.Errorf("%s: got %.3f, want %.2f", c.what, c.got, c.want)
		}
	}
}

func TestSettings(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s.json")
	for _, c := range []struct{ name, text, want string }{
		{"unknown key", `{"scael": 2}`, "scael"},
		{"no scale", `{"scale": 0}`, "scale"},
		{"negative time", `{"extend_ms": -1}`, "extend_ms"},
		{"no acceptance", `{"acceptance": []}`, "acceptance"},
		{"not a probability", `{"acceptance": [0.5, 1.5]}`, "position 2"},
		{"unknown failure", `{"failures": [{"kind": "explode"}]}`, "explode"},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadSettings(path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error that names %q", c.name, err, c.want)
		}
	}
	want := quiet(t)
	steps := 0
	want.Failures = []Failure{{Kind: Crash, Steps: &steps}}
	if err := want.write(path); err != nil {
		t.Fatal(err)
	}
	got, err := ReadSettings(path)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprintf("%+v", got.Acceptance) != fmt.Sprintf("%+v", want.Acceptance) || len(got.Failures) != 1 ||
		*got.Failures[0].Steps != 0 || got.CycleNoise != 0 {
		t.Errorf("read back %+v", got)
	}
}
