package store

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"specrun/experiments/record"
)

func TestMain(m *testing.M) {
	if os.Getenv("STORE_TEST_WRITER") != "" {
		os.Exit(writerProcess())
	}
	os.Exit(m.Run())
}

var epoch = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func open(t *testing.T, path string, opts ...Option) *Store {
	t.Helper()
	s, err := Open(context.Background(), path, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func fresh(t *testing.T) *Store {
	return open(t, filepath.Join(t.TempDir(), "results.db"))
}

// plan is a sweep of a baseline and two cells, one round, two repeats.
func plan(id string) record.SweepPlan {
	p := record.SweepPlan{Sweep: record.Sweep{ID: id, Name: "steps", Kind: "sweep",
		Spec: json.RawMessage(`{"version":1}`), Plan: json.RawMessage(`{"cells":3}`), PlanSHA: "ab12",
		State: record.SweepActive, CreatedUs: epoch.UnixMicro()}}
	for i, name := range []string{"base", "one", "two"} {
		c := record.Cell{ID: id + "-" + name, SweepID: id, Ord: i, Key: "key-" + name, Baseline: i == 0,
			Params: record.Params{"steps": int64(i), "share": 2.0, "mode": "prefill", "graph": true}}
		p.Cells = append(p.Cells, c)
		for repeat := range 2 {
			p.Slots = append(p.Slots, record.Slot{ID: c.ID + "-" + string(rune('a'+repeat)), CellID: c.ID, Repeat: repeat})
		}
	}
	return p
}

// journal records the events of one launch, numbering them.
type journal struct {
	t   *testing.T
	s   *Store
	l   record.Launch
	seq int64
}

func begin(t *testing.T, s *Store, id string) *journal {
	t.Helper()
	if err := s.Begin(context.Background(), plan(id)); err != nil {
		t.Fatal(err)
	}
	j := &journal{t: t, s: s, l: record.Launch{ID: id + "-l1", SweepID: id, Host: "gpu-01", Argv: []string{"python", "-m", "a 'b'\n"}, State: record.LaunchActive}}
	j.must(record.Change{Launch: &j.l})
	return j
}

func (j *journal) record(c record.Change) error {
	e := record.Event{LaunchID: j.l.ID, Seq: j.seq + 1, AtUs: epoch.UnixMicro() + j.seq, Step: "bench", Kind: record.EventDone,
		Evidence: json.RawMessage(`{"cursor":12}`)}
	if c.Run != nil {
		e.RunID = c.Run.ID
	}
	err := j.s.Record(context.Background(), e, c)
	if err == nil {
		j.seq++
	}
	return err
}

func (j *journal) must(c record.Change) {
	j.t.Helper()
	if err := j.record(c); err != nil {
		j.t.Fatal(err)
	}
}

func (j *journal) run(id, slot string, attempt int, state record.RunState) *record.Run {
	r := &record.Run{ID: id, SlotID: slot, Attempt: attempt, LaunchID: j.l.ID, Host: j.l.Host, State: state, StartUs: 5}
	if state == record.RunFailed {
		r.Class, r.Reason, r.EndUs = record.ClassExited, "exit 1\ntail", 9
	}
	return r
}

func view(t *testing.T, s *Store, id string) record.SweepView {
	t.Helper()
	v, err := s.View(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func data() record.RunData {
	return record.RunData{
		Metrics: []record.Metric{
			{Name: "cycle_total", Unit: "ms/cyc", Value: 20.14, N: 100, Source: "profiler"},
			{Name: "accept_len", Unit: "tokens/step", Value: math.NaN(), N: 0, Source: "server_log"},
			{Name: "accept_len", Unit: "tokens/step", Value: 1.87, N: 4, Source: "profiler"},
			{Name: "request_rate", Unit: "req/s", Value: math.Inf(1), Source: "client"},
		},
		Samples: []record.Sample{
			{Seq: 1, AtUs: 7, Name: "cycle_total", Unit: "ms/cyc", Value: 20, Source: "profiler", Labels: map[string]string{"rank": "DP0 TP0"}},
			{Seq: 2, AtUs: 8, Name: "cycle_total", Unit: "ms/cyc", Value: math.Inf(-1), Source: "profiler"},
		},
		Labels:     []record.Label{{Name: "simulated", Reason: "practice host"}, {Name: "short", Reason: "50 cycles"}},
		Checks:     []record.TrustCheck{{Name: "tpot", Outcome: record.NotCheckable, Left: math.NaN(), Right: 10.7, Explanation: "no TPOT"}},
		Provenance: []record.Fact{{Group: "env", Key: "NCCL_PROTO", Value: "LL"}, {Group: "host", Key: "kernel", Value: "6.1"}},
	}
}

func TestView_ReturnsWhatWasRecorded(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	j := begin(t, s, "sw")
	r := j.run("r1", "sw-one-a", 1, record.RunActive)
	j.must(record.Change{Run: r})
	r.State, r.EndUs = record.RunDone, 99
	d := data()
	j.must(record.Change{Run: r, Data: &d})
	j.l.Identity, j.l.State = json.RawMessage(`{"pid":7}`), record.LaunchDone
	argv := j.l.Argv
	j.l.Argv = nil // an update that does not know the command must not erase it
	j.must(record.Change{Launch: &j.l, SweepID: "sw", SweepState: record.SweepDone})
	j.l.Argv = argv

	p := plan("sw")
	p.Sweep.State, p.Sweep.EndedUs = record.SweepDone, epoch.UnixMicro()+3
	want := record.SweepView{Sweep: p.Sweep, Cells: p.Cells, Slots: p.Slots, Launches: []record.Launch{j.l},
		Runs: []record.Run{*r}, Data: map[string]record.RunData{"r1": data()}}
	got := view(t, s, "sw")
	if diff := cmp.Diff(want, got, cmpopts.EquateNaNs(), cmpopts.IgnoreFields(record.SweepView{}, "Events")); diff != "" {
		t.Errorf("view (-want +got):\n%s", diff)
	}
	var seqs []int64
	for _, e := range got.Events {
		seqs = append(seqs, e.Seq)
	}
	if diff := cmp.Diff([]int64{1, 2, 3, 4}, seqs); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if e := got.Events[1]; e.RunID != "r1" || string(e.Evidence) != `{"cursor":12}` || e.Kind != record.EventDone {
		t.Errorf("event 2 = %+v", e)
	}
}

func TestRecord_DataReplacesEarlierDataOfThatRunOnly(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	j := begin(t, s, "sw")
	d := data()
	j.must(record.Change{Run: j.run("r1", "sw-one-a", 1, record.RunActive), Data: &d})
	j.must(record.Change{Run: j.run("r2", "sw-two-a", 1, record.RunActive), Data: &d})
	j.must(record.Change{Run: j.run("r1", "sw-one-a", 1, record.RunDone), Data: &record.RunData{Labels: []record.Label{{Name: "single"}}}})
	got := view(t, s, "sw").Data
	if diff := cmp.Diff(record.RunData{Labels: []record.Label{{Name: "single"}}}, got["r1"]); diff != "" {
		t.Errorf("r1 (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(data(), got["r2"], cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("r2 (-want +got):\n%s", diff)
	}
}

func TestBegin_TwiceIsRefused(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	begin(t, s, "sw")
	if err := s.Begin(context.Background(), plan("sw")); !errors.Is(err, ErrExists) {
		t.Errorf("second Begin: %v, want ErrExists", err)
	}
	p := plan("other")
	p.Slots[1] = p.Slots[0] // a broken plan leaves nothing behind
	if err := s.Begin(context.Background(), p); err == nil {
		t.Error("a plan with the same slot twice was stored")
	}
	if _, err := s.View(context.Background(), "other"); !errors.Is(err, ErrNotFound) {
		t.Errorf("View of the broken plan: %v, want ErrNotFound", err)
	}
}

func TestRecord_EventAndChangeStandOrFallTogether(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	j := begin(t, s, "sw")
	d := data()
	j.seq-- // the number of the launch's first event again
	err := j.record(record.Change{Run: j.run("r1", "sw-one-a", 1, record.RunDone), Data: &d, SweepID: "sw", SweepState: record.SweepDone})
	if !errors.Is(err, ErrEventRecorded) {
		t.Fatalf("same number twice: %v, want ErrEventRecorded", err)
	}
	v := view(t, s, "sw")
	if len(v.Runs) != 0 || len(v.Events) != 1 || len(v.Data) != 0 || v.Sweep.State != record.SweepActive {
		t.Errorf("a refused event left its change: %d runs, %d events, sweep %s", len(v.Runs), len(v.Events), v.Sweep.State)
	}
}

func TestRecord_ASlotIsFilledOnce(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	j := begin(t, s, "sw")
	j.must(record.Change{Run: j.run("r1", "sw-one-a", 1, record.RunDone)})
	for _, state := range []record.RunState{record.RunDone, record.RunFailed} {
		if err := j.record(record.Change{Run: j.run("r2", "sw-one-a", 2, state)}); !errors.Is(err, ErrSlotFilled) {
			t.Errorf("second run %s: %v, want ErrSlotFilled", state, err)
		}
	}
	if err := j.record(record.Change{Run: j.run("r3", "sw-one-a", 1, record.RunActive)}); !errors.Is(err, ErrSlotFilled) {
		t.Errorf("same attempt: %v, want ErrSlotFilled", err)
	}
	// Attempts that were cut do not fill it, and an active one may lie beside.
	j.must(record.Change{Run: j.run("r4", "sw-two-a", 1, record.RunCut)})
	j.must(record.Change{Run: j.run("r5", "sw-two-a", 2, record.RunActive)})
	j.must(record.Change{Run: j.run("r5", "sw-two-a", 2, record.RunDone)})
	if n := len(view(t, s, "sw").Runs); n != 3 {
		t.Errorf("%d runs stored, want 3", n)
	}
}

func TestRecord_SupersedeOpensTheSlotInTheSameTransaction(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	j := begin(t, s, "sw")
	j.must(record.Change{Run: j.run("r1", "sw-one-a", 1, record.RunFailed)})

	// The new attempt cannot be stored: the failed run must stay the result.
	bad := j.run("r2", "no such slot", 2, record.RunActive)
	if err := j.record(record.Change{Supersede: "r1", Run: bad}); err == nil {
		t.Fatal("a run in an unknown slot was stored")
	}
	if r := view(t, s, "sw").Runs[0]; r.State != record.RunFailed || r.Class != record.ClassExited {
		t.Errorf("after the refused change the run is %+v", r)
	}
	j.must(record.Change{Supersede: "r1", Run: j.run("r2", "sw-one-a", 2, record.RunActive)})
	j.must(record.Change{Run: j.run("r2", "sw-one-a", 2, record.RunDone)})
	runs := view(t, s, "sw").Runs
	if runs[0].State != record.RunSuperseded || runs[0].Reason != "exit 1\ntail" || runs[1].State != record.RunDone {
		t.Errorf("runs = %+v", runs)
	}
	var se *StateError
	if err := j.record(record.Change{Supersede: "r2"}); !errors.As(err, &se) {
		t.Errorf("superseding a run that is done: %v, want *StateError", err)
	}
	if err := j.record(record.Change{Supersede: "nope"}); !errors.Is(err, ErrNotFound) {
		t.Errorf("superseding an unknown run: %v, want ErrNotFound", err)
	}
}

func TestRecord_FinalStatesStay(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	j := begin(t, s, "sw")
	var se *StateError
	for i, state := range []record.RunState{record.RunDone, record.RunFailed, record.RunCut} {
		id, slot := string(rune('p'+i)), plan("sw").Slots[i].ID
		j.must(record.Change{Run: j.run(id, slot, 1, state)})
		if err := j.record(record.Change{Run: j.run(id, slot, 1, record.RunActive)}); !errors.As(err, &se) {
			t.Errorf("run %s -> active: %v, want *StateError", state, err)
		}
	}
	j.l.State = record.LaunchCut
	j.must(record.Change{Launch: &j.l})
	j.l.State = record.LaunchActive
	if err := j.record(record.Change{Launch: &j.l}); !errors.As(err, &se) {
		t.Errorf("launch cut -> active: %v, want *StateError", err)
	}
}

func TestRecord_RefusesWhatPointsNowhere(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	j := begin(t, s, "sw")
	d := data()
	for name, c := range map[string]record.Change{
		"unknown slot":     {Run: j.run("r1", "nope", 1, record.RunActive)},
		"unknown sweep":    {SweepID: "nope", SweepState: record.SweepDone},
		"data without run": {Data: &d},
		"unknown state":    {Run: j.run("r1", "sw-one-a", 1, "finished")},
	} {
		if err := j.record(c); err == nil {
			t.Errorf("%s was stored", name)
		}
	}
	err := s.Record(context.Background(), record.Event{LaunchID: "nope", Seq: 1}, record.Change{})
	if err == nil {
		t.Error("an event of an unknown launch was stored")
	}
}

func TestClaim(t *testing.T) {
	t.Parallel()
	now := epoch
	s := open(t, filepath.Join(t.TempDir(), "r.db"), WithClock(func() time.Time { return now }))
	begin(t, s, "sw")
	ctx := context.Background()
	until := epoch.Add(time.Minute).UnixMicro()
	if err := s.Claim(ctx, "sw", "anna@laptop:71", until); err != nil {
		t.Fatal(err)
	}
	var held *ClaimedError
	if err := s.Claim(ctx, "sw", "ben@desk:9", until); !errors.As(err, &held) {
		t.Fatalf("second controller: %v, want *ClaimedError", err)
	}
	if held.Controller != "anna@laptop:71" || held.ExpiresUs != until || held.SweepID != "sw" {
		t.Errorf("the error names %+v", held)
	}
	if who, when := held.Holder(); who != held.Controller || when != until {
		t.Errorf("Holder() = %q, %d", who, when)
	}
	now = now.Add(50 * time.Second)
	until = now.Add(time.Minute).UnixMicro()
	if err := s.Claim(ctx, "sw", "anna@laptop:71", until); err != nil {
		t.Errorf("extending: %v", err)
	}
	now = now.Add(59 * time.Second)
	if err := s.Claim(ctx, "sw", "ben@desk:9", now.Add(time.Minute).UnixMicro()); !errors.As(err, &held) {
		t.Errorf("the extension did not hold: %v", err)
	}
	now = now.Add(time.Second) // exactly at its expiry the claim is void
	if err := s.Claim(ctx, "sw", "ben@desk:9", now.Add(time.Minute).UnixMicro()); err != nil {
		t.Errorf("after expiry: %v", err)
	}
	if err := s.Claim(ctx, "sw", "anna@laptop:71", 0); !errors.As(err, &held) {
		t.Errorf("giving up another's claim: %v, want *ClaimedError", err)
	}
	if err := s.Claim(ctx, "sw", "ben@desk:9", 0); err != nil {
		t.Errorf("giving up: %v", err)
	}
	if err := s.Claim(ctx, "sw", "anna@laptop:71", until+1e9); err != nil {
		t.Errorf("after it was given up: %v", err)
	}
	if err := s.Claim(ctx, "nope", "anna@laptop:71", until+1e9); !errors.Is(err, ErrNotFound) {
		t.Errorf("unknown sweep: %v, want ErrNotFound", err)
	}
}
