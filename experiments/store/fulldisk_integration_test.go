//go:build integration || soak

package store

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// On a disk without a free byte what is stored can be read and copied; that nothing
// can be written is said as such.
func TestOpen_OnAFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("none", disk, "tmpfs", 0, "size=4m"); err != nil {
		t.Fatalf("a small file system needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	path := filepath.Join(disk, "r.db")
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Begin(t.Context(), plan("s")); err != nil {
		t.Fatal(err)
	}
	fill, err := os.Create(filepath.Join(disk, "fill"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fill.Close() })
	full := func() {
		t.Helper()
		var err error
		for chunk := make([]byte, 4096); err == nil; {
			_, err = fill.Write(chunk)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	looked := func(when string, beside bool) {
		t.Helper()
		if _, err := os.Stat(path + "-shm"); (err == nil) != beside {
			t.Errorf("%s: SQLite's files beside it: %v", when, err)
		}
		s, err := Open(t.Context(), path, MustExist())
		if err != nil {
			t.Errorf("%s: %v", when, err)
			return
		}
		defer s.Close()
		var copied bytes.Buffer
		if err := s.Copy(t.Context(), &copied); err != nil || copied.Len() == 0 {
			t.Errorf("%s: copied %d bytes, %v", when, copied.Len(), err)
		}
		if v := view(t, s, "s"); v.Sweep.ID != "s" {
			t.Errorf("%s: read %+v", when, v.Sweep)
		}
		var noRoom *DiskFullError
		if err := s.Claim(t.Context(), "s", "me", Forever); !errors.As(err, &noRoom) {
			t.Errorf("%s: a write: %v", when, err)
		}
	}
	full()
	looked("open in another process", true)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	looked("closed when it was full", true)
	if err := fill.Truncate(0); err != nil {
		t.Fatal(err)
	}
	if _, err := fill.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if err := open(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	full()
	looked("closed before", false)
}
