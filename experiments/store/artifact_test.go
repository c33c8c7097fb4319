package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"specrun/experiments/record"
)

func hashOf(b string) string {
	sum := sha256.Sum256([]byte(b))
	return hex.EncodeToString(sum[:])
}

func artifactFiles(t *testing.T, s *Store) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(filepath.Dir(s.Path()), artifactDir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	hidden, err := filepath.Glob(filepath.Join(filepath.Dir(s.Path()), artifactDir, ".*"))
	if err != nil {
		t.Fatal(err)
	}
	return append(all, hidden...)
}

func TestAttach_KeepsContentUnderItsHash(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	j := begin(t, s, "sw")
	ctx := context.Background()
	for range 2 { // the second time changes nothing
		a, err := s.Attach(ctx, record.Artifact{LaunchID: j.l.ID, Name: "server.log"}, strings.NewReader("hello"))
		if err != nil {
			t.Fatal(err)
		}
		if a.SHA256 != hashOf("hello") || a.Bytes != 5 || filepath.Base(a.Path) != a.SHA256+packed {
			t.Errorf("artifact = %+v", a)
		}
		if got, err := readContent(a); err != nil || got != "hello" {
			t.Errorf("kept %q, %v", got, err)
		}
	}
	if v := view(t, s, "sw"); len(v.Artifact) != 1 || !filepath.IsAbs(v.Artifact[0].Path) {
		t.Errorf("listed: %+v", v.Artifact)
	}
	// A log that grew takes the place of its earlier state.
	if _, err := s.Attach(ctx, record.Artifact{LaunchID: j.l.ID, Name: "server.log"}, strings.NewReader("hello, more")); err != nil {
		t.Fatal(err)
	}
	if v := view(t, s, "sw"); len(v.Artifact) != 1 || v.Artifact[0].Bytes != 11 {
		t.Errorf("listed: %+v", v.Artifact)
	}
	j.must(record.Change{Run: j.run("r1", "sw-one-a", 1, record.RunActive)})
	if _, err := s.Attach(ctx, record.Artifact{LaunchID: j.l.ID, RunID: "r1", Name: "server.log"}, strings.NewReader("hello")); err != nil {
		t.Fatal(err)
	}
	if v := view(t, s, "sw"); len(v.Artifact) != 2 || v.Artifact[1].RunID != "r1" {
		t.Errorf("listed: %+v", v.Artifact)
	}
}

func readContent(a record.Artifact) (string, error) {
	f, err := Content(a)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(f)
	return string(text), errors.Join(err, f.Close())
}

// A log is full of repetition, and what is read back is what was kept.
func TestContent(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	j := begin(t, s, "sw")
	log := strings.Repeat("[2026-01-01 00:00:00] Decode batch\n", 10_000)
	a, err := s.Attach(context.Background(), record.Artifact{LaunchID: j.l.ID, Name: "server.log"}, strings.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(a.Path)
	if err != nil || info.Size() > int64(len(log))/10 || a.Bytes != int64(len(log)) || a.SHA256 != hashOf(log) {
		t.Errorf("%d bytes on disk of %d, %v", info.Size(), len(log), err)
	}
	kept, n, err := s.Kept(context.Background(), a.SHA256)
	if err != nil || n != int64(len(log)) {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if text, err := io.ReadAll(kept); err != nil || string(text) != log {
		t.Errorf("%d bytes came back, %v", len(text), err)
	}
	if err := kept.Close(); err != nil {
		t.Error(err)
	}
	if _, _, err := s.Kept(context.Background(), hashOf("other")); !errors.Is(err, ErrNotFound) {
		t.Errorf("unknown hash: %v", err)
	}
	// One of an earlier version lies there as it is.
	plain := filepath.Join(t.TempDir(), hashOf("plain"))
	if err := os.WriteFile(plain, []byte("plain"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := readContent(record.Artifact{Path: plain, SHA256: hashOf("plain")}); err != nil || got != "plain" {
		t.Errorf("%q, %v", got, err)
	}
	var other *HashError
	if _, err := readContent(record.Artifact{Path: plain, SHA256: hashOf("x")}); !errors.As(err, &other) {
		t.Errorf("changed content: %v", err)
	}
}

func TestAttach_FailureLeavesNothing(t *testing.T) {
	t.Parallel()
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	for name, tc := range map[string]struct {
		ctx  context.Context
		a    record.Artifact
		r    io.Reader
		want any
	}{
		"other content": {context.Background(), record.Artifact{SHA256: hashOf("x")}, strings.NewReader("y"), new(*HashError)},
		"reader fails":  {context.Background(), record.Artifact{}, io.MultiReader(strings.NewReader("ab"), iotest.ErrReader(io.ErrUnexpectedEOF)), nil},
		"disk full":     {context.Background(), record.Artifact{}, iotest.ErrReader(&os.PathError{Op: "write", Err: syscall.ENOSPC}), new(*DiskFullError)},
		"cancelled":     {cancelled, record.Artifact{}, bytes.NewReader(make([]byte, 1<<20)), nil},
		"empty":         {context.Background(), record.Artifact{SHA256: hashOf("y")}, iotest.ErrReader(io.EOF), new(*HashError)},
	} {
		s := fresh(t)
		j := begin(t, s, "sw")
		tc.a.LaunchID, tc.a.Name = j.l.ID, "server.log"
		_, err := s.Attach(tc.ctx, tc.a, tc.r)
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		if tc.want != nil && !errors.As(err, tc.want) {
			t.Errorf("%s: %v, want %T", name, err, tc.want)
		}
		if files := artifactFiles(t, s); len(files) != 0 {
			t.Errorf("%s: left %v", name, files)
		}
		if v := view(t, s, "sw"); len(v.Artifact) != 0 {
			t.Errorf("%s: listed %+v", name, v.Artifact)
		}
	}
}

func TestAttach_UnknownLaunchIsRefused(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	begin(t, s, "sw")
	if _, err := s.Attach(context.Background(), record.Artifact{LaunchID: "nope", Name: "server.log"}, strings.NewReader("x")); err == nil {
		t.Error("listed for a launch that does not exist")
	}
}
