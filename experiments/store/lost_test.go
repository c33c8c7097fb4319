package store

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"specrun/experiments/record"
)

// What is recorded to a file that was deleted would be gone with the process.
func TestRecord_ToADeletedFileSavesACopyAndFails(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(path string) error{
		"the file": os.Remove,
		"all of it": func(path string) error {
			return errors.Join(os.Remove(path), os.Remove(path+"-wal"), os.Remove(path+"-shm"))
		},
		"its folder": func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, filepath.Join(t.TempDir(), "sub", "results.db"))
			j := begin(t, s, "s1")
			if err := remove(s.Path()); err != nil {
				t.Fatal(err)
			}
			var lost *LostError
			if err := j.record(record.Change{}); !errors.As(err, &lost) || !lost.Saved {
				t.Fatalf("record: %v", err)
			}
			if err := s.Begin(context.Background(), plan("s2")); !errors.As(err, &lost) {
				t.Errorf("begin: %v", err)
			}
			if err := s.Claim(context.Background(), "s1", "c", 1); !errors.As(err, &lost) {
				t.Errorf("claim: %v", err)
			}
			if _, err := s.View(context.Background(), "s1"); err != nil {
				t.Errorf("what is there is still read: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			v, err := open(t, s.Path()).View(context.Background(), "s1")
			if err != nil || len(v.Events) != 1 {
				t.Errorf("the copy has %d events, %v", len(v.Events), err)
			}
			left, err := filepath.Glob(filepath.Join(filepath.Dir(s.Path()), ".saving-*"))
			if err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

// Another file in its place is somebody's.
func TestRecord_ToAReplacedFileLeavesTheOtherAlone(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	j := begin(t, s, "s1")
	if err := errors.Join(os.Rename(s.Path(), s.Path()+".old"), os.WriteFile(s.Path(), []byte("theirs"), 0o600)); err != nil {
		t.Fatal(err)
	}
	var lost *LostError
	if err := j.record(record.Change{}); !errors.As(err, &lost) || lost.Saved || !errors.Is(err, fs.ErrExist) {
		t.Errorf("record: %v", err)
	}
	if got, err := os.ReadFile(s.Path()); err != nil || string(got) != "theirs" {
		t.Errorf("%q, %v", got, err)
	}
	if err := os.Rename(s.Path()+".old", s.Path()); err != nil {
		t.Fatal(err)
	}
	if err := j.record(record.Change{}); err != nil {
		t.Errorf("after it was put back: %v", err)
	}
}

func TestOpen_ReadsWhatCannotBeWritten(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "results.db")
	s, err := Open(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	begin(t, s, "s1")
	protected := func(o *options) { o.writable = func(string) bool { return false } }
	for _, live := range []bool{true, false} { // with a writer, and after it
		if !live {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		before := beside(t, path)
		ro := open(t, path, MustExist(), protected)
		if v, err := ro.View(ctx, "s1"); err != nil || len(v.Events) != 1 {
			t.Errorf("live %v: %d events, %v", live, len(v.Events), err)
		}
		var refused *ReadOnlyError
		if err := ro.Claim(ctx, "s1", "c", 1); !errors.As(err, &refused) {
			t.Errorf("live %v: claim: %v", live, err)
		}
		if after := beside(t, path); !slices.Equal(before, after) {
			t.Errorf("live %v: %v became %v", live, before, after)
		}
	}
}

// beside lists what lies beside a file.
func beside(t *testing.T, path string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}
