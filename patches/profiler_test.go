package patches_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"specrun/patches"
)

func TestProfiler_CountsExactlyTheCyclesThatCount(t *testing.T) {
	for _, worker := range []string{"v1", "v2"} {
		t.Run(worker, func(t *testing.T) {
			t.Parallel()
			b := newBehaviour(t, worker)
			o := b.run(t, standIn(t, worker))
			if err := b.compare(o); err != nil {
				t.Fatalf("seed %d: %v\n%s", b.Seed, err, o.out)
			}
			if n := strings.Count(o.out, " active in "); n != 1 {
				t.Errorf("says %d times that it is active", n)
			}
			first := o.rows[0]
			if first.Partial || first.Cycles != 50 {
				t.Errorf("first row: %d cycles, partial %t", first.Cycles, first.Partial)
			}
			skipped := map[string]int{}
			for _, r := range o.rows {
				for why, n := range r.Skipped {
					skipped[why] += n
				}
			}
			if skipped["warmup"] != 16 || skipped["prefill"] == 0 || skipped["batch_change"] == 0 || skipped["idle"] == 0 {
				t.Errorf("skipped %v", skipped)
			}
			if o.end.Syncs != 0 {
				t.Errorf("profiling-v4 synchronized %d times", o.end.Syncs)
			}
			want := "wall"
			if worker == "v2" {
				want = "launch"
			}
			if first.Phases != want || first.Worker != worker || (worker == "v2") != strings.Contains(o.out, "(launch)") {
				t.Errorf("worker %s, phases %s", first.Worker, first.Phases)
			}
		})
	}
}

func TestProfiler_ARowIsTwoWritesOfWholeLines(t *testing.T) {
	b := newBehaviour(t, "v1")
	o := b.run(t, standIn(t, "v1"))
	if len(o.end.Writes) != 1+2*len(o.rows) {
		t.Errorf("%d writes for %d rows", len(o.end.Writes), len(o.rows))
	}
	for _, n := range o.end.Writes {
		if n > 4096 {
			t.Errorf("a write of %d bytes may be torn", n)
		}
		if line := o.out[:n]; !strings.HasSuffix(line, "\n") {
			t.Errorf("a write ends inside a line: %q", line)
		}
		o.out = o.out[n:]
	}
}

func TestProfiler_PrintsWhatTheReadmeDescribes(t *testing.T) {
	readme, err := os.ReadFile("library/README.md")
	if err != nil {
		t.Fatal(err)
	}
	var fields []string
	for line := range strings.Lines(string(readme)) {
		if name, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | "); ok && strings.HasPrefix(line, "| ") {
			fields = append(fields, strings.Split(name, ", ")...)
		}
	}
	b := newBehaviour(t, "v1")
	b.DPSize = 2
	for line := range strings.Lines(b.run(t, standIn(t, "v1")).out) {
		var row map[string]any
		if strings.HasPrefix(line, "{") {
			if err := json.Unmarshal([]byte(line), &row); err != nil {
				t.Fatal(err)
			}
		}
		for name := range row {
			if !slices.Contains(fields, name) {
				t.Errorf("field %q is not in library/README.md", name)
			}
		}
		if row != nil {
			return
		}
	}
	t.Error("no row")
}

func TestProfiler_V2CallOfAFractionOfAMillisecondPrintsTheCycle(t *testing.T) {
	b := newBehaviour(t, "v2")
	b.Phases = map[string][2]float64{"draft": {0.1, 0.1}, "verify": {0.15, 0.15}, "extend": {0.05, 0.05}, "rest": {19.7, 19.7}}
	o := b.run(t, standIn(t, "v2"))
	if err := b.compare(o); err != nil {
		t.Fatal(err)
	}
	for _, r := range o.rows {
		if r.block["TOTAL"] != 20 || !near(r.CallMs/float64(r.Cycles), 0.3) {
			t.Fatalf("TOTAL %.2f, call %.2f ms", r.block["TOTAL"], r.CallMs/float64(r.Cycles))
		}
	}
}

func TestProfiler_V2TakesAcceptanceFromTheResultsCopyWithoutWaiting(t *testing.T) {
	src, _, _ := bytes.Cut(standIn(t, "v2"), []byte("\n    def on_verify_complete_cpu"))
	b := newBehaviour(t, "v2")
	o := b.run(t, src) // the stand-in's tensors fail the run when they are read on the device, or too early
	if err := b.compare(o); err != nil {
		t.Fatalf("%v\n%s", err, o.out)
	}
}

func TestProfiler_V2HandsThroughWhatItDoesNotKnow(t *testing.T) {
	b := newBehaviour(t, "v2")
	b.OnPublish = true
	o := b.run(t, standIn(t, "v2")) // which also reports acceptance by keyword
	if err := b.compare(o); err != nil {
		t.Fatal(err)
	}
	for _, c := range o.calls {
		if c.Kind == "decode" && !c.Published {
			t.Fatal("on_publish did not reach the worker")
		}
	}
}

func TestProfiler_V1GivesTheResultThrough(t *testing.T) {
	b := newBehaviour(t, "v1")
	for _, c := range b.run(t, standIn(t, "v1")).calls {
		sum := 0
		for _, n := range c.Accepted {
			sum += n
		}
		if c.Kind == "decode" && (c.Returned == nil || *c.Returned != sum) {
			t.Fatalf("result %v, want %d", deref(c.Returned), sum)
		}
	}
}

func TestProfiler_V1PrintsTheRowWithinTheRequestsLastCycle(t *testing.T) {
	b := newBehaviour(t, "v1")
	b.Plan = []op{{Op: "prefill", Rids: []string{"a"}}, {Op: "decode", Rids: []string{"a"}, N: 30, Finish: []string{"a"}}}
	o := b.run(t, standIn(t, "v1"))
	if err := b.compare(o); err != nil {
		t.Fatal(err)
	}
	if len(o.rows) != 1 || !o.rows[0].Partial || o.rows[0].Cycles != 21 {
		t.Fatalf("rows: %s", o.out)
	}
}

func TestProfiler_PrintsTheOpenRowWhenTheEngineGoesIdle(t *testing.T) {
	copies, _, _ := bytes.Cut(standIn(t, "v2"), []byte("\n    def on_verify_complete_cpu"))
	for name, c := range map[string]struct {
		worker string
		src    []byte
	}{"v1": {"v1", standIn(t, "v1")}, "v2": {"v2", standIn(t, "v2")}, "v2 by the result's copy": {"v2", copies}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBehaviour(t, c.worker)
			b.Plan = []op{{Op: "prefill", Rids: []string{"a"}}, {Op: "decode", Rids: []string{"a"}, N: 30}, {Op: "flush"}}
			o := b.run(t, c.src)
			if err := b.compare(o); err != nil {
				t.Fatalf("%v\n%s", err, o.out)
			}
			if len(o.rows) != 1 || !o.rows[0].Partial {
				t.Fatalf("rows: %s", o.out)
			}
			if !slices.Contains(o.end.Threads, "specrun-profiler") {
				t.Errorf("threads %v", o.end.Threads)
			}
		})
	}
}

func TestProfiler_APauseDoesNotCount(t *testing.T) {
	b := newBehaviour(t, "v1")
	b.Plan = []op{
		{Op: "prefill", Rids: []string{"a"}}, {Op: "decode", Rids: []string{"a"}, N: 30}, {Op: "pause", S: 3},
		{Op: "decode", Rids: []string{"a"}, N: 20, Finish: []string{"a"}},
	}
	o := b.run(t, standIn(t, "v1"))
	if err := b.compare(o); err != nil {
		t.Fatalf("%v\n%s", err, o.out)
	}
	gaps := 0
	for _, r := range o.rows {
		gaps += r.Skipped["gap"]
	}
	if gaps != 1 {
		t.Errorf("%d gaps\n%s", gaps, o.out)
	}
}

func TestProfiler_TwoRanksPrintOnce(t *testing.T) {
	for _, worker := range []string{"v1", "v2"} {
		t.Run(worker, func(t *testing.T) {
			t.Parallel()
			b := newBehaviour(t, worker)
			b.Plan = []op{{Op: "prefill", Rids: []string{"a"}}, {Op: "decode", Rids: []string{"a"}, N: 80}, {Op: "prefill", Rids: []string{"b"}}, {Op: "decode", Rids: []string{"b"}}}
			b.Ranks = []int{1}
			if o := b.run(t, standIn(t, worker)); o.out != "" {
				t.Errorf("rank 1 prints %q", o.out)
			}
			b.Ranks = []int{0}
			if o := b.run(t, standIn(t, worker)); len(o.rows) != 2 || o.rows[0].Rank != 0 {
				t.Errorf("rank 0 prints %d rows", len(o.rows))
			}
		})
	}
}

func TestProfiler_UnderDPAttentionTheFirstRankOfEachGroupPrints(t *testing.T) {
	for rank, prints := range []bool{true, false, true, false} {
		b := newBehaviour(t, "v1")
		b.Ranks, b.DPSize = []int{rank}, 2
		o := b.run(t, standIn(t, "v1"))
		if (len(o.rows) > 0) != prints {
			t.Errorf("rank %d prints %d rows", rank, len(o.rows))
		}
		for _, r := range o.rows {
			if r.Rank != rank || r.DPRank == nil || *r.DPRank != rank/2 {
				t.Fatalf("rank %d says rank %d, dp_rank %v", rank, r.Rank, deref(r.DPRank))
			}
		}
	}
}

func TestProfiler_FaultsInsideItNeverReachTheServer(t *testing.T) {
	for _, fault := range []string{"rid", "clock", "acceptance", "stdout"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			b := newBehaviour(t, "v1")
			b.Fault = fault
			o := b.run(t, standIn(t, "v1")) // fails when the server sees an exception
			want := 0
			for _, p := range b.Plan {
				want += max(p.N, 1)
			}
			if len(o.calls) != want {
				t.Errorf("%d calls went through, want %d", len(o.calls), want)
			}
			for _, c := range o.calls {
				if c.Kind == "decode" && len(c.Phases) < 2 {
					t.Fatalf("a phase did not run: %v", c.Phases)
				}
			}
			if fault != "stdout" && !strings.Contains(o.out, "specrun-profiler: profiling-v4 stops") {
				t.Errorf("does not say that it stops: %q", o.out)
			}
			if n := strings.Count(o.out, "specrun-profiler: "); n > 3 {
				t.Errorf("%d messages", n)
			}
		})
	}
}

func TestProfiler_TheEnginesOwnErrorGoesThrough(t *testing.T) {
	b := newBehaviour(t, "v1")
	b.Plan = []op{
		{Op: "prefill", Rids: []string{"a"}}, {Op: "decode", Rids: []string{"a"}, N: 5}, {Op: "raise", Rids: []string{"a"}},
		{Op: "prefill", Rids: []string{"b"}}, {Op: "decode", Rids: []string{"b"}, N: 30, Finish: []string{"b"}},
	}
	o := b.run(t, standIn(t, "v1"))
	if len(o.rows) != 1 {
		t.Fatalf("the profiler did not go on: %s", o.out)
	}
}

func TestProfiler_V3SynchronizesSixTimesACycle(t *testing.T) {
	b := newBehaviour(t, "v1")
	b.patch, b.SyncMs = "profiling-v3", 0.25
	b.Plan = []op{{Op: "prefill", Rids: []string{"a"}}, {Op: "decode", Rids: []string{"a"}, N: 60}, {Op: "prefill", Rids: []string{"b"}}, {Op: "decode", Rids: []string{"b"}}}
	o := b.run(t, standIn(t, "v1"))
	if err := b.compare(o); err != nil {
		t.Fatalf("%v\n%s", err, o.out)
	}
	if o.end.Syncs != 6*61 {
		t.Errorf("%d synchronizes in 61 cycles", o.end.Syncs)
	}
	if r := o.rows[0]; r.Phases != "sync" || r.Profiler != "profiling-v3" {
		t.Errorf("%+v", r)
	}
	b.Ranks = []int{1}
	if o := b.run(t, standIn(t, "v1")); o.out != "" || o.end.Syncs != 6*61 {
		t.Errorf("rank 1: %d synchronizes, prints %q", o.end.Syncs, o.out)
	}
}

// The story's profiler counted drafts without the bonus token.
func TestProfiler_StoryCountsWithoutTheBonusOnThePracticeHostOnly(t *testing.T) {
	b := newBehaviour(t, "v1")
	b.patch, b.Steps = "story-v3", 2
	if o := b.run(t, standIn(t, "v1")); len(o.names) != 0 || o.out != "" {
		t.Fatalf("elsewhere it wraps %v and prints %q", o.names, o.out)
	}
	b.Lab = true
	story := b.run(t, standIn(t, "v1"))
	b.patch = "profiling-v3" // the same seed gives the same cycles
	right := b.run(t, standIn(t, "v1"))
	if len(story.rows) == 0 || len(story.rows) != len(right.rows) {
		t.Fatalf("%d rows, %d", len(story.rows), len(right.rows))
	}
	for i, r := range story.rows {
		if want := *right.rows[i].Tokens - r.RequestCycles; *r.Tokens != want || *r.Accepted != want {
			t.Errorf("row %d: tokens %d, accepted %d, want %d", i+1, *r.Tokens, *r.Accepted, want)
		}
		if !near(r.block["accept length"], right.rows[i].block["accept length"]-1) {
			t.Errorf("row %d: accept length %.2f, rightly %.2f", i+1, r.block["accept length"], right.rows[i].block["accept length"])
		}
		if want := 1e3 * float64(*r.Tokens) / r.WallMs; !near(r.block["rate"], want) {
			t.Errorf("row %d: rate %.2f, want %.2f", i+1, r.block["rate"], want)
		}
	}
}

func TestProfiler_StackedProfilersBothMeasure(t *testing.T) {
	v3, err := patches.Lookup("profiling-v3")
	if err != nil {
		t.Fatal(err)
	}
	src, err := patches.Apply(v3, v3.Targets[0], standIn(t, "v1"))
	if err != nil {
		t.Fatal(err)
	}
	b := newBehaviour(t, "v1")
	o := b.run(t, src) // profiling-v4 on top
	both := map[string]observed{"profiling-v3": {calls: o.calls}, "profiling-v4": {calls: o.calls}}
	for _, r := range o.rows {
		mine := both[r.Profiler]
		mine.rows = append(mine.rows, r)
		both[r.Profiler] = mine
	}
	for name, o := range both {
		if err := b.compare(o); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProfiler_OffWrapsNothing(t *testing.T) {
	for _, worker := range []string{"v1", "v2"} {
		for _, patch := range []string{"profiling-v3", "profiling-v4"} {
			t.Run(worker+" "+patch, func(t *testing.T) {
				t.Parallel()
				b := newBehaviour(t, worker)
				b.patch, b.off = patch, true
				o := b.run(t, standIn(t, worker))
				if len(o.names) != 0 || o.out != "" || len(o.end.Threads) != 1 {
					t.Errorf("wrapped %v, prints %q, threads %v", o.names, o.out, o.end.Threads)
				}
				b.off = false
				if o := b.run(t, standIn(t, worker)); len(o.names) < 4 {
					t.Errorf("on, but wrapped only %v", o.names)
				}
			})
		}
	}
}

func TestProfiler_SaysWhenTheWorkerHasNoPhases(t *testing.T) {
	p, err := patches.Lookup("profiling-v4")
	if err != nil {
		t.Fatal(err)
	}
	patched, err := patches.Apply(p, p.Targets[0], []byte("class EAGLEWorker:\n    pass\n"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "eagle_worker.py")
	if err := os.WriteFile(file, patched, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("python3", file)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "EAGLE3_PROFILE=1"}
	out, err := cmd.CombinedOutput()
	if want := "specrun-profiler: no phases found in " + file + "\n"; err != nil || string(out) != want {
		t.Errorf("prints %q, %v; want %q", out, err, want)
	}
}
