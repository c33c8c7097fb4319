package experiments

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"specrun/deploy"
	"specrun/patches"
	"specrun/remote"
)

// venvs are interpreters of this machine, each with its own engine, and one
// state folder for all of them.
type venvs struct {
	t       *testing.T
	dir     string
	host    *remote.Host
	library []*patches.Patch
}

func newVenvs(t *testing.T, names ...string) *venvs {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	v := &venvs{t: t, dir: dir, host: remote.Local(remote.LocalConfig{Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C"}})}
	t.Cleanup(func() { v.host.Close() })
	// Not what stands in front of it in the PATH: that may be a script.
	out, err := exec.Command("python3", "-c", "import os, sys; print(os.path.realpath(sys.executable))").Output()
	if err != nil {
		t.Fatal("this test needs a python3: ", err)
	}
	python := strings.TrimSpace(string(out))
	for _, name := range names {
		v.write(name, "engine/__init__.py", "")
		v.write(name, "engine/worker.py", "class Worker:\n    pass\n")
		v.write(name, "engine/other.py", "class Other:\n    pass\n")
		if err := os.Symlink(python, filepath.Join(dir, name, "python3")); err != nil {
			t.Fatal(err)
		}
	}
	v.library = []*patches.Patch{v.patch("profiling-v4", "Worker"), v.patch("profiling-v5", "Worker")}
	return v
}

// patch makes one that fits worker.py, and other.py only when that has the class.
func (v *venvs) patch(name, class string) *patches.Patch {
	v.t.Helper()
	p, err := patches.LoadDir(fstest.MapFS{
		name + "/patch.yaml": {Data: []byte("name: " + name + `
version: "1"
summary: a test
targets:
  - {module: engine.worker, kind: append, content: [code.py]}
  - {module: engine.other, kind: append, content: [code.py], requires: [{class: ` + class + `}]}
`)},
		name + "/code.py": {Data: []byte("PATCH = '" + name + "'\n")},
	}, name)
	if err != nil {
		v.t.Fatal(err)
	}
	return p
}

func (v *venvs) write(name, file, text string) {
	v.t.Helper()
	path := v.file(name, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		v.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		v.t.Fatal(err)
	}
}

func (v *venvs) file(name, file string) string { return filepath.Join(v.dir, name, "site", file) }

func (v *venvs) where(name string) Where {
	return Where{Python: filepath.Join(v.dir, name, "python3"), Env: map[string]string{"PYTHONPATH": filepath.Join(v.dir, name, "site")}}
}

// patcher is that of a fresh controller.
func (v *venvs) patcher() *remotePatcher {
	return &remotePatcher{h: v.host, seen: map[string]PatchState{}, o: ConnectOptions{StateDir: filepath.Join(v.dir, "state"),
		Patches: func(name string) (*patches.Patch, error) {
			for _, p := range v.library {
				if p.Name == name {
					return p, nil
				}
			}
			return nil, os.ErrNotExist
		},
		Library: func() ([]*patches.Patch, error) { return v.library, nil }}}
}

func (v *venvs) current(p *remotePatcher, name string) PatchState {
	v.t.Helper()
	s, err := p.Current(context.Background(), v.where(name))
	if err != nil {
		v.t.Fatal(err)
	}
	return s
}

func (v *venvs) ensure(p *remotePatcher, name string, set ...PatchRef) PatchState {
	v.t.Helper()
	s, err := p.Ensure(context.Background(), v.where(name), set)
	if err != nil {
		v.t.Fatal(err)
	}
	return s
}

// A patch on one interpreter's engine says nothing about another one's: taken
// for done, an unpatched server would be measured as a patched one.
func TestPatcher_TwoInterpretersHaveTwoPatchSets(t *testing.T) {
	t.Parallel()
	v := newVenvs(t, "a", "b")
	set := []PatchRef{RefOf(v.library[0])}
	v.ensure(v.patcher(), "a", set...)
	p := v.patcher()
	if s := v.current(p, "b"); len(s.Patches) != 0 || s.holds(set) || !s.holds(nil) {
		t.Errorf("b is said to have %v", s.Patches)
	}
	if s := v.current(p, "a"); !samePatches(s.Patches, set) || s.Unsound != "" {
		t.Errorf("a: %+v", s)
	}
	// What somebody does to the one is not the other's trouble.
	v.write("a", "engine/worker.py", "class Worker: pass\n# by hand\n")
	p = v.patcher()
	if s := v.current(p, "b"); s.Unsound != "" {
		t.Errorf("b: %s", s.Unsound)
	}
	if s := v.current(p, "a"); s.Unsound == "" {
		t.Error("a was edited, and is not unsound")
	}
	s := v.ensure(p, "b", set...)
	if text := v.read("b", "engine/worker.py"); !s.holds(set) || !strings.Contains(text, "profiling-v4") {
		t.Errorf("b is not patched:\n%s", text)
	}
}

// A target that has lost its patch while another one has it is no patched set.
func TestPatcher_EveryTargetMustHaveThePatch(t *testing.T) {
	t.Parallel()
	v := newVenvs(t, "a")
	v.write("a", "engine/other.py", "class Worker:\n    pass\n")
	set := []PatchRef{RefOf(v.library[0])}
	v.ensure(v.patcher(), "a", set...)
	v.write("a", "engine/other.py", "class Worker:\n    pass\n") // as reinstalled
	p := v.patcher()
	if s := v.current(p, "a"); s.holds(set) {
		t.Error("one of two targets is not patched, and the set is said to hold")
	}
	if s := v.ensure(p, "a", set...); !s.holds(set) || !v.current(p, "a").holds(set) {
		t.Errorf("%+v", s)
	}
	// Also for a controller that has not patched it itself.
	if s := v.current(v.patcher(), "a"); !s.holds(set) {
		t.Errorf("%+v", s)
	}
}

// Of a patch that is not in the library only a plan knows the targets.
func TestPatcher_APatchOutsideTheLibraryIsLookedAtOnce(t *testing.T) {
	t.Parallel()
	v := newVenvs(t, "a")
	own := v.patch("own", "Other")
	set := []PatchRef{RefOf(own)}
	p := v.patcher()
	lookup := p.o.Patches
	p.o.Patches = func(name string) (*patches.Patch, error) {
		if name == "own" {
			return own, nil
		}
		return lookup(name)
	}
	v.ensure(p, "a", set...)
	v.write("a", "engine/other.py", "class Other:\n    pass\n") // as reinstalled
	fresh := v.patcher()
	fresh.o.Patches = p.o.Patches
	if s := v.current(fresh, "a"); s.holds(set) {
		t.Error("one of two targets is not patched, and the set is said to hold")
	}
	if s := v.ensure(fresh, "a", set...); !s.holds(set) || !v.current(fresh, "a").holds(set) {
		t.Errorf("%+v", s)
	}
}

// A target that the patch does not fit is left out, which only the plan knows:
// once it was made, reading is enough.
func TestPatcher_ATargetThatDoesNotFitIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	v := newVenvs(t, "a")
	set := []PatchRef{RefOf(v.library[0])}
	p := v.patcher()
	v.current(p, "a")
	v.ensure(p, "a", set...)
	if s := v.current(p, "a"); !s.holds(set) {
		t.Errorf("%+v", s)
	}
	p = v.patcher() // has not read before
	v.ensure(p, "a", set...)
	if s := v.current(p, "a"); !s.holds(set) {
		t.Errorf("%+v", s)
	}
}

// What a file was before is read, never assumed: not after patching, and not
// after the patches are gone.
func TestPatcher_KeepsWhatAFileWasBefore(t *testing.T) {
	t.Parallel()
	v := newVenvs(t, "a")
	git := exec.Command("sh", "-c", "git init -q && git add . && git -c user.name=x -c user.email=x@y commit -q -m x")
	git.Dir = filepath.Join(v.dir, "a", "site")
	if out, err := git.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	v.write("a", "engine/new.py", "")
	v.library = []*patches.Patch{v.untracked()}
	set := []PatchRef{RefOf(v.library[0])}
	for _, fresh := range []bool{false, true} {
		p := v.patcher()
		check := func(s PatchState, verdict deploy.Verdict) {
			t.Helper()
			for _, f := range s.Files {
				if f.Verdict != string(verdict) || f.PristineVerdict != string(deploy.PreEdited) || verdict == deploy.Patched && f.Pristine == "" {
					t.Errorf("fresh %v: %+v", fresh, f)
				}
			}
			if len(s.Files) != 1 {
				t.Errorf("%+v", s.Files)
			}
		}
		if !fresh {
			check(v.current(p, "a"), deploy.PreEdited)
		}
		check(v.ensure(p, "a", set...), deploy.Patched)
		check(v.current(v.patcher(), "a"), deploy.Patched)
		if fresh {
			p = v.patcher()
		}
		check(v.ensure(p, "a"), deploy.PreEdited)
	}
}

// untracked is a patch for a file that the checkout does not know.
func (v *venvs) untracked() *patches.Patch {
	v.t.Helper()
	p, err := patches.LoadDir(fstest.MapFS{
		"new/patch.yaml": {Data: []byte("name: new\nversion: \"1\"\nsummary: a test\ntargets:\n  - {module: engine.new, kind: append, content: [code.py]}\n")},
		"new/code.py":    {Data: []byte("X = 1\n")},
	}, "new")
	if err != nil {
		v.t.Fatal(err)
	}
	return p
}

func (v *venvs) read(name, file string) string {
	v.t.Helper()
	b, err := os.ReadFile(v.file(name, file))
	if err != nil {
		v.t.Fatal(err)
	}
	return string(b)
}
