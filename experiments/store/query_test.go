package store

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"specrun/experiments/record"
)

func TestFind_ByIDOrUniquePrefix(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	j := begin(t, s, "sw")
	for i, id := range []string{"ab", "abc1", "abd2", "x_%"} {
		j.must(record.Change{Run: j.run(id, plan("sw").Slots[i].ID, 1, record.RunDone)})
	}
	ctx := context.Background()
	for prefix, want := range map[string]string{"ab": "ab", "abc": "abc1", "abd2": "abd2", "x_": "x_%"} {
		if got, err := s.RunID(ctx, prefix); err != nil || got != want {
			t.Errorf("RunID(%q) = %q, %v; want %q", prefix, got, err, want)
		}
	}
	var amb *AmbiguousError
	if _, err := s.RunID(ctx, "a"); !errors.As(err, &amb) {
		t.Errorf("RunID(a): %v, want *AmbiguousError", err)
	} else if diff := cmp.Diff([]string{"ab", "abc1", "abd2"}, amb.IDs); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
	for _, prefix := range []string{"", "zz", "abc12", "%", "_", "AB"} {
		if id, err := s.RunID(ctx, prefix); !errors.Is(err, ErrNotFound) {
			t.Errorf("RunID(%q) = %q, %v; want ErrNotFound", prefix, id, err)
		}
	}
	if _, err := s.SweepID(ctx, "ab"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a run's id found a sweep: %v", err)
	}
}

func TestRun_ReadsOneRunWithItsSurroundings(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	j := begin(t, s, "sw")
	d := data()
	j.must(record.Change{Run: j.run("r1", "sw-two-b", 1, record.RunDone), Data: &d})
	j.must(record.Change{Run: j.run("r2", "sw-one-a", 1, record.RunDone)})
	ctx := context.Background()
	for _, a := range []record.Artifact{{Name: "server.log"}, {Name: "bench.json", RunID: "r1"}, {Name: "bench.json", RunID: "r2"}} {
		a.LaunchID = j.l.ID
		if _, err := s.Attach(ctx, a, strings.NewReader(a.Name+a.RunID)); err != nil {
			t.Fatal(err)
		}
	}
	v, err := s.Run(ctx, "r1")
	if err != nil {
		t.Fatal(err)
	}
	if v.Sweep.ID != "sw" || v.Cell.ID != "sw-two" || v.Slot.Repeat != 1 || v.Launch.ID != j.l.ID || len(v.Events) != 3 ||
		len(v.Data.Samples) != 2 || v.Cell.Params["steps"] != int64(2) {
		t.Errorf("run view = %+v", v)
	}
	if len(v.Artifacts) != 2 || v.Artifacts[0].Name != "server.log" || v.Artifacts[1].RunID != "r1" {
		t.Errorf("artifacts = %+v", v.Artifacts)
	}
}

func TestList_FiltersNewestFirst(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	ctx := context.Background()
	if _, err := s.LatestSweep(ctx); !errors.Is(err, ErrNotFound) {
		t.Errorf("LatestSweep of an empty store: %v, want ErrNotFound", err)
	}
	for _, id := range []string{"s1", "s2"} {
		j := begin(t, s, id)
		d := data()
		j.must(record.Change{Run: j.run(id+"r1", id+"-one-a", 1, record.RunDone), Data: &d})
		j.must(record.Change{Run: j.run(id+"r2", id+"-two-a", 1, record.RunFailed)})
		j.must(record.Change{Run: j.run(id+"r3", id+"-two-b", 1, record.RunCut)})
	}
	runIDs := func(f RunFilter) []string {
		t.Helper()
		rows, err := s.ListRuns(ctx, f)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, r := range rows {
			ids = append(ids, r.Run.ID)
		}
		return ids
	}
	for _, tc := range []struct {
		f    RunFilter
		want []string
	}{
		{RunFilter{SweepID: "s1"}, []string{"s1r3", "s1r2", "s1r1"}},
		{RunFilter{Limit: 2}, []string{"s2r3", "s2r2"}},
		{RunFilter{States: []record.RunState{record.RunDone, record.RunFailed}, SweepID: "s2"}, []string{"s2r2", "s2r1"}},
		{RunFilter{Label: "short"}, []string{"s2r1", "s1r1"}},
		{RunFilter{Host: "elsewhere"}, nil},
		{RunFilter{Name: "steps' OR 1=1"}, nil},
	} {
		if diff := cmp.Diff(tc.want, runIDs(tc.f)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", tc.f, diff)
		}
	}
	rows, err := s.ListRuns(ctx, RunFilter{Label: "short", Limit: 1})
	if err != nil || len(rows[0].Metrics) != 4 || len(rows[0].Labels) != 2 || rows[0].Cell.Params["share"] != 2.0 {
		t.Errorf("row = %+v, %v", rows, err)
	}
	sweeps, err := s.ListSweeps(ctx, SweepFilter{Name: "steps", Kinds: []string{"sweep"}, States: []record.SweepState{record.SweepActive}, Host: "gpu-01"})
	if err != nil || len(sweeps) != 2 || sweeps[0].Sweep.ID != "s2" {
		t.Fatalf("sweeps = %+v, %v", sweeps, err)
	}
	want := record.SweepRow{Cells: 3, Slots: 6, Done: 1, Failed: 1, Launches: 1, Hosts: []string{"gpu-01"}}
	want.Sweep = sweeps[0].Sweep
	if diff := cmp.Diff(want, sweeps[0]); diff != "" {
		t.Errorf("sweep row (-want +got):\n%s", diff)
	}
	if id, err := s.LatestSweep(ctx, "sweep", "run"); err != nil || id != "s2" {
		t.Errorf("LatestSweep = %q, %v", id, err)
	}
}

// Starts with other flags are no launches of one cell.
func TestImport_CellsOfStarts(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	ctx := context.Background()
	const log = "steps 2, steps 3, steps 2\n"
	f := File{Name: "old.log", SHA256: hashOf(log), Runs: []record.RunData{data(), data(), data()},
		Cells: []FileCell{{Params: record.Params{"steps": int64(2)}, Runs: []int{0, 2}}, {Params: record.Params{}, Baseline: true, Runs: []int{1}}}}
	for _, wrong := range [][]FileCell{{{Runs: []int{0, 1}}}, {{Runs: []int{0, 1, 2}}, {Runs: []int{2}}}, {{Runs: []int{0, 1, 3}}}, {}} {
		bad := f
		bad.Cells = wrong
		if _, _, err := s.Import(ctx, bad, strings.NewReader(log)); err == nil {
			t.Errorf("imported as %+v", wrong)
		}
	}
	runs, _, err := s.Import(ctx, f, strings.NewReader(log))
	if err != nil || len(runs) != 3 {
		t.Fatalf("%v, %v", runs, err)
	}
	v, err := s.View(ctx, runs[0][:strings.LastIndex(runs[0], "-")])
	if err != nil || len(v.Cells) != 2 || len(v.Slots) != 3 {
		t.Fatalf("%v: %+v", err, v)
	}
	base := v.Sweep.ID
	want := []record.Cell{{ID: base + "-c", SweepID: base, Key: f.SHA256, Params: record.Params{"steps": int64(2)}},
		{ID: base + "-c2", SweepID: base, Ord: 1, Key: f.SHA256 + "/2", Params: record.Params{}, Baseline: true}}
	if diff := cmp.Diff(want, v.Cells); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
	of := map[string]string{}
	for _, sl := range v.Slots {
		of[sl.ID] = sl.CellID
	}
	for i, r := range v.Runs {
		if want := []string{base + "-c", base + "-c2", base + "-c"}[i]; of[r.SlotID] != want {
			t.Errorf("run %d is of %s, want %s", i+1, of[r.SlotID], want)
		}
	}
}

func TestImport_OncePerContent(t *testing.T) {
	t.Parallel()
	now := epoch
	s := open(t, filepath.Join(t.TempDir(), "r.db"), WithClock(func() time.Time { return now }))
	ctx := context.Background()
	const log = "  TOTAL:             20.14 ms/cyc\n"
	f := File{Name: "old.log", SHA256: hashOf(log), Runs: []record.RunData{data(), {Metrics: []record.Metric{{Name: "cycle_total", Value: 30, N: 1}}}}}
	runs, known, err := s.Import(ctx, f, strings.NewReader(log))
	if err != nil || known || len(runs) != 2 {
		t.Fatalf("Import = %v, %v, %v", runs, known, err)
	}
	f.Name = "copy of old.log"
	again, known, err := s.Import(ctx, f, strings.NewReader(log))
	if err != nil || !known {
		t.Fatalf("second Import = %v, %v, %v", again, known, err)
	}
	if diff := cmp.Diff(runs, again); diff != "" {
		t.Errorf("runs of the second import (-first +second):\n%s", diff)
	}
	rows, err := s.ListRuns(ctx, RunFilter{Label: LabelImported})
	if err != nil || len(rows) != 2 || rows[0].Kind != KindImport {
		t.Errorf("imported runs = %+v, %v", rows, err)
	}
	v, err := s.Run(ctx, runs[0])
	if err != nil || len(v.Data.Samples) != 2 || len(v.Artifacts) != 1 || v.Artifacts[0].Name != "old.log" || v.Run.StartUs != now.UnixMicro() {
		t.Errorf("run = %+v, %v", v, err)
	}
	f.SHA256 = hashOf("something else")
	if _, _, err := s.Import(ctx, f, strings.NewReader(log)); !errors.As(err, new(*HashError)) {
		t.Errorf("content that changed since it was parsed: %v, want *HashError", err)
	}
	f.Runs = nil
	if _, _, err := s.Import(ctx, f, strings.NewReader(log)); err == nil {
		t.Error("a file with nothing in it was imported")
	}
}

// A sweep that was refused before its first launch is listed, and is not what goes on.
func TestList_TellsWhatWasNeverBegun(t *testing.T) {
	t.Parallel()
	s, ctx := fresh(t), t.Context()
	refused := record.SweepPlan{Sweep: record.Sweep{ID: "refused", Name: "refused", Kind: "sweep", State: record.SweepActive, CreatedUs: epoch.UnixMicro()}}
	if err := s.Begin(ctx, refused); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{1, 0} { // before and after it was refused
		if rows, err := s.ListSweeps(ctx, SweepFilter{Name: "refused", Begun: true}); err != nil || len(rows) != want {
			t.Errorf("begun: %+v, %v", rows, err)
		}
		if err := s.Cut(ctx, "refused", epoch.UnixMicro()); err != nil {
			t.Fatal(err)
		}
	}
	if rows, err := s.ListSweeps(ctx, SweepFilter{Name: "refused"}); err != nil || len(rows) != 1 || rows[0].Sweep.State != record.SweepInterrupted {
		t.Errorf("refused: %+v, %v", rows, err)
	}
}
