package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// What is there is kept until the new file is whole, and without force for good.
func TestWriteFile_KeepsWhatIsThere(t *testing.T) {
	errWrite := errors.New("no more results")
	text := func(s string) func(io.Writer) error {
		return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
	}
	for name, c := range map[string]struct {
		before func(dir string) error
		force  bool
		write  func(dir string) func(io.Writer) error
		want   string // content of out afterwards, "" = there is none
		fails  bool
	}{
		"new": {write: func(string) func(io.Writer) error { return text("new") }, want: "new"},
		"exists": {before: func(dir string) error { return os.WriteFile(filepath.Join(dir, "out"), []byte("old"), 0o600) },
			write: func(string) func(io.Writer) error { return text("new") }, want: "old", fails: true},
		"forced": {before: func(dir string) error { return os.WriteFile(filepath.Join(dir, "out"), []byte("old"), 0o600) }, force: true,
			write: func(string) func(io.Writer) error { return text("new") }, want: "new"},
		"fails in the middle": {before: func(dir string) error { return os.WriteFile(filepath.Join(dir, "out"), []byte("old"), 0o600) }, force: true,
			write: func(string) func(io.Writer) error {
				return func(w io.Writer) error { return errors.Join(text("half")(w), errWrite) }
			}, want: "old", fails: true},
		"fails at first": {write: func(string) func(io.Writer) error { return func(io.Writer) error { return errWrite } }, fails: true},
		"comes meanwhile": {write: func(dir string) func(io.Writer) error {
			return func(w io.Writer) error {
				return errors.Join(text("new")(w), os.WriteFile(filepath.Join(dir, "out"), []byte("other"), 0o600))
			}
		}, want: "other", fails: true},
		"link": {before: func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, "target"), []byte("old"), 0o600), os.Symlink("target", filepath.Join(dir, "out")))
		}, force: true, write: func(string) func(io.Writer) error { return text("new") }, want: "new"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, n := t.TempDir(), 0
			a := &app{env: &env{newID: func() string { n++; return fmt.Sprint("id", n) }}}
			if c.before != nil {
				if err := c.before(dir); err != nil {
					t.Fatal(err)
				}
			}
			out := filepath.Join(dir, "out")
			if err := a.writeFile(out, c.force, c.write(dir)); (err != nil) != c.fails {
				t.Errorf("error %v", err)
			}
			got, err := os.ReadFile(out)
			if c.want == "" && !errors.Is(err, os.ErrNotExist) || c.want != "" && string(got) != c.want {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
			if info, err := os.Lstat(out); name == "link" && (err != nil || info.Mode()&os.ModeSymlink == 0) {
				t.Errorf("the link is gone: %v, %v", info, err)
			}
			if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %q, %v", left, err)
			}
		})
	}
}

// With --force a device would be replaced by a file.
func TestWriteFile_LeavesDevicesAlone(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	a := &app{env: &env{newID: func() string { return "id" }}}
	err := a.writeFile(pipe, true, func(io.Writer) error { return nil })
	var usage *usageError
	if !errors.As(err, &usage) {
		t.Errorf("error %v", err)
	}
	if info, err := os.Lstat(pipe); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("%v, %v", info, err)
	}
}
