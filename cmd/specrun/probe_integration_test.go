//go:build integration || soak

package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"specrun/experiments/lab"
)

const handPatch = `name: hand
version: "1"
summary: one synchronize after the draft
probe: sync
engine: sglang
targets:
  - module: sglang.srt.speculative.eagle_worker
    requires: [{ class: EAGLEWorker, methods: [draft] }]
    kind: append
    content: [hand.py]
`

const handCode = `

def _hand(cls):
    import torch
    draft = cls.draft

    def drafted(self, *args, **kwargs):
        out = draft(self, *args, **kwargs)
        torch.cuda.synchronize()
        return out

    cls.draft = drafted


_hand(EAGLEWorker)
`

// startQuietLab starts a practice host whose launches do not differ, so that a few
// are enough to compare a probe with what the settings imply.
func (u *user) startQuietLab(edit func(*lab.Settings)) (model lab.Settings) {
	u.t.Helper()
	u.startLab(func(s *lab.Settings) {
		s.LaunchNoise, s.CycleNoise, s.Behind = 0, 0, 1000
		edit(s)
		model = *s
	})
	return model
}

// costOfV3 is R - 1 of profiling-v3.
func costOfV3(s lab.Settings) float64 { return s.Cycle(2, true, 2)/s.Cycle(2, true, 0) - 1 }

func testProbeShipped(t *testing.T, bin string) {
	u := newUser(t, bin)
	model := u.startQuietLab(func(*lab.Settings) {})
	measured(t, func(c *claims) {
		v3 := u.probe("profiling-v3", 3)
		c.within("R - 1 of profiling-v3", v3.ratio-1, costOfV3(model), 0.1)
		c.within("R - 1 of profiling-v3 as the issue says it", v3.ratio-1, 0.134, 0.1)
		c.within("ms a cycle of profiling-v3", v3.msPerCycle, model.Cycle(2, true, 2)-model.Cycle(2, true, 0), 0.1)
		if v3.verdict != "distorts" || v3.numbers["cycle_total"] != "not usable" || v3.numbers["accept_len"] != "usable" {
			c.errorf("profiling-v3: %+v", v3)
		}
	})
	measured(t, func(c *claims) {
		v4 := u.probe("profiling-v4", 3)
		// On a machine with other work the interval may be wider than the 2 %.
		if math.Abs(v4.ratio-1) >= 0.02 || v4.verdict == "distorts" || (v4.verdict == "negligible") != (v4.numbers["cycle_total"] == "usable") {
			c.errorf("profiling-v4: %+v", v4)
		}
	})
}

// testProbeOwn: one synchronize after the draft waits for the device, so that the
// host's work before the verify is no longer hidden behind it.
func testProbeOwn(t *testing.T, bin string) {
	u := newUser(t, bin)
	model := u.startQuietLab(func(*lab.Settings) {})
	must(t, os.Mkdir(filepath.Join(u.dir, "hand"), 0o700))
	u.write("hand/patch.yaml", handPatch)
	u.write("hand/hand.py", handCode)
	measured(t, func(c *claims) {
		// It is small, so a busy machine's delays at the end of a request weigh less in longer ones.
		hand := u.probe("./hand", 2, "bench.max_tokens=208")
		c.within("R - 1 of one synchronize after the draft", hand.ratio-1, (model.HostVerify+model.SyncCost)/model.Cycle(2, true, 0), 0.1)
		c.within("R - 1 of one synchronize as the issue says it", hand.ratio-1, 0.047, 0.1)
	})
}

func testProbeDear(t *testing.T, bin string) {
	u := newUser(t, bin)
	model := u.startQuietLab(func(s *lab.Settings) { s.SyncCost = 4.1 })
	measured(t, func(c *claims) {
		dear := u.probe("profiling-v3", 2)
		c.within("R - 1 of profiling-v3 at 4.1 ms a synchronize", dear.ratio-1, costOfV3(model), 0.1)
		c.within("R - 1 of profiling-v3 at 4.1 ms as the issue says it", dear.ratio-1, 1.284, 0.1)
	})
}

// probeResult is what a probe said.
type probeResult struct {
	ratio, msPerCycle float64
	verdict           string
	numbers           map[string]any
}

// probe measures a patch over so many pairs of launches.
func (u *user) probe(patch string, rounds int, values ...string) probeResult {
	u.t.Helper()
	args := append([]string{"probe", patch, "--rounds", fmt.Sprint(rounds), "--host", "lab", "--store", "probes.db", "--json"}, values...)
	lines := u.does(0, args...).lines(u.t, "probe")
	if len(lines) != 1 {
		u.t.Fatalf("%d lines of type probe", len(lines))
	}
	out := probeResult{}
	out.ratio, _ = number(lines[0], "ratio")
	out.msPerCycle, _ = number(lines[0], "ms_per_cycle")
	out.verdict, _ = lines[0]["verdict"].(string)
	out.numbers, _ = lines[0]["numbers"].(map[string]any)
	return out
}

// testKilledQuotable ends a sweep by SIGKILL while it repeats its best cell for
// quoting; the resumed one repeats the same cell, each round once.
func testKilledQuotable(t *testing.T, bin string) {
	for _, at := range []string{"[2/2]", "[3/4]"} { // the plan's last launch, the first of the quote
		t.Run("at "+at, func(t *testing.T) {
			t.Parallel()
			u := newUser(t, bin)
			h := u.startLab(fast)
			spec, port := u.practiceSpec()
			r := u.start("sweep", "-f", spec, "steps=2", "bench.quotable=true", "--no-baseline", "--rounds", "2", "--host", "lab", "--store", "results.db")
			r.until(at)
			must(t, r.Process.Signal(syscall.SIGKILL))
			if a := r.end(); a.code != -1 {
				t.Fatalf("not killed: %s", a)
			}
			u.does(0, "resume", "--store", "results.db")
			done := map[string]int{}
			for _, run := range u.does(0, "list", "--runs", "--json", "--store", "results.db").lines(t, "run") {
				if run["state"] == "done" {
					params, _ := run["params"].(map[string]any)
					done[fmt.Sprintf("%v in %v", params["patches"], run["round"])]++
				}
			}
			if fmt.Sprint(done) != "map[<nil> in 1:1 <nil> in 2:1 none in 3:1 none in 4:1]" {
				t.Errorf("runs by patches and round: %v", done)
			}
			u.leftAlone(h, port)
		})
	}
}
