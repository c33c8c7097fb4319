package detach

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"specrun/experiments"
	"specrun/experiments/record"
	"specrun/patches"
)

// What a follower is told is what a watcher on the host is told, but for data
// that comes with a fetch.
func TestEvent_AsSeenFromAfar(t *testing.T) {
	cells := []experiments.Cell{{Ord: 0, Baseline: true}, {Ord: 1, Params: record.Params{"steps": int64(2)}}}
	p := experiments.Progress{SweepID: "s", Host: "h", Launch: 2, Launches: 3, Round: 1, Repeat: 1, Cells: cells[1:], Cell: &cells[1], Step: "run",
		Phase: experiments.PhaseResult, Message: "m", Times: 3, Result: &record.Result{Run: record.Run{ID: "r", Host: "h", State: record.RunFailed, Class: "exited", Reason: "1\n2"},
			Data: record.RunData{Metrics: []record.Metric{{Name: "tpot", Unit: "ms", Value: 1.5, N: 3, Source: "client"}}}}}
	with := p
	result := *p.Result
	with.Result = &result
	with.Result.Data.Metrics = append([]record.Metric{{Name: "bad", Value: math.NaN()}, {Name: "worse", Value: math.Inf(1)}}, p.Result.Data.Metrics...)
	with.Result.Data.Samples = []record.Sample{{Value: math.NaN()}}
	line, err := json.Marshal(NewEvent(with, 7))
	if err != nil {
		t.Fatal(err)
	}
	var e Event
	if err := json.Unmarshal(line, &e); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, e.Progress("s", "h", cells), cmpopts.IgnoreUnexported(experiments.Cell{})); diff != "" || e.AtUs != 7 {
		t.Errorf("(-told +seen):\n%s", diff)
	}
	// A plan of another build may have fewer cells.
	if got := e.Progress("s", "h", cells[:1]); got.Cell != nil || len(got.Cells) > 0 {
		t.Errorf("%+v", got)
	}
}

func TestParseLook(t *testing.T) {
	for _, c := range []struct {
		name, out string
		from      int64
		state     State
		events    int
		at        int64
	}{
		{"nothing", "is absent\n", 0, Absent, 0, 0},
		{"no events yet", "is begun\ndata\n", 0, Begun, 0, 0},
		{"half a line stays", "is running\ndata\n{\"at_us\":1}\n{\"at_us\":2", 10, Running, 1, 22},
		{"what a killed process left is passed", "is running\ndata\n{\"at\n{\"at_us\":2}\n", 0, Running, 1, 17},
	} {
		st, err := parseLook([]byte(c.out), c.from)
		if err != nil || st.State != c.state || len(st.Events) != c.events || st.At != c.at {
			t.Errorf("%s: %+v, %v", c.name, st, err)
		}
	}
	for _, out := range []string{"", "is\n", "is somehow\n", "is running\nnow {\ndata\n"} {
		if st, err := parseLook([]byte(out), 0); err == nil {
			t.Errorf("%q: %+v", out, st)
		}
	}
}

// A line longer than what one look brings is passed over, and what comes behind
// it is told.
func TestParseLook_ALineThatNoLookHolds(t *testing.T) {
	events := strings.Repeat("x", lookChunk+100) + "\n" + `{"began":"me"}` + "\n"
	var told []Event
	var at int64
	for looks := 0; ; looks++ {
		if looks == 5 {
			t.Fatalf("still at %d after %d looks", at, looks)
		}
		data := events[at:min(at+lookChunk, int64(len(events)))]
		st, err := parseLook([]byte("is running\ndata\n"+data), at)
		if err != nil {
			t.Fatal(err)
		}
		told, at = append(told, st.Events...), st.At
		if !st.More {
			break
		}
	}
	if len(told) != 1 || told[0].Began != "me" || at != int64(len(events)) {
		t.Errorf("told %+v, at %d of %d", told, at, len(events))
	}
}

func TestReadJob_PatchesAreWhatThePlanMeans(t *testing.T) {
	p, err := patches.Lookup("profiling-v4")
	if err != nil {
		t.Fatal(err)
	}
	packed, err := NewPatch(p, "/home/me/my-patch")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(j Job) {
		text, err := json.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, jobFile), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(Job{Schema: jobSchema, SweepID: "s", Version: "v1", Patches: []Patch{packed}})
	j, lookup, err := ReadJob(dir, "v1")
	if err != nil || j.SweepID != "s" {
		t.Fatalf("%+v, %v", j, err)
	}
	if got, err := lookup("/home/me/my-patch"); err != nil || got.SHA256() != p.SHA256() {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := lookup("no-such-patch"); err == nil {
		t.Error("an unknown patch was found")
	}

	packed.SHA256 = strings.Repeat("0", 64)
	write(Job{Schema: jobSchema, Version: "v1", Patches: []Patch{packed}})
	if _, _, err := ReadJob(dir, "v1"); err == nil || !strings.Contains(err.Error(), "the job says") {
		t.Errorf("another content: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, jobFile), []byte(`{"schema":1,"version":"v1","rounds":3}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ReadJob(dir, "v1"); err == nil || !strings.Contains(err.Error(), "rounds") {
		t.Errorf("an unknown field: %v", err)
	}
}
