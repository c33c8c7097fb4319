package deploy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"specrun/patches"
)

// another gives the site's host a second interpreter with its own engine.
func (s *site) another() *site {
	s.t.Helper()
	other := newSite(s.t)
	other.state, other.where.StateDir, other.host = s.state, s.state, s.host
	for _, x := range []*site{s, other} {
		x.where.Python = filepath.Join(filepath.Dir(x.root), "python3")
		if err := os.Symlink(python(s.t), x.where.Python); err != nil {
			s.t.Fatal(err)
		}
	}
	return other
}

func TestStatus_SaysWhichFilesTheInterpreterSees(t *testing.T) {
	t.Parallel()
	a := newSite(t)
	b := a.another()
	p := newPatch(t, "p", "1", "X = 1\n")
	a.mustDo(Change{Add: []*patches.Patch{p}})
	got := map[string]bool{}
	for _, f := range b.status(p).Files {
		got[f.Path] = f.InScope
		if f.InScope && (len(f.Targets) != 1 || f.Targets[0] != p.SHA256()) {
			t.Errorf("%s is a target of %v", f.Path, f.Targets)
		}
	}
	want := map[string]bool{a.v1: false, a.v2: false, b.v1: true, b.v2: true}
	if len(got) != len(want) {
		t.Errorf("files: %v", got)
	}
	for path, in := range want {
		if got[path] != in {
			t.Errorf("%s: in scope %v", path, got[path])
		}
	}
}

func TestStatus_SaysWhatAPatchedFileWasBefore(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := newPatch(t, "p", "1", "X = 1\n")
	s.write("engine/srt/spec/worker.py", v1Source+"# by hand\n")
	for _, c := range []Change{{}, {Add: []*patches.Patch{p}}} {
		if len(c.Add) > 0 {
			s.mustDo(c)
		}
		var got []string
		for _, f := range s.status(p).Files {
			got = append(got, string(f.Verdict)+" was "+string(f.PristineVerdict))
		}
		now := "pre-edited was pre-edited, pristine was pristine"
		if len(c.Add) > 0 {
			now = "patched was pre-edited, patched was pristine"
		}
		if strings.Join(got, ", ") != now {
			t.Errorf("got %v, want %s", got, now)
		}
	}
}

// A sweep over PYTHONPATH has one interpreter and several engines: a set wanted
// exactly is about the files that are imported, and no others.
func TestDo_ExactLeavesWhatIsImportedFromElsewhereAlone(t *testing.T) {
	t.Parallel()
	a := newSite(t)
	b := newSite(t)
	b.state, b.where.StateDir, b.host = a.state, a.state, a.host
	p, q := newPatch(t, "p", "1", "X = 1\n"), newPatch(t, "q", "1", "Y = 1\n")
	a.mustDo(Change{Add: []*patches.Patch{p}})
	before := a.read(a.v1)
	for _, f := range b.status(p).Files {
		if f.InScope != (filepath.Dir(f.Path) == b.folder) {
			t.Errorf("%s: in scope %v", f.Path, f.InScope)
		}
	}
	b.library = []*patches.Patch{p}
	for _, set := range [][]*patches.Patch{{q}, nil} {
		b.mustDo(Change{Exact: set, SetExact: true})
		if a.read(a.v1) != before {
			t.Errorf("setting %d patches on one engine changed the other's file", len(set))
		}
	}
	// Whoever wants them gone gets rid of those too.
	b.mustDo(Change{RemoveAll: true})
	if a.read(a.v1) != v1Source {
		t.Error("the shadowed file cannot be rolled back")
	}
}
