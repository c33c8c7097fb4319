//go:build integration || soak

package detach

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A disk that has become full is the very thing that the end has to tell. It needs
// root.
func TestServe_SaysItsEndOnAFullDisk(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=512k"); err != nil {
		t.Fatalf("a small file system needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	s, err := Serve(dir, "me", time.Now)
	must(t, err)
	fill, err := os.Create(filepath.Join(dir, "fill"))
	must(t, err)
	t.Cleanup(func() { fill.Close() })
	for chunk := make([]byte, 4096); err == nil; {
		_, err = fill.Write(chunk)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	said := strings.Repeat("disk full; ", 2000)
	must(t, s.End(End{Exit: 1, Error: said}))
	if st := w.awaits(dir, Running); st.End != nil { // this process lives on
		t.Errorf("%+v", st.End)
	}
	must(t, os.WriteFile(filepath.Join(dir, identityFile), []byte("another-boot 1 1\n"), 0o600))
	if st := w.awaits(dir, Ended); st.End == nil || st.End.Exit != 1 || st.End.Error != said {
		t.Errorf("%+v", st.End)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*reserve*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
