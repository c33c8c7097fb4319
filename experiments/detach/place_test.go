package detach

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// What was cut off is removed a day later, of any sweep; nothing else is.
func TestPrepare_RemovesWhatWasCutOff(t *testing.T) {
	for _, shell := range shells(t) {
		t.Run(filepath.Base(shell[0]), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, shell...)
			all := filepath.Join(w.state, "detached")
			old := time.Now().Add(-49 * time.Hour)
			stays := map[string]bool{".k3v7.1.new": false, ".q2m9.2.gone": false, ".q2m9.3.new": true, "q2m9": true, "x.new": true}
			for name, young := range stays {
				path := filepath.Join(all, name)
				must(t, os.MkdirAll(filepath.Join(path, "artifacts"), 0o700))
				if !young || !strings.HasPrefix(name, ".") {
					must(t, os.Chtimes(path, old, old))
				}
			}
			p, err := Prepare(t.Context(), w.h, w.state, "k3v7")
			must(t, err)
			for name, want := range stays {
				if _, err := os.Stat(filepath.Join(all, name)); (err == nil) != want {
					t.Errorf("%s: %v", name, err)
				}
			}
			must(t, Discard(t.Context(), w.h, p))
		})
	}
}

// In a state folder that its group shares, the group may look who works; in any
// other nobody may.
func TestPrepare_ModesFollowTheStateFolder(t *testing.T) {
	for _, shell := range shells(t) {
		t.Run(filepath.Base(shell[0]), func(t *testing.T) {
			t.Parallel()
			for _, c := range []struct {
				state, all, sweep os.FileMode
			}{
				{0o700, os.ModeDir | 0o700, os.ModeDir | 0o700},
				{os.ModeSetgid | 0o770, os.ModeDir | os.ModeSticky | os.ModeSetgid | 0o770, os.ModeDir | os.ModeSetgid | 0o710},
			} {
				w := newWorld(t, shell...)
				must(t, os.Mkdir(w.state, 0o700))
				must(t, os.Chmod(w.state, c.state))
				p, err := Prepare(t.Context(), w.h, w.state, "k3v7")
				must(t, err)
				for path, want := range map[string]os.FileMode{filepath.Dir(p.Dir): c.all, p.stage: c.sweep} {
					info, err := os.Stat(path)
					must(t, err)
					if info.Mode() != want {
						t.Errorf("in a state folder of mode %v: %s has %v, want %v", c.state, path, info.Mode(), want)
					}
				}
			}
		})
	}
}

// A second user of a state folder is told whose sweeps they are and whom to ask.
func TestOthers_AreNamed(t *testing.T) {
	var others *OthersError
	l, err := parseList("gpu", "dir /data/specrun/detached\nothers anna\n")
	if !errors.As(err, &others) || *others != (OthersError{"gpu", "/data/specrun/detached", "anna"}) || len(l) > 0 || !strings.Contains(others.Hint(), "ask anna") {
		t.Errorf("%+v, %v", l, err)
	}
	l, err = parseList("gpu", "dir /d\nsweep k3v7 running anna\nsweep q2m9 ended\n")
	must(t, err)
	want := []Listed{{"k3v7", "/d/k3v7", Running, "anna"}, {"q2m9", "/d/q2m9", Ended, ""}}
	if len(l) != 2 || l[0] != want[0] || l[1] != want[1] {
		t.Errorf("%+v", l)
	}
}

// The host's clock may be any time away from the one here: how long ago something
// was is told by the host's alone.
func TestLook_AgoIsByTheHostsClock(t *testing.T) {
	began := time.Now().Add(37 * time.Hour)
	clock := began.Add(90 * time.Second).Unix()
	st, err := parseLook([]byte("is running\nclock "+strconv.FormatInt(clock, 10)+"\ndata\n"+`{"at_us":`+strconv.FormatInt(began.UnixMicro(), 10)+`,"began":"it"}`+"\n"), 0)
	must(t, err)
	if len(st.Events) != 1 || st.Events[0].Ago > 90*time.Second || st.Events[0].Ago < 88*time.Second {
		t.Errorf("%+v", st.Events)
	}
	w := newWorld(t)
	dir, err := w.start("k3v7", "v1")
	must(t, err)
	if st := w.awaits(dir, Running); st.Clock == 0 {
		t.Error("the host did not tell its clock")
	}
}
