package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"specrun/experiments/record"
)

// launch stores one launch with runs that took so long, all in seconds.
func storeLaunch(t *testing.T, s *Store, sweep string, n int, state record.LaunchState, outside int64, runs ...int64) {
	t.Helper()
	const second = int64(time.Second / time.Microsecond)
	ctx := context.Background()
	at := epoch.UnixMicro()
	l := record.Launch{ID: fmt.Sprintf("%s-launch%d", sweep, n), SweepID: sweep, Host: "gpu-01", State: record.LaunchActive}
	seq := int64(0)
	put := func(step string, kind record.EventKind, c record.Change) {
		t.Helper()
		seq++
		e := record.Event{LaunchID: l.ID, Seq: seq, AtUs: at, Step: step, Kind: kind}
		if c.Run != nil {
			e.RunID = c.Run.ID
		}
		if err := s.Record(ctx, e, c); err != nil {
			t.Fatal(err)
		}
	}
	put("launch", record.EventIntent, record.Change{Launch: &l})
	at += outside * second
	put("ready", record.EventDone, record.Change{})
	for i, d := range runs {
		r := record.Run{ID: fmt.Sprintf("%s-r%d", l.ID, i), SlotID: plan(sweep).Slots[2*n+i].ID, Attempt: 1, LaunchID: l.ID, Host: l.Host, State: record.RunDone,
			StartUs: at, EndUs: at + d*second}
		at = r.EndUs
		put("run", record.EventDone, record.Change{Run: &r})
	}
	l.State = state
	put("launch", record.EventDone, record.Change{Launch: &l})
	at += 1000 * second // what comes later is not of the launch
	put("sweep", record.EventNote, record.Change{})
}

func TestDurations_MediansOfWhatCameToItsEnd(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	ctx := context.Background()
	if d, err := s.Durations(ctx, "steps", "gpu-01"); err != nil || d != (Durations{}) {
		t.Fatalf("of nothing: %+v, %v", d, err)
	}
	begin(t, s, "sw")
	storeLaunch(t, s, "sw", 0, record.LaunchDone, 10, 3, 5)
	storeLaunch(t, s, "sw", 1, record.LaunchDone, 30, 4)
	storeLaunch(t, s, "sw", 2, record.LaunchFailed, 500)
	begin(t, s, "again")
	storeLaunch(t, s, "again", 0, record.LaunchDone, 20, 9, 9)
	got, err := s.Durations(ctx, "steps", "gpu-01")
	want := Durations{Launch: 20 * time.Second, Launches: 3, Run: 5 * time.Second, Runs: 5}
	if err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for _, other := range [][2]string{{"steps", "gpu-02"}, {"other", "gpu-01"}} {
		if d, err := s.Durations(ctx, other[0], other[1]); err != nil || d != (Durations{}) {
			t.Errorf("%v: %+v, %v", other, d, err)
		}
	}
}
