package detach

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"specrun/experiments/bench"
)

// While a process takes over from one that has ended, who looks sees how that one
// ended, or that this one runs: never an end without life, which is a kill.
func TestServe_TakesOverWithoutLookingDead(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	// The folder of a process that is gone, in which the next one cannot begin.
	must(t, os.WriteFile(filepath.Join(dir, identityFile), []byte("another-boot 1 1\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, endFile), []byte(`{"exit":130}`+"\n"), 0o600))
	must(t, os.Mkdir(filepath.Join(dir, eventsFile), 0o700))
	if s, err := Serve(dir, "me", time.Now); err == nil {
		t.Fatal(s.End(End{}))
	}
	if st := w.awaits(dir, Ended); st.End == nil || st.End.Exit != 130 {
		t.Errorf("%+v", st.End)
	}
	must(t, os.Remove(filepath.Join(dir, eventsFile)))
	s, err := Serve(dir, "me", time.Now)
	must(t, err)
	if st := w.awaits(dir, Running); st.End != nil {
		t.Errorf("%+v", st.End)
	}
	if _, err := os.Stat(filepath.Join(dir, endFile)); err == nil {
		t.Error("the end of the one before is still there: after a kill it would count")
	}
	must(t, s.End(End{}))
}

// The group that shares a state folder sees who works; files stay the owner's.
func TestServe_SharedFolderShowsTheProcess(t *testing.T) {
	for mode, want := range map[os.FileMode]os.FileMode{0o700: 0o600, 0o710: 0o640} {
		dir := t.TempDir()
		must(t, os.Chmod(dir, mode))
		s, err := Serve(dir, "me", time.Now)
		must(t, err)
		must(t, s.End(End{}))
		for name, want := range map[string]os.FileMode{identityFile: want, eventsFile: 0o600, endFile: 0o600} {
			info, err := os.Stat(filepath.Join(dir, name))
			must(t, err)
			if info.Mode().Perm() != want {
				t.Errorf("in a folder of mode %o, %s has %o, want %o", mode, name, info.Mode().Perm(), want)
			}
		}
		me, err := bench.Identity()
		must(t, err)
		if text, _ := os.ReadFile(filepath.Join(dir, identityFile)); string(text) != me {
			t.Errorf("%q, want %q", text, me)
		}
	}
}

// The end has its room from the beginning, and gives it back.
func TestServe_ReservesRoomForItsEnd(t *testing.T) {
	dir := t.TempDir()
	s, err := Serve(dir, "me", time.Now)
	must(t, err)
	if info, err := os.Stat(filepath.Join(dir, reserveFile)); err != nil || info.Size() != reserved {
		t.Errorf("%v, %v", info, err)
	}
	must(t, s.End(End{Exit: 1}))
	if left, _ := filepath.Glob(filepath.Join(dir, "*reserve*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
