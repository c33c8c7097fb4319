package recordertest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"

	"specrun/experiments/record"
)

// Run checks that a recorder keeps its contract. open makes an empty one whose
// clock, in microseconds, is now.
func Run(t *testing.T, open func(t *testing.T, now func() int64) Recorder) {
	for name, test := range map[string]func(*testing.T, *fixture){
		"a view gives back what was recorded":              viewGivesBack,
		"a change that does not fit leaves nothing":        allOrNothing,
		"a run that has ended gets more labels":            labelled,
		"a slot has one result":                            oneResult,
		"final states stay":                                finalStates,
		"a claim is one controller's until it expires":     claims,
		"an artifact of the same name replaces the former": artifacts,
		"a sweep is extended once":                         extends,
		"only a sweep without a launch is cut":             cuts,
	} {
		t.Run(name, func(t *testing.T) {
			f := &fixture{now: 1_000_000}
			f.Recorder = open(t, func() int64 { return f.now })
			f.begin(t)
			test(t, f)
		})
	}
}

type fixture struct {
	Recorder
	now int64
	seq int64
}

func (f *fixture) begin(t *testing.T) {
	t.Helper()
	err := f.Begin(context.Background(), record.SweepPlan{
		Sweep: record.Sweep{ID: "s1", Name: "n", Kind: "sweep", Spec: json.RawMessage(`{"a":0.90}`), Plan: json.RawMessage(`{}`), PlanSHA: "x", State: record.SweepActive, CreatedUs: 1},
		Cells: []record.Cell{{ID: "s1.c0", SweepID: "s1", Key: "k0", Params: record.Params{"steps": int64(2), "mode": "decode", "f": 0.5, "b": true}}},
		Slots: []record.Slot{{ID: "s1.c0.r0.p0", CellID: "s1.c0"}, {ID: "s1.c0.r0.p1", CellID: "s1.c0", Repeat: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	f.must(t, "", record.EventIntent, record.Change{Launch: &record.Launch{ID: "l1", SweepID: "s1", Host: "h", State: record.LaunchActive}})
}

func (f *fixture) try(runID string, kind record.EventKind, c record.Change) error {
	f.seq++
	return f.Record(context.Background(), record.Event{LaunchID: "l1", Seq: f.seq, RunID: runID, AtUs: f.now, Step: "run", Kind: kind, Evidence: json.RawMessage(`{"x":1}`)}, c)
}

func (f *fixture) must(t *testing.T, runID string, kind record.EventKind, c record.Change) {
	t.Helper()
	if err := f.try(runID, kind, c); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) view(t *testing.T) record.SweepView {
	t.Helper()
	v, err := f.View(context.Background(), "s1")
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func attempt(id string, n int, s record.RunState) *record.Run {
	return &record.Run{ID: id, SlotID: "s1.c0.r0.p0", Attempt: n, LaunchID: "l1", Host: "h", State: s, StartUs: 5}
}

func viewGivesBack(t *testing.T, f *fixture) {
	f.must(t, "r1", record.EventIntent, record.Change{Run: attempt("r1", 1, record.RunActive)})
	f.must(t, "", record.EventDone, record.Change{Launch: &record.Launch{ID: "l1", SweepID: "s1", Host: "h", State: record.LaunchActive,
		Argv: []string{"a", "b c\n"}, Identity: json.RawMessage(`{"pid":3}`)}})
	done := attempt("r1", 1, record.RunDone)
	done.EndUs = 9
	data := record.RunData{
		Metrics:    []record.Metric{{Name: "tpot", Unit: "ms", Value: 1.5, N: 3, Source: "client"}, {Name: "accept_len", Unit: "tokens/step", Value: math.NaN(), Source: "profiler"}},
		Samples:    []record.Sample{{Seq: 1, AtUs: 2, Name: "cycle_total", Unit: "ms/cyc", Value: 20, Source: "profiler", Labels: map[string]string{"rank": "0"}}},
		Labels:     []record.Label{{Name: "short", Reason: "3 cycles"}},
		Checks:     []record.TrustCheck{{Name: "alive", Outcome: record.Pass, Left: 1, Right: 1, Explanation: "e"}},
		Provenance: []record.Fact{{Group: "env", Key: "A", Value: "1"}},
	}
	f.must(t, "r1", record.EventDone, record.Change{Run: done, Data: &data, SweepID: "s1", SweepState: record.SweepIncomplete})
	v := f.view(t)
	if v.Sweep.State != record.SweepIncomplete || string(v.Sweep.Spec) != `{"a":0.90}` {
		t.Errorf("sweep: %+v", v.Sweep)
	}
	if !reflect.DeepEqual(v.Cells[0].Params, record.Params{"steps": int64(2), "mode": "decode", "f": 0.5, "b": true}) {
		t.Errorf("params: %#v", v.Cells[0].Params)
	}
	if len(v.Slots) != 2 || v.Slots[1].Repeat != 1 {
		t.Errorf("slots: %+v", v.Slots)
	}
	if l := v.Launches[0]; !reflect.DeepEqual(l.Argv, []string{"a", "b c\n"}) || string(l.Identity) != `{"pid":3}` {
		t.Errorf("launch: %+v", l)
	}
	if !reflect.DeepEqual(v.Runs, []record.Run{*done}) {
		t.Errorf("runs: %+v", v.Runs)
	}
	if len(v.Events) != 4 || v.Events[3].Seq != 4 || v.Events[3].RunID != "r1" || string(v.Events[3].Evidence) != `{"x":1}` {
		t.Errorf("events: %+v", v.Events)
	}
	got := v.Data["r1"]
	if len(got.Metrics) != 2 || !math.IsNaN(got.Metrics[1].Value) {
		t.Errorf("metrics: %+v", got.Metrics)
	}
	got.Metrics, data.Metrics = nil, nil
	if !reflect.DeepEqual(got, data) {
		t.Errorf("data: %+v", got)
	}
}

// labelled runs get more labels when something is found out later.
func labelled(t *testing.T, f *fixture) {
	more := record.Change{Labels: map[string][]record.Label{"r1": {{Name: "late", Reason: "1"}}}}
	f.must(t, "r1", record.EventIntent, record.Change{Run: attempt("r1", 1, record.RunActive)})
	if err := f.try("", record.EventNote, more); err == nil {
		t.Error("a run that is not over got a label")
	}
	data := record.RunData{Labels: []record.Label{{Name: "short", Reason: "2"}}}
	f.must(t, "r1", record.EventDone, record.Change{Run: attempt("r1", 1, record.RunDone), Data: &data})
	f.must(t, "", record.EventNote, more)
	more.Labels["r1"][0].Reason = "3"
	f.must(t, "", record.EventNote, more)
	want := []record.Label{{Name: "short", Reason: "2"}, {Name: "late", Reason: "3"}}
	if got := f.view(t).Data["r1"].Labels; !reflect.DeepEqual(got, want) {
		t.Errorf("labels: %+v, want %+v", got, want)
	}
}

func allOrNothing(t *testing.T, f *fixture) {
	before := f.view(t)
	// The event's number is taken, so the run must not appear either.
	err := f.Record(context.Background(), record.Event{LaunchID: "l1", Seq: 1, RunID: "r1", Step: "run", Kind: record.EventIntent},
		record.Change{Run: attempt("r1", 1, record.RunActive), SweepID: "s1", SweepState: record.SweepDone})
	if err == nil {
		t.Fatal("an event was recorded twice")
	}
	after := f.view(t)
	if len(after.Runs) != 0 || len(after.Events) != len(before.Events) || after.Sweep.State != record.SweepActive {
		t.Errorf("left behind: %+v", after)
	}
}

func oneResult(t *testing.T, f *fixture) {
	f.must(t, "r1", record.EventFailed, record.Change{Run: attempt("r1", 1, record.RunFailed)})
	if err := f.try("r2", record.EventDone, record.Change{Run: attempt("r2", 2, record.RunDone)}); err == nil {
		t.Error("a slot got a second result")
	}
	f.must(t, "r2", record.EventIntent, record.Change{Run: attempt("r2", 2, record.RunActive), Supersede: "r1"})
	f.must(t, "r2", record.EventDone, record.Change{Run: attempt("r2", 2, record.RunDone)})
	if err := f.try("r3", record.EventIntent, record.Change{Run: attempt("r3", 2, record.RunActive)}); err == nil {
		t.Error("an attempt was made twice")
	}
	states := map[string]record.RunState{}
	for _, r := range f.view(t).Runs {
		states[r.ID] = r.State
	}
	if !reflect.DeepEqual(states, map[string]record.RunState{"r1": record.RunSuperseded, "r2": record.RunDone}) {
		t.Errorf("%v", states)
	}
	if err := f.try("r4", record.EventIntent, record.Change{Run: attempt("r4", 3, record.RunActive), Supersede: "r2"}); err == nil {
		t.Error("a run that is done was superseded")
	}
}

func finalStates(t *testing.T, f *fixture) {
	f.must(t, "", record.EventDone, record.Change{Launch: &record.Launch{ID: "l1", SweepID: "s1", Host: "h", State: record.LaunchCut}})
	if err := f.try("", record.EventIntent, record.Change{Launch: &record.Launch{ID: "l1", SweepID: "s1", Host: "h", State: record.LaunchActive}}); err == nil {
		t.Error("a launch that was cut became active")
	}
	f.must(t, "r1", record.EventIntent, record.Change{Run: attempt("r1", 1, record.RunCut)})
	if err := f.try("r1", record.EventDone, record.Change{Run: attempt("r1", 1, record.RunDone)}); err == nil {
		t.Error("a run that was cut became done")
	}
}

func claims(t *testing.T, f *fixture) {
	ctx := context.Background()
	claim := func(who string, until int64) error { return f.Claim(ctx, "s1", who, until) }
	if err := claim("a", f.now+10); err != nil {
		t.Fatal(err)
	}
	if err := claim("a", f.now+20); err != nil {
		t.Errorf("not renewed: %v", err)
	}
	var holder interface {
		Holder() (controller string, expiresUs int64)
	}
	if err := claim("b", f.now+10); !errors.As(err, &holder) {
		t.Fatalf("two controllers: %v", err)
	}
	if who, until := holder.Holder(); who != "a" || until != f.now+20 {
		t.Errorf("holder %s until %d", who, until)
	}
	f.now += 30
	if err := claim("b", f.now+10); err != nil {
		t.Errorf("expired, yet: %v", err)
	}
	if err := claim("b", 0); err != nil {
		t.Fatal(err)
	}
	if err := claim("c", f.now+10); err != nil {
		t.Errorf("given up, yet: %v", err)
	}
}

func artifacts(t *testing.T, f *fixture) {
	ctx := context.Background()
	f.must(t, "r1", record.EventIntent, record.Change{Run: attempt("r1", 1, record.RunActive)})
	for _, text := range []string{"one", "three"} {
		a, err := f.Attach(ctx, record.Artifact{LaunchID: "l1", Name: "server.log"}, strings.NewReader(text))
		if err != nil || a.Bytes != int64(len(text)) || len(a.SHA256) != 64 || a.Path == "" {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	if _, err := f.Attach(ctx, record.Artifact{RunID: "r1", LaunchID: "l1", Name: "server.log"}, strings.NewReader("of the run")); err != nil {
		t.Fatal(err)
	}
	kept := f.view(t).Artifact
	if len(kept) != 2 {
		t.Fatalf("%+v", kept)
	}
	for _, a := range kept {
		want := "of the run"
		if a.RunID == "" {
			want = "three" // which replaced the other
		}
		r, n, err := f.Kept(ctx, a.SHA256)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil || string(text) != want || n != int64(len(want)) || a.Bytes != n {
			t.Errorf("%+v holds %q of %d bytes, want %q: %v", a, text, n, want, err)
		}
	}
	if _, _, err := f.Kept(ctx, strings.Repeat("0", 64)); err == nil {
		t.Error("opened what was never attached")
	}
}

func extends(t *testing.T, f *fixture) {
	ctx := context.Background()
	cell := record.Cell{ID: "s1.c3", SweepID: "s1", Ord: 3, Key: "k3", Params: record.Params{"steps": int64(2), "patches": "none"}}
	slots := []record.Slot{{ID: "s1.c3.r1.p0", CellID: "s1.c3", Round: 1}, {ID: "s1.c3.r2.p0", CellID: "s1.c3", Round: 2}}
	for range 2 {
		if err := f.Extend(ctx, "s1", []record.Cell{cell}, slots); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Extend(ctx, "s1", []record.Cell{cell}, append(slots, record.Slot{ID: "s1.c3.r3.p0", CellID: "s1.c3", Round: 3})); err != nil {
		t.Errorf("one more slot: %v", err)
	}
	v := f.view(t)
	if len(v.Cells) != 2 || !reflect.DeepEqual(v.Cells[1], cell) || len(v.Slots) != 5 {
		t.Fatalf("%+v, %+v", v.Cells, v.Slots)
	}
	other, astray := cell, cell
	other.Key, astray.ID = "another", "s1.c4"
	for name, try := range map[string]func() error{
		"another cell of the same id":  func() error { return f.Extend(ctx, "s1", []record.Cell{other}, nil) },
		"another id in the same place": func() error { return f.Extend(ctx, "s1", []record.Cell{astray}, nil) },
		"a slot of no cell":            func() error { return f.Extend(ctx, "s1", nil, []record.Slot{{ID: "x", CellID: "nothing"}}) },
		"another id for the same slot": func() error { return f.Extend(ctx, "s1", nil, []record.Slot{{ID: "x", CellID: "s1.c3", Round: 1}}) },
		"a good cell beside a bad slot": func() error {
			return f.Extend(ctx, "s1", []record.Cell{{ID: "s1.c9", SweepID: "s1", Ord: 9}}, []record.Slot{{ID: "x", CellID: "nothing"}})
		},
		"a cell of another sweep": func() error { return f.Extend(ctx, "s1", []record.Cell{{ID: "s2.c9", SweepID: "s2", Ord: 9}}, nil) },
		"no such sweep":           func() error { return f.Extend(ctx, "s9", nil, nil) },
	} {
		if try() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if v := f.view(t); len(v.Cells) != 2 || len(v.Slots) != 5 {
		t.Errorf("left behind: %+v, %+v", v.Cells, v.Slots)
	}
	// What was added is filled like any other slot.
	run := record.Run{ID: "r9", SlotID: "s1.c3.r1.p0", Attempt: 1, LaunchID: "l1", Host: "h", State: record.RunActive, StartUs: 5}
	f.must(t, "r9", record.EventIntent, record.Change{Run: &run})
	run.State, run.EndUs = record.RunDone, 6
	f.must(t, "r9", record.EventDone, record.Change{Run: &run})
	// Closed is what has no result, of that cell; added again it is open.
	closed := func() (ids []string) {
		for _, s := range f.view(t).Slots {
			if s.Closed {
				ids = append(ids, s.ID)
			}
		}
		return ids
	}
	for range 2 {
		if err := f.Extend(ctx, "s1", nil, nil, "s1.c3", "s1.c77"); err != nil {
			t.Fatal(err)
		}
		if got := closed(); !reflect.DeepEqual(got, []string{"s1.c3.r2.p0", "s1.c3.r3.p0"}) {
			t.Errorf("closed: %q", got)
		}
	}
	if f.Extend(ctx, "s1", nil, []record.Slot{{ID: "x", CellID: "nothing"}}, "s1.c1") == nil || len(closed()) != 2 {
		t.Errorf("closed beside a bad slot: %q", closed())
	}
	if err := f.Extend(ctx, "s1", []record.Cell{cell}, slots); err != nil {
		t.Fatal(err)
	}
	if got := closed(); !reflect.DeepEqual(got, []string{"s1.c3.r3.p0"}) {
		t.Errorf("closed after it was added again: %q", got)
	}
}

func cuts(t *testing.T, f *fixture) {
	ctx := context.Background()
	if err := f.Begin(ctx, record.SweepPlan{Sweep: record.Sweep{ID: "s2", Plan: json.RawMessage(`{}`), Spec: json.RawMessage(`{}`), State: record.SweepActive, CreatedUs: 1}}); err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{7, 9} { // the second one finds it cut
		if err := f.Cut(ctx, "s2", at); err != nil {
			t.Fatal(err)
		}
	}
	if v, err := f.View(ctx, "s2"); err != nil || v.Sweep.State != record.SweepInterrupted || v.Sweep.EndedUs != 7 {
		t.Errorf("nothing was begun: %+v, %v", v.Sweep, err)
	}
	if err := f.Cut(ctx, "s1", 7); err != nil {
		t.Fatal(err)
	}
	if v := f.view(t); v.Sweep.State != record.SweepActive || v.Sweep.EndedUs != 0 {
		t.Errorf("a launch was begun: %+v", v.Sweep)
	}
	if err := f.Cut(ctx, "s3", 7); err == nil {
		t.Error("an unknown sweep was cut")
	}
}
