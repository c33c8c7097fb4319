package store

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"specrun/experiments/record"
)

// measured is one launch of a cell and the values of its runs.
type measured struct {
	cell   int
	values []float64
	state  record.RunState
}

// storeSweep stores a sweep on a host with what its launches measured.
func storeSweep(t *testing.T, s *Store, id, kind, name, host, plan string, state record.SweepState, launches ...measured) {
	t.Helper()
	storeSweepAt(t, s, 0, id, kind, name, host, plan, state, launches...)
}

// storeSweepAt is storeSweep of a sweep that was created then.
func storeSweepAt(t *testing.T, s *Store, createdUs int64, id, kind, name, host, plan string, state record.SweepState, launches ...measured) {
	t.Helper()
	ctx := context.Background()
	p := record.SweepPlan{Sweep: record.Sweep{ID: id, Name: name, Kind: kind, Plan: json.RawMessage(plan), PlanSHA: id, State: record.SweepActive, CreatedUs: createdUs}}
	for c := range 3 {
		p.Cells = append(p.Cells, record.Cell{ID: fmt.Sprintf("%s.c%d", id, c), SweepID: id, Ord: c, Key: "k", Params: record.Params{}})
	}
	for i, l := range launches {
		for k := range l.values {
			p.Slots = append(p.Slots, record.Slot{ID: fmt.Sprintf("%s.l%d.r%d", id, i, k), CellID: p.Cells[l.cell].ID, Round: i, Repeat: k})
		}
	}
	if err := s.Begin(ctx, p); err != nil {
		t.Fatal(err)
	}
	for i, l := range launches {
		launch := record.Launch{ID: fmt.Sprintf("%s-%d", id, i), SweepID: id, Host: host, State: record.LaunchActive}
		seq := int64(0)
		put := func(runID string, c record.Change) {
			t.Helper()
			seq++
			if err := s.Record(ctx, record.Event{LaunchID: launch.ID, Seq: seq, RunID: runID, Step: "run", Kind: record.EventDone}, c); err != nil {
				t.Fatal(err)
			}
		}
		put("", record.Change{Launch: &launch})
		for k, v := range l.values {
			r := record.Run{ID: fmt.Sprintf("%s-%d-%d", id, i, k), SlotID: fmt.Sprintf("%s.l%d.r%d", id, i, k), Attempt: 1, LaunchID: launch.ID, Host: host, State: record.RunDone}
			if l.state != "" {
				r.State = l.state
			}
			put(r.ID, record.Change{Run: &r, Data: &record.RunData{Metrics: []record.Metric{
				{Name: "tpot", Unit: "ms", Value: v, Source: "client"}, {Name: "other", Unit: "ms", Value: 1, Source: "client"}}}})
		}
		launch.State = record.LaunchDone
		put("", record.Change{Launch: &launch, SweepID: id, SweepState: state})
	}
}

func TestLaunchNoise_GroupsWhatLaunchesOfACellMeasured(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	ctx := context.Background()
	launches := []measured{{cell: 0, values: []float64{10, 12, 11}}, {cell: 1, values: []float64{20}}, {cell: 0, values: []float64{13}}, {cell: 2, values: []float64{5}},
		{cell: 2, values: []float64{6}, state: record.RunFailed}, {cell: 1, values: []float64{math.NaN()}}}
	storeSweep(t, s, "one", "sweep", "steps", "gpu-01", "{}", record.SweepDone, launches...)
	storeSweep(t, s, "two", "aa", "steps", "gpu-01", "{}", record.SweepDone, measured{cell: 1, values: []float64{30, 32}}, measured{cell: 1, values: []float64{33}})
	storeSweep(t, s, "imported", "import", "steps", "gpu-01", "{}", record.SweepDone, measured{values: []float64{1}}, measured{values: []float64{2}})
	storeSweep(t, s, "elsewhere", "sweep", "steps", "gpu-02", "{}", record.SweepDone, measured{values: []float64{1}}, measured{values: []float64{2}})
	storeSweep(t, s, "different", "sweep", "modes", "gpu-01", "{}", record.SweepDone, measured{values: []float64{1}}, measured{values: []float64{2}})
	got, err := s.LaunchNoise(ctx, "gpu-01", "steps", "tpot", later)
	if diff := cmp.Diff([][][]float64{{{33}, {30, 32}}, {{13}, {10, 12, 11}}}, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if got, err := s.LaunchNoise(ctx, "gpu-03", "steps", "tpot", later); err != nil || got != nil {
		t.Errorf("of nothing: %v, %v", got, err)
	}
}

// later is after all that a test stores.
const later = math.MaxInt64

// What is said of a sweep rests on earlier ones: not on itself, and not on those
// that came after it.
func TestLaunchNoise_OfEarlierSweepsOnly(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	pairOf := func(v float64) []measured {
		return []measured{{values: []float64{v}}, {values: []float64{v + 1}}}
	}
	for i, id := range []string{"first", "second", "third"} {
		storeSweepAt(t, s, int64(1000*(i+1)), id, "sweep", "steps", "h", "{}", record.SweepDone, pairOf(float64(10*(i+1)))...)
	}
	for before, want := range map[int64][][][]float64{1000: nil, 1001: {{{11}, {10}}}, 2000: {{{11}, {10}}}, 3000: {{{21}, {20}}, {{11}, {10}}}, later: {{{31}, {30}}, {{21}, {20}}, {{11}, {10}}}} {
		got, err := s.LaunchNoise(context.Background(), "h", "steps", "tpot", before)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("before %d: %v\n%s", before, err, diff)
		}
	}
}

func TestLaunchNoise_RemembersTheNewestLaunches(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	const newest = 20
	for i := range newest/2 + 5 {
		v := float64(1000 + 10*i)
		storeSweep(t, s, fmt.Sprintf("s%03d", i), "probe", "steps", "h", "{}", record.SweepDone, measured{values: []float64{v}}, measured{values: []float64{v + 1}})
	}
	got, err := s.launchNoise(context.Background(), "h", "steps", "tpot", later, newest)
	if err != nil || len(got) != newest/2 || got[len(got)-1][0][0] != 1051 {
		t.Errorf("%d groups, the oldest %v, %v", len(got), got[len(got)-1:], err)
	}
}

func TestProbesOf_ThisContentOnThisHost(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	ctx := context.Background()
	sha, other := strings.Repeat("a1", 32), strings.Repeat("b2", 32)
	planOf := func(sha string) string {
		return `{"cells":[{},{"server":{"patches":[{"name":"p","sha256":"` + sha + `"}]}}]}`
	}
	one := measured{values: []float64{1}}
	storeSweep(t, s, "old", "probe", "steps", "gpu-01", planOf(sha), record.SweepDone, one)
	storeSweep(t, s, "new", "probe", "steps", "gpu-01", planOf(sha), record.SweepDone, one)
	storeSweep(t, s, "failed", "probe", "steps", "gpu-01", planOf(sha), record.SweepIncomplete, one)
	storeSweep(t, s, "content", "probe", "steps", "gpu-01", planOf(other), record.SweepDone, one)
	storeSweep(t, s, "host", "probe", "steps", "gpu-02", planOf(sha), record.SweepDone, one)
	storeSweep(t, s, "sweep", "sweep", "steps", "gpu-01", planOf(sha), record.SweepDone, one)
	for most, want := range map[int][]string{5: {"new", "old"}, 1: {"new"}} {
		ids, err := s.ProbesOf(ctx, sha, "gpu-01", most)
		if diff := cmp.Diff(want, ids); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	}
	if ids, err := s.ProbesOf(ctx, sha, "gpu-03", 5); err != nil || len(ids) > 0 {
		t.Errorf("%v, %v", ids, err)
	}
	for _, none := range []string{`%`, "none", ""} {
		if ids, err := s.ProbesOf(ctx, none, "gpu-01", 5); len(ids) > 0 || err != nil {
			t.Errorf("%q: %v, %v", none, ids, err)
		}
	}
}
