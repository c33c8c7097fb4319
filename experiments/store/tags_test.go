package store

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"specrun/experiments/record"
)

func TestTags_SetMoveListDelete(t *testing.T) {
	t.Parallel()
	now := epoch
	s := open(t, filepath.Join(t.TempDir(), "r.db"), WithClock(func() time.Time { return now }))
	ctx := context.Background()
	j := begin(t, s, "sw")
	j.must(record.Change{Run: j.run("r1", "sw-one-a", 1, record.RunDone)})
	set := func(tag Tag) *Tag {
		t.Helper()
		was, err := s.SetTag(ctx, tag)
		if err != nil {
			t.Fatal(err)
		}
		return was
	}
	if was := set(Tag{Name: "good", SweepID: "sw"}); was != nil {
		t.Errorf("a new tag replaced %+v", was)
	}
	set(Tag{Name: "best-cell", CellID: "sw-two"})
	now = now.Add(time.Hour)
	if was := set(Tag{Name: "good", RunID: "r1"}); was == nil || was.SweepID != "sw" || was.RunID != "" {
		t.Errorf("moved from %+v", was)
	}
	tags, err := s.Tags(ctx)
	want := []Tag{{Name: "best-cell", CellID: "sw-two", SetUs: epoch.UnixMicro()}, {Name: "good", RunID: "r1", SetUs: now.UnixMicro()}}
	if diff := cmp.Diff(want, tags); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if tag, err := s.Tag(ctx, "good"); err != nil || tag.RunID != "r1" {
		t.Errorf("Tag = %+v, %v", tag, err)
	}
	for _, name := range []string{"goo", "", "Good"} {
		if _, err := s.Tag(ctx, name); !errors.Is(err, ErrNotFound) {
			t.Errorf("Tag(%q): %v, want ErrNotFound", name, err)
		}
	}
	if err := s.DeleteTag(ctx, "good"); err != nil {
		t.Error(err)
	}
	if err := s.DeleteTag(ctx, "good"); !errors.Is(err, ErrNotFound) {
		t.Errorf("second delete: %v", err)
	}
	if _, err := s.Run(ctx, "r1"); err != nil {
		t.Errorf("the run went with its tag: %v", err)
	}
	for cell, run := range map[string]string{"sw-two": "", "": "r1"} {
		if id, err := s.SweepOf(ctx, cell, run); err != nil || id != "sw" {
			t.Errorf("SweepOf(%q, %q) = %q, %v", cell, run, id, err)
		}
	}
	if _, err := s.SweepOf(ctx, "none", ""); !errors.Is(err, ErrNotFound) {
		t.Errorf("SweepOf an unknown cell: %v", err)
	}
}

func TestTags_NamesThatMeanSomethingElse(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	ctx := context.Background()
	begin(t, s, "k3v7abcdef")
	for _, name := range []string{"", "last", "baseline", "a b", "k3v7/steps=2", "steps=2", "../x", "x.log/", "1st", "-d", "k3v7", "k3v7abcdef", "abcdefghij", "imp-0011", "é", string(make([]byte, 70))} {
		var bad *TagNameError
		if _, err := s.SetTag(ctx, Tag{Name: name, SweepID: "k3v7abcdef"}); !errors.As(err, &bad) {
			t.Errorf("tag %q: %v, want *TagNameError", name, err)
		}
	}
	for _, name := range []string{"good", "before-upgrade", "v4.1_a", "K3v7"} {
		if _, err := s.SetTag(ctx, Tag{Name: name, SweepID: "k3v7abcdef"}); err != nil {
			t.Errorf("tag %q: %v", name, err)
		}
	}
	for _, tag := range []Tag{{Name: "x"}, {Name: "x", SweepID: "absent"}, {Name: "x", SweepID: "k3v7abcdef", CellID: "k3v7abcdef-one"}} {
		if _, err := s.SetTag(ctx, tag); err == nil {
			t.Errorf("%+v was stored", tag)
		}
	}
}
