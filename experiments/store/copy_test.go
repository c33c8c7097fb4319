package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"specrun/experiments/record"
)

// A copy is of one moment and whole, also while the store is written to, with what
// SQLite has not taken into the file yet.
func TestCopy_WhileTheStoreIsWrittenTo(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	if err := s.Begin(t.Context(), plan("s")); err != nil {
		t.Fatal(err)
	}
	const most = 40
	j := goOn(t, s, "l1")
	var writing sync.WaitGroup
	writing.Go(func() {
		for range most {
			j.must(record.Change{Launch: &j.l})
		}
	})
	seen := 0
	for n := 0; ; n++ {
		var copied bytes.Buffer
		if err := s.Copy(t.Context(), &copied); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "copy.db")
		if err := os.WriteFile(path, copied.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		events := view(t, open(t, path), "s").Events
		for i, e := range events {
			if e.Seq != int64(i+1) {
				t.Fatalf("event %d of a copy is number %d", i, e.Seq)
			}
		}
		if len(events) < seen {
			t.Fatalf("%d events after %d", len(events), seen)
		}
		if seen = len(events); seen == most+1 {
			break
		}
	}
	writing.Wait()
}

// The id goes with the file; those who ask for the first time at once get the same.
func TestID_GoesWithTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "r.db")
	ids := make([]string, 4)
	var all sync.WaitGroup
	for i := range ids {
		s := open(t, path)
		all.Go(func() {
			id, err := s.ID(t.Context(), func() string { return fmt.Sprint("id", i) })
			if err == nil {
				err = s.Close()
			}
			if err != nil {
				t.Error(err)
			}
			ids[i] = id
		})
	}
	all.Wait()
	moved := filepath.Join(dir, "moved.db")
	if err := os.Rename(path, moved); err != nil {
		t.Fatal(err)
	}
	last, err := open(t, moved).ID(t.Context(), func() string { return "another" })
	if err != nil || last == "" {
		t.Fatalf("%q, %v", last, err)
	}
	for _, id := range ids {
		if id != last {
			t.Errorf("ids %v, then %s", ids, last)
		}
	}
	there, here := thereAndHere(t)
	for i, s := range []*Store{there, here} {
		ids[i], err = s.ID(t.Context(), func() string { return fmt.Sprint("id", i) })
		if err != nil {
			t.Fatal(err)
		}
	}
	if ids[0] == ids[1] {
		t.Error("what was exported has the id of the store it came from")
	}
}

// A kept file that is lost there does not hold up what was measured; one that is
// here stays listed, whatever became of it there.
func TestMerge_WithoutWhatIsLost(t *testing.T) {
	t.Parallel()
	there, here := thereAndHere(t)
	j := goOn(t, there, "l1")
	j.attach("server.log", "lost")
	j.attach("bench.log", "kept")
	lost, err := here.Missing(t.Context(), there, "s")
	if err != nil || len(lost) != 2 {
		t.Fatalf("%v, %v", lost, err)
	}
	kept := record.Artifact{LaunchID: "l1", Name: "bench.log"}
	if err := here.keep(t.Context(), &kept, bytes.NewReader([]byte("kept"))); err != nil {
		t.Fatal(err)
	}
	if _, err := here.Merge(t.Context(), there, "s"); !errors.Is(err, ErrNotFound) {
		t.Errorf("with a file that is not here: %v", err)
	}
	for range 2 {
		m, err := here.Merge(t.Context(), there, "s", lost...)
		if err != nil || len(m.Without) != 1 || m.Without[0].Name != "server.log" || m.Without[0].LaunchID != "l1" {
			t.Errorf("%+v, %v", m, err)
		}
		v := view(t, here, "s")
		if len(v.Launches) != 1 || len(v.Artifact) != 1 || v.Artifact[0].Name != "bench.log" {
			t.Errorf("%d launches, kept %+v", len(v.Launches), v.Artifact)
		}
	}
}
