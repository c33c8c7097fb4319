package experiments

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"specrun/deploy/server"
	"specrun/experiments/record"
)

func TestExecute_MeasuresEverySlotAndPutsTheHostBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	before := []PatchRef{{Name: "theirs", SHA256: "x"}}
	r.w.patches = before
	p := r.plan(func(s *Spec) { s.Repeats, s.Rounds = 2, 2 }, "steps=1..2", "bench.concurrency=1,4")
	sum, err := Execute(context.Background(), r.deps(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.settled(p)
	if sum.State != record.SweepDone || sum.Done != 24 || sum.Failed != 0 || r.w.starts != 6 {
		t.Errorf("%+v with %d starts", sum, r.w.starts)
	}
	if !samePatches(r.w.patches, before) {
		t.Errorf("patches are now %v", r.w.patches)
	}
	v := r.view()
	if v.Sweep.State != record.SweepDone || len(v.Launches) != 6 || v.Launches[0].State != record.LaunchDone || v.Launches[0].Identity == nil || len(v.Launches[0].Argv) == 0 {
		t.Errorf("%+v", v.Launches[0])
	}
	// Every run has its own window, and every launch its log.
	logs, reports := 0, 0
	for _, a := range v.Artifact {
		switch a.Name {
		case "server.log":
			logs++
		case "bench.json":
			reports++
		}
	}
	if logs != 6 || reports != 24 {
		t.Errorf("%d logs and %d reports", logs, reports)
	}
	for id, d := range v.Data {
		if got := d.Samples[0].Labels["text"]; got != "row of "+id+"\n" {
			t.Errorf("run %s was measured over %q", id, got)
		}
		facts := map[string]string{}
		for _, f := range d.Provenance {
			facts[f.Group+" "+f.Key] = f.Value
		}
		for _, k := range []string{"code engine_version", "command argv", "flags tp_size", "env NCCL_PROTO", "host kernel", "packages torch", "workload concurrency"} {
			if facts[k] == "" {
				t.Errorf("run %s: no %s", id, k)
			}
		}
		if !strings.HasPrefix(facts["env HF_TOKEN"], "(secret, sha ") {
			t.Errorf("the secret was stored: %q", facts["env HF_TOKEN"])
		}
	}
	for _, e := range v.Events {
		if strings.Contains(string(e.Evidence), "hunter2") {
			t.Errorf("the secret is in event %s %s", e.Step, e.Kind)
		}
	}
}

func TestExecute_JournalOfOneLaunch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.plan(nil, "steps=2")
	if _, err := Execute(context.Background(), r.deps(), p, nil); err != nil {
		t.Fatal(err)
	}
	v := r.view()
	var got []string
	for _, e := range v.Events {
		if e.LaunchID == v.Launches[1].ID {
			got = append(got, e.Step+" "+string(e.Kind))
		}
	}
	want := []string{"launch intent", "lease intent", "lease done", "patch intent", "patch done", "start intent", "start done", "ready intent", "ready done",
		"check intent", "check done", "run intent", "warm intent", "warm done", "bench intent", "bench done", "collect intent", "run done", "collect done",
		"stop undo", "stop undone", "release undo", "release undone", "launch done", "restore intent", "restore done", "sweep note"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// steps names what a launch serves, for behaviours per cell.
func launchSteps(l server.Launch) string {
	if i := slices.Index(l.Argv, "--speculative-num-steps"); i >= 0 {
		return l.Argv[i+1]
	}
	return "none"
}

func TestExecute_FailedCellsAreResultsAndTheRestGoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.w.ready = func(l server.Launch) error {
		switch launchSteps(l) {
		case "1":
			return &server.CrashError{Host: "gpu-01", Crash: server.Crash{Kind: "cuda_oom", Evidence: "out of memory", Advice: "lower mem-fraction-static"}}
		case "2":
			return &server.NotReadyError{Host: "gpu-01", After: time.Minute}
		case "3":
			return &server.ExitedError{Host: "gpu-01", Code: 2, LogPath: "/state/x"}
		}
		return nil
	}
	r.w.bench = func(l server.Launch, j BenchJob) string {
		return map[string]string{"4": "stall", "5": "server-dies", "6": "fail", "7": "die"}[launchSteps(l)]
	}
	p := r.plan(nil, "steps=1..8")
	sum, err := Execute(context.Background(), r.deps(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	results := r.settled(p)
	classes := map[string]record.Class{}
	for _, c := range p.Cells {
		run := results[slotID(r.sweep, c.Ord, 0, 0)]
		classes[fmt.Sprint(c.Params["steps"])] = run.Class
		if run.State == record.RunFailed && !strings.Contains(run.Reason, "gpu-01") && run.Class != record.ClassBenchFailed {
			t.Errorf("the reason does not say where: %q", run.Reason)
		}
	}
	want := map[string]record.Class{"<nil>": "", "1": "cuda_oom", "2": record.ClassNotReady, "3": record.ClassExited, "4": record.ClassBenchStalled,
		"5": "segfault", "6": record.ClassBenchFailed, "7": record.ClassBenchFailed, "8": ""}
	if diff := cmp.Diff(want, classes); diff != "" {
		t.Error(diff)
	}
	if sum.State != record.SweepIncomplete || sum.Failed != 7 || sum.Done != 2 {
		t.Errorf("%+v", sum)
	}
	first := results[slotID(r.sweep, 1, 0, 0)]
	if !strings.Contains(first.Reason, "out of memory") || !strings.Contains(first.Reason, "next: lower mem-fraction-static") {
		t.Errorf("reason: %q", first.Reason)
	}
	tails := 0
	for _, a := range r.view().Artifact {
		if a.Name == "server-tail.log" {
			tails++
		}
	}
	if tails != 7 {
		t.Errorf("%d log tails for 7 failed runs", tails)
	}
}

func TestExecute_RunsOfADeadServerAreMeasuredInANewLaunch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	died := false
	r.w.bench = func(server.Launch, BenchJob) string {
		if !died {
			died = true
			return "server-dies"
		}
		return ""
	}
	p := r.plan(func(s *Spec) { s.Repeats = 3; s.Baseline = nil }, "steps=2")
	sum, err := Execute(context.Background(), r.deps(), p, nil)
	if err != nil || sum.Done != 2 || sum.Failed != 1 || r.w.starts != 2 {
		t.Errorf("%+v, %v, %d starts", sum, err, r.w.starts)
	}
	r.settled(p)
}

func TestExecute_AStrangerOnThePortIsNamedAndLeftAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.w.foreign[31000] = server.Holder{Port: 31000, PID: 4711, User: "eve", Command: "python -m http.server"}
	p := r.plan(func(s *Spec) { s.Server.Port = 31000 }, "steps=2")
	sum, err := Execute(context.Background(), r.deps(), p, nil)
	if err != nil || sum.Failed != 2 || r.w.starts != 0 {
		t.Fatalf("%+v, %v, %d starts", sum, err, r.w.starts)
	}
	for _, run := range r.settled(p) {
		if run.Class != record.ClassPortInUse || !strings.Contains(run.Reason, "pid 4711 of user eve") {
			t.Errorf("%s: %q", run.Class, run.Reason)
		}
	}
	if _, still := r.w.foreign[31000]; !still || len(r.w.patches) != 0 {
		t.Error("something was changed")
	}
}

func TestExecute_APatchConflictFailsTheCellsThatNeedIt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.w.patchErr = func(set []PatchRef) error {
		if len(set) > 0 && set[0].Name == "profiling-v3" {
			return errors.New("eagle_worker.py: hunk 2 differs")
		}
		return nil
	}
	p := r.plan(nil, "patches=profiling-v3,profiling-v4")
	sum, err := Execute(context.Background(), r.deps(), p, nil)
	if err != nil || sum.Failed != 1 || sum.Done != 2 {
		t.Fatalf("%+v, %v", sum, err)
	}
	if run := r.settled(p)[slotID(r.sweep, 1, 0, 0)]; run.Class != record.ClassPatch {
		t.Errorf("%+v", run)
	}
}

func TestExecute_CancelUndoesAndResumeGoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx, cancel := context.WithCancel(context.Background())
	r.hook = func(b Boundary, e record.Event) {
		if b == AfterEvent && e.Step == stepBench && e.Kind == record.EventIntent {
			cancel()
		}
	}
	p := r.plan(nil, "steps=1..2")
	sum, err := Execute(ctx, r.deps(), p, nil)
	var interrupted *InterruptedError
	if !errors.As(err, &interrupted) || !errors.Is(err, context.Canceled) || sum.State != record.SweepInterrupted {
		t.Fatalf("%+v, %v", sum, err)
	}
	if left := r.w.leftovers(); len(left) > 0 || len(r.w.patches) > 0 {
		t.Errorf("left: %v %v", left, r.w.patches)
	}
	v := r.view()
	if v.Sweep.State != record.SweepInterrupted || v.Launches[0].State != record.LaunchCut || v.Runs[0].State != record.RunCut {
		t.Errorf("%+v %+v %+v", v.Sweep.State, v.Launches, v.Runs)
	}
	r.hook = nil
	sum, err = Resume(context.Background(), r.deps(), r.sweep, ResumeOptions{})
	if err != nil || sum.State != record.SweepDone || sum.Done != 3 {
		t.Errorf("%+v, %v", sum, err)
	}
	r.settled(p)
}

func TestExecute_TheRunLimitEndsARun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.w.bench = func(server.Launch, BenchJob) string { return "hang" }
	p := r.plan(func(s *Spec) { s.Limits.Run = 30 * time.Millisecond; s.Baseline = nil }, "steps=2")
	sum, err := Execute(context.Background(), r.deps(), p, nil)
	if err != nil || sum.Failed != 1 {
		t.Fatalf("%+v, %v", sum, err)
	}
	for _, run := range r.settled(p) {
		if run.Class != record.ClassBenchFailed || !strings.Contains(run.Reason, "limits.run") {
			t.Errorf("%+v", run)
		}
	}
}

func TestExecute_KeepLeavesTheLastServer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.plan(func(s *Spec) { s.After = AfterKeep }, "steps=1..2")
	sum, err := Execute(context.Background(), r.deps(), p, nil)
	if err != nil || sum.Done != 3 || len(sum.Notes) != 2 {
		t.Fatalf("%+v, %v", sum, err)
	}
	running := 0
	for _, s := range r.w.servers {
		if s.phase == server.Running {
			running++
			if launchSteps(s.launch) != "2" {
				t.Error("another server than the last cell's was kept")
			}
		}
	}
	if len(r.w.left) == 0 || len(r.w.left) != len(r.w.leases) {
		t.Errorf("leases %v, of which nobody renews %v", r.w.leases, r.w.left)
	}
	if running != 1 || len(r.w.patches) != 1 {
		t.Errorf("%d servers, patches %v", running, r.w.patches)
	}
}

func TestExecute_AStopWithoutProofEndsTheSweep(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.w.stopErr = &server.SurvivorError{Host: "gpu-01", Launch: "l", Processes: []server.Survivor{{PID: 7, State: "D"}}}
	_, err := Execute(context.Background(), r.deps(), r.plan(nil, "steps=1..2"), nil)
	var open *OpenError
	var survivor *server.SurvivorError
	if !errors.As(err, &open) || !errors.As(err, &survivor) || !strings.Contains(open.Hint(), "start no second server") || r.w.starts != 1 {
		t.Errorf("%v, %d starts", err, r.w.starts)
	}
}

func TestExecute_AMissingSecretIsSaidBeforeAnythingIsBegun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.deps()
	d.Getenv = nil
	_, err := Execute(context.Background(), d, r.plan(nil, "steps=2"), nil)
	var se *SecretError
	if !errors.As(err, &se) || r.w.dials != 0 {
		t.Errorf("%v after %d connections", err, r.w.dials)
	}
}

func TestExecute_ALoadThatCannotBeMadeIsSaidBeforeAnythingIsBegun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := Execute(context.Background(), r.deps(), r.plan(nil, "steps=2", "bench.prompts=missing"), nil)
	if err == nil || r.w.starts != 0 || r.sweep != "" {
		t.Errorf("%v, %d starts, sweep %q", err, r.w.starts, r.sweep)
	}
}

func TestExecute_ProgressTellsLaunchesAndResults(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, err := Execute(context.Background(), r.deps(), r.plan(nil, "steps=1..2"), nil); err != nil {
		t.Fatal(err)
	}
	var results []string
	for _, p := range r.seen {
		if p.Phase == PhaseResult {
			results = append(results, fmt.Sprintf("%d/%d cell %d %s", p.Launch, p.Launches, p.Cell.Ord, p.Result.Run.State))
		}
	}
	if diff := cmp.Diff([]string{"1/3 cell 0 done", "2/3 cell 1 done", "3/3 cell 2 done"}, results); diff != "" {
		t.Error(diff)
	}
}

// What a launch fails of is the same for all runs of a cell, and is told once.
func TestExecute_AFailedLaunchIsToldOncePerCell(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.w.ready = func(l server.Launch) error {
		if launchSteps(l) == "2" {
			return &server.ExitedError{Host: "gpu-01", Code: 2}
		}
		return nil
	}
	p := r.plan(func(s *Spec) { s.Repeats = 3 }, "steps=2", "bench.max_tokens=8,16")
	if sum, err := Execute(context.Background(), r.deps(), p, nil); err != nil || sum.Failed != 6 {
		t.Fatalf("%+v, %v", sum, err)
	}
	told := map[int]int{} // times by cell
	for _, s := range r.seen {
		if s.Phase != PhaseResult || s.Result.Run.State != record.RunFailed {
			continue
		}
		if _, twice := told[s.Cell.Ord]; twice {
			t.Errorf("cell %d is told again", s.Cell.Ord)
		}
		told[s.Cell.Ord] = s.Times
	}
	if len(told) != 2 {
		t.Errorf("told: %v", told)
	}
	for cell, times := range told {
		if times != 3 {
			t.Errorf("cell %d is told as %d results", cell, times)
		}
	}
	r.settled(p)
}
