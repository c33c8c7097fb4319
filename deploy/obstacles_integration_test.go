//go:build integration

package deploy

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"specrun/patches"
	"specrun/remote"
	"specrun/remote/remotetest"
)

func mount(t *testing.T, source, target, kind string, flags uintptr, data string) {
	t.Helper()
	if err := syscall.Mount(source, target, kind, flags, data); err != nil {
		t.Fatalf("mount %s on %s (needs root): %v", source, target, err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(target, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", target, err)
		}
	})
}

// wantUnchanged applies, expects an error that says want and has a hint, and
// checks that nothing is left of the try.
func (s *site) wantUnchanged(want string) error {
	s.t.Helper()
	before := s.tree()
	_, _, err := s.do(Change{Add: []*patches.Patch{newPatch(s.t, "one", "1", "ONE = 1\n")}})
	if err == nil || !strings.Contains(err.Error(), want) {
		s.t.Fatalf("got %v, want an error with %q", err, want)
	}
	if hint, ok := innermost(err).(interface{ Hint() string }); !ok || hint.Hint() == "" {
		s.t.Fatalf("%T has no hint: %v", innermost(err), err)
	}
	if after := s.tree(); after != before {
		s.t.Fatalf("the tree differs:\n%s\n%s", before, after)
	}
	if left := s.leftBehind(); len(left) != 0 {
		s.t.Fatalf("left: %v", left)
	}
	if left := s.openInState(); len(left) != 0 {
		s.t.Fatalf("left in the state folder: %v", left)
	}
	return err
}

func TestObstacles_AreNamedAndNothingChanges(t *testing.T) {
	t.Parallel()
	var full *DiskFullError
	t.Run("state folder full", func(t *testing.T) {
		s := newSite(t)
		mkdir(t, s.state)
		mount(t, "none", s.state, "tmpfs", 0, "size=32k")
		if err := s.wantUnchanged("no space left"); !errors.As(err, &full) || !strings.HasPrefix(full.Path, s.state) {
			t.Fatalf("got %v", err)
		}
	})
	t.Run("folder of the file full", func(t *testing.T) {
		s := newSite(t)
		s.onTmpfs(t, "size=200k", 0)
		s.fill(t)
		if err := s.wantUnchanged("no space left"); !errors.As(err, &full) || full.Path != s.folder {
			t.Fatalf("got %v", err)
		}
	})
	t.Run("no inode left", func(t *testing.T) {
		s := newSite(t)
		s.onTmpfs(t, "nr_inodes=9", 0)
		if err := s.wantUnchanged("no inode free"); !errors.As(err, &full) {
			t.Fatalf("got %v", err)
		}
	})
	t.Run("full between plan and commit", func(t *testing.T) {
		s := newSite(t)
		s.onTmpfs(t, "size=400k", 0)
		before := s.tree()
		err := s.applyChanged(s.host, newPatch(t, "one", "1", "ONE = 1\n"), func() { s.fill(t) })
		if !errors.As(err, &full) {
			t.Fatalf("got %v", err)
		}
		if err := os.Remove(filepath.Join(s.folder, "filler")); err != nil {
			t.Fatal(err)
		}
		if after := s.tree(); after != before || len(s.leftBehind()) != 0 {
			t.Fatalf("left: %v", s.leftBehind())
		}
	})
	t.Run("read-only mount", func(t *testing.T) {
		s := newSite(t)
		s.onTmpfs(t, "", syscall.MS_RDONLY)
		s.wantUnchanged("read-only")
	})
	t.Run("bind-mounted file", func(t *testing.T) {
		s := newSite(t)
		mount(t, s.v1, s.v1, "", syscall.MS_BIND, "")
		s.wantUnchanged("bind-mounted")
	})
	t.Run("immutable file", func(t *testing.T) {
		s := newSite(t)
		if out, err := exec.Command("chattr", "+i", s.v1).CombinedOutput(); err != nil {
			t.Fatalf("chattr: %v\n%s", err, out)
		}
		t.Cleanup(func() { exec.Command("chattr", "-i", s.v1).Run() })
		s.wantUnchanged("immutable")
	})
	t.Run("someone else's folder", func(t *testing.T) {
		s := newSite(t)
		openUp(t, s)
		s.host = remotetest.StartSSHD(t, remotetest.Options{UID: otherUID}).Dial(t)
		s.where.StateDir = ""
		for _, f := range []string{s.v1, s.v2} { // readable, at least
			if err := os.Chmod(f, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		s.wantUnchanged("cannot write to its folder, which belongs to root")
	})
	t.Run("someone else's file in a shared folder", func(t *testing.T) {
		s := newSite(t)
		openUp(t, s)
		s.host = remotetest.StartSSHD(t, remotetest.Options{UID: otherUID}).Dial(t)
		s.where.StateDir = ""
		if err := os.Chmod(s.folder, 0o777); err != nil {
			t.Fatal(err)
		}
		for _, f := range []string{s.v1, s.v2} {
			if err := os.Chmod(f, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		s.wantUnchanged("it belongs to root")
	})
	t.Run("state folder out of reach", func(t *testing.T) {
		s := newSite(t)
		openUp(t, s)
		if err := os.WriteFile(s.state, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		before := s.tree()
		_, _, err := s.do(Change{Add: []*patches.Patch{newPatch(t, "one", "1", "ONE = 1\n")}})
		var conflict *ConflictError
		if !errors.As(err, &conflict) || conflict.Path != s.state {
			t.Fatalf("got %v", err)
		}
		if s.tree() != before {
			t.Fatal("the tree changed")
		}
	})
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
}

// openUp lets everybody look into the site's temporary folder.
func openUp(t *testing.T, s *site) {
	t.Helper()
	for dir := filepath.Dir(s.root); dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// onTmpfs moves the workers' folder to a file system of its own.
func (s *site) onTmpfs(t *testing.T, options string, flags uintptr) {
	t.Helper()
	spare := s.folder + ".spare"
	if err := os.Rename(s.folder, spare); err != nil {
		t.Fatal(err)
	}
	mkdir(t, s.folder)
	mount(t, "none", s.folder, "tmpfs", 0, options)
	if out, err := exec.Command("cp", "-a", spare+"/.", s.folder).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.RemoveAll(spare); err != nil {
		t.Fatal(err)
	}
	if flags != 0 {
		if err := syscall.Mount("none", s.folder, "tmpfs", syscall.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
}

// fill writes into the workers' folder until nothing fits any more.
func (s *site) fill(t *testing.T) {
	t.Helper()
	f, err := os.Create(filepath.Join(s.folder, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

// A host that offers no SFTP needs no second way.
func TestApply_HostWithoutSFTP(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.host = remotetest.StartSSHD(t, remotetest.Options{NoSFTP: true, MaxSessions: 1}).Dial(t)
	before := s.tree()
	s.mustDo(Change{Add: []*patches.Patch{newPatch(t, "one", "1", "ONE = 1\n")}})
	s.mustDo(Change{RemoveAll: true})
	if after := s.tree(); after != before {
		t.Fatalf("the tree differs:\n%s\n%s", before, after)
	}
}

// A connection that goes while the commit script runs leaves an answer to the
// next command.
func TestApply_ConnectionCutDuringCommit(t *testing.T) {
	t.Parallel()
	sshd := remotetest.StartSSHD(t, remotetest.Options{})
	s := newSite(t)
	before := s.tree()
	p := newPatch(t, "one", "1", "ONE = 1\n")
	host := sshd.Dial(t)
	cut := &tamper{Target: host, script: "new commit", change: func(script string) string {
		for i, l := range strings.Split(script, "\n") {
			if strings.HasPrefix(strings.TrimSpace(l), firstMove) {
				return insert(script, i, 1, "kill -9 $PPID") // the sshd of this connection
			}
		}
		t.Fatal("no move in the script")
		return ""
	}}
	_, _, err := Do(context.Background(), cut, s.where, Change{Add: []*patches.Patch{p}}, DoOptions{})
	if !errors.Is(err, remote.ErrLost) {
		t.Fatalf("got %v", err)
	}
	s.host = sshd.Dial(t)
	s.await("the next command", func() bool {
		_, _, err := s.do(Change{RemoveAll: true})
		var locked *LockedError
		if err != nil && !errors.As(err, &locked) {
			t.Fatal(err)
		}
		return err == nil
	})
	if after := s.tree(); after != before || len(s.openInState()) != 0 {
		t.Fatalf("the tree differs:\n%s\n%s", before, after)
	}
}
