package store

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"specrun/experiments/record"
)

func pragma(t *testing.T, s *Store, name string) string {
	t.Helper()
	var v string
	if err := s.db.QueryRow("PRAGMA " + name).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestOpen_Settings(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "a b", "100%?#'é.db")) // the folder is made, any name works
	if _, err := os.Stat(s.Path()); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]string{"journal_mode": "wal", "foreign_keys": "1", "synchronous": "2", "busy_timeout": "10000"} {
		if got := pragma(t, s, name); got != want {
			t.Errorf("%s = %s, want %s", name, got, want)
		}
	}
	network := open(t, filepath.Join(t.TempDir(), "r.db"), func(o *options) { o.networkFS = func(string) bool { return true } })
	if got := pragma(t, network, "journal_mode"); got != "delete" {
		t.Errorf("on a network file system journal_mode = %s, want delete", got)
	}
}

func TestOpen_RefusesWithoutTouching(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "notes.db")
	notes := strings.Repeat("my notes, no database\n", 100)
	if err := os.WriteFile(path, []byte(notes), 0o600); err != nil {
		t.Fatal(err)
	}
	var oe *OpenError
	if _, err := Open(ctx, path); !errors.As(err, &oe) || !strings.Contains(oe.Hint(), "no SQLite database") {
		t.Errorf("a text file: %v", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != notes {
		t.Errorf("the file was changed (%v)", err)
	}
	if _, err := Open(ctx, filepath.Join(path, "r.db")); !errors.As(err, &oe) {
		t.Errorf("below a file: %v, want *OpenError", err)
	}
	absent := filepath.Join(t.TempDir(), "sub", "r.db")
	if _, err := Open(ctx, absent, MustExist()); !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &oe) || !strings.Contains(oe.Hint(), "nothing was stored") {
		t.Errorf("an absent file: %v", err)
	}
	if _, err := os.Stat(filepath.Dir(absent)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its folder was made (%v)", err)
	}
	if _, err := Open(ctx, "postgres://user:secret@db/x"); !errors.As(err, &oe) || strings.Contains(err.Error(), "secret") {
		t.Errorf("a DSN: %v, want *OpenError without its password", err)
	}
}

func TestOpen_NewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "r.db")
	s, err := Open(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.db.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1)`); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = Open(context.Background(), path)
	var se *SchemaError
	if !errors.As(err, &se) || se.Have != 99 || se.Known < 1 || se.Path != path {
		t.Errorf("Open = %v, want *SchemaError with 99", err)
	}
}

// Several controllers may meet at a file that none has made yet.
func TestOpen_AtTheSameMoment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.db")
	var wg sync.WaitGroup
	start := make(chan struct{})
	for range 6 {
		wg.Go(func() {
			<-start
			s, err := Open(context.Background(), path)
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	close(start)
	wg.Wait()
	var versions int
	if err := open(t, path).db.QueryRow(`SELECT COUNT(*) FROM goose_db_version WHERE version_id = 1`).Scan(&versions); err != nil || versions != 1 {
		t.Errorf("migration 1 is listed %d times (%v)", versions, err)
	}
}

// Two stores on one file race for every slot; each must be filled once, and the
// loser must learn it.
func TestRecord_TwoStoresRaceForTheSameSlots(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.db")
	a, b := open(t, path), open(t, path)
	begin(t, a, "sw")
	slots := plan("sw").Slots
	ctx := context.Background()
	var mu sync.Mutex
	won := map[string]int{}
	var wg sync.WaitGroup
	for i, s := range []*Store{a, b} {
		wg.Go(func() {
			l := record.Launch{ID: fmt.Sprintf("l-%d", i), SweepID: "sw", Host: "h", State: record.LaunchActive}
			if err := s.Record(ctx, record.Event{LaunchID: l.ID, Seq: 0}, record.Change{Launch: &l}); err != nil {
				t.Error(err)
				return
			}
			for n, slot := range slots {
				r := &record.Run{ID: fmt.Sprintf("r-%d-%d", i, n), SlotID: slot.ID, Attempt: i + 1, LaunchID: l.ID, State: record.RunDone}
				err := s.Record(ctx, record.Event{LaunchID: l.ID, Seq: int64(n + 1), RunID: r.ID}, record.Change{Run: r})
				switch {
				case err == nil:
					mu.Lock()
					won[slot.ID]++
					mu.Unlock()
				case !errors.Is(err, ErrSlotFilled):
					t.Error(err)
				}
				if _, err := s.View(ctx, "sw"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, slot := range slots {
		if won[slot.ID] != 1 {
			t.Errorf("slot %s was filled %d times", slot.ID, won[slot.ID])
		}
	}
	if v := view(t, a, "sw"); len(v.Runs) != len(slots) || len(v.Events) != 3+len(slots) {
		t.Errorf("%d runs, %d events", len(v.Runs), len(v.Events))
	}
}

func TestRecord_DiskFullIsAnErrorAndNothingIsHalfStored(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	j := begin(t, s, "sw")
	j.must(record.Change{Run: j.run("r1", "sw-one-a", 1, record.RunDone)})
	// SQLite answers a file that may not grow just as it answers ENOSPC. The
	// limit belongs to a connection, so there must be only one
	// beside the store's anchor.
	s.db.SetMaxOpenConns(2)
	if _, err := s.db.Exec("PRAGMA max_page_count = 1"); err != nil { // 1 means: no more than now
		t.Fatal(err)
	}
	big := record.RunData{}
	for range 500 {
		big.Provenance = append(big.Provenance, record.Fact{Group: "env", Key: "X", Value: strings.Repeat("y", 1000)})
	}
	err := j.record(record.Change{Run: j.run("r2", "sw-two-a", 1, record.RunDone), Data: &big})
	var full *DiskFullError
	if !errors.As(err, &full) || full.Hint() == "" {
		t.Fatalf("Record on a full disk: %v, want *DiskFullError", err)
	}
	v := view(t, s, "sw")
	if len(v.Runs) != 1 || len(v.Events) != 2 || len(v.Data) != 0 {
		t.Errorf("half stored: %d runs, %d events", len(v.Runs), len(v.Events))
	}
	if got := pragma(t, s, "integrity_check"); got != "ok" {
		t.Errorf("integrity_check: %s", got)
	}
	if _, err := s.db.Exec("PRAGMA max_page_count = 1000000"); err != nil {
		t.Fatal(err)
	}
	j.must(record.Change{Run: j.run("r2", "sw-two-a", 1, record.RunDone), Data: &big})
}

// writerProcess records runs of many samples one after the other and tells on
// stdout what Record has acknowledged, until it is killed.
func writerProcess() int {
	ctx := context.Background()
	id := os.Getenv("STORE_TEST_WRITER")
	fail := func(err error) int { fmt.Fprintln(os.Stderr, err); return 1 }
	s, err := Open(ctx, os.Getenv("STORE_TEST_PATH"))
	if err != nil {
		return fail(err)
	}
	p := record.SweepPlan{Sweep: record.Sweep{ID: id, State: record.SweepActive}, Cells: []record.Cell{{ID: id, SweepID: id}}}
	for n := range 2000 {
		p.Slots = append(p.Slots, record.Slot{ID: fmt.Sprint(id, n), CellID: id, Round: n})
	}
	if err := s.Begin(ctx, p); err != nil {
		return fail(err)
	}
	l := &record.Launch{ID: id, SweepID: id, State: record.LaunchActive}
	for n, slot := range p.Slots {
		r := &record.Run{ID: slot.ID, SlotID: slot.ID, Attempt: 1, LaunchID: id, State: record.RunDone}
		d := &record.RunData{}
		for i := range 20 {
			d.Samples = append(d.Samples, record.Sample{Seq: i, Name: "cycle_total", Value: float64(i)})
		}
		if err := s.Record(ctx, record.Event{LaunchID: id, Seq: int64(n), RunID: r.ID}, record.Change{Launch: l, Run: r, Data: d}); err != nil {
			return fail(err)
		}
		fmt.Println(n)
	}
	return 0
}

// Two processes write into one file; both are killed while they do.
func TestKill9_EverythingAcknowledgedIsWholeAndNothingElseIs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.db")
	const after = 8 // acknowledged writes before the kill; the next is under way
	last := map[string]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, id := range []string{"w1", "w2"} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "STORE_TEST_WRITER="+id, "STORE_TEST_PATH="+path)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			n, lines := -1, bufio.NewScanner(out)
			for lines.Scan() {
				n++
				if n == after {
					if err := cmd.Process.Kill(); err != nil {
						t.Error(err)
					}
				}
			}
			if err := cmd.Wait(); err == nil {
				t.Errorf("%s ended by itself before it was killed", id)
			}
			mu.Lock()
			last[id] = n
			mu.Unlock()
		})
	}
	wg.Wait()
	s := open(t, path)
	if got := pragma(t, s, "integrity_check"); got != "ok" {
		t.Errorf("integrity_check: %s", got)
	}
	if rows, err := s.db.Query("PRAGMA foreign_key_check"); err != nil {
		t.Error(err)
	} else {
		if rows.Next() {
			t.Error("a row points nowhere")
		}
		_ = rows.Close()
	}
	for id, n := range last {
		if n < after {
			t.Errorf("%s acknowledged only %d writes", id, n+1)
		}
		v := view(t, s, id)
		// One more may have been committed and its line not written.
		if got := len(v.Events); got != n+1 && got != n+2 {
			t.Errorf("%s: %d events stored, %d acknowledged", id, got, n+1)
		}
		if len(v.Runs) != len(v.Events) {
			t.Errorf("%s: %d runs, %d events", id, len(v.Runs), len(v.Events))
		}
		for i, e := range v.Events {
			if e.Seq != int64(i) || len(v.Data[e.RunID].Samples) != 20 {
				t.Errorf("%s: event %d has number %d and %d samples", id, i, e.Seq, len(v.Data[e.RunID].Samples))
			}
		}
	}
	begin(t, s, "next") // and the file takes more
}

func TestRead_DoesNotWaitForAWriter(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "r.db")
	a, b := open(t, path), open(t, path)
	begin(t, a, "sw")
	err := a.write(context.Background(), func(tx *sql.Tx) error {
		if _, err := tx.Exec(`UPDATE sweep SET name = 'half done'`); err != nil {
			return err
		}
		if v := view(t, b, "sw"); v.Sweep.Name != "steps" {
			t.Errorf("a reader saw an unfinished transaction: %q", v.Sweep.Name)
		}
		return errors.New("give up")
	})
	if err == nil || view(t, b, "sw").Sweep.Name != "steps" {
		t.Errorf("a transaction given up left something (%v)", err)
	}
}
