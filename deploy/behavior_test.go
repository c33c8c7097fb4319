package deploy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"specrun/patches"
)

func TestDo_RemovingTheLowerPatchDerivesTheFileAnew(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	before := s.tree()
	one, two := newPatch(t, "one", "1", "ONE = 1\n"), newPatch(t, "two", "1", "TWO = 2\n")
	s.mustDo(Change{Add: []*patches.Patch{one}})
	s.mustDo(Change{Add: []*patches.Patch{two}})
	s.mustDo(Change{Remove: []string{"one"}}) // no patch at hand: it is on the host
	want, err := patches.Apply(two, two.Targets[0], []byte(v1Source))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.read(s.v1); got != string(want) {
		t.Fatalf("the file holds:\n%s", got)
	}
	s.mustDo(Change{Remove: []string{"two"}})
	if after := s.tree(); after != before {
		t.Fatalf("the tree differs:\n%s\n%s", before, after)
	}
}

func TestDo_DryRunWritesNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	before := s.tree()
	p := newPatch(t, "one", "1", "ONE = 1\n")
	plan, out, err := Do(context.Background(), s.host, s.where, Change{Add: []*patches.Patch{p}}, DoOptions{DryRun: true})
	if err != nil || out != nil || len(plan.Files) != 2 {
		t.Fatalf("%+v %+v %v", plan, out, err)
	}
	if after := s.tree(); after != before {
		t.Fatal("the tree changed")
	}
	if _, err := os.Stat(s.state); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the state folder: %v", err)
	}
	err = filepath.WalkDir(s.root, func(path string, d os.DirEntry, err error) error {
		if d.Name() == "__pycache__" {
			t.Errorf("%s was written", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestApply_HardlinkedCacheKeepsItsContent(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	cache := filepath.Join(t.TempDir(), "cached.py")
	if err := os.Link(s.v1, cache); err != nil {
		t.Fatal(err)
	}
	out := s.mustDo(Change{Add: []*patches.Patch{newPatch(t, "one", "1", "ONE = 1\n")}})
	if got := s.read(cache); got != v1Source {
		t.Fatalf("the other link holds:\n%s", got)
	}
	if len(out.Notes) != 1 || !strings.Contains(out.Notes[0], "2 hard links") {
		t.Fatalf("notes: %q", out.Notes)
	}
}

func TestApply_SymlinkStaysAndTheRealFileChanges(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	real := filepath.Join(filepath.Dir(s.root), "checkout", "worker.py")
	if err := os.MkdirAll(filepath.Dir(real), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(s.v1, real); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, s.v1); err != nil {
		t.Fatal(err)
	}
	out := s.mustDo(Change{Add: []*patches.Patch{newPatch(t, "one", "1", "ONE = 1\n")}})
	if info, err := os.Lstat(s.v1); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Fatalf("the link is no link any more: %v %v", info, err)
	}
	if !strings.Contains(s.read(real), "ONE = 1") {
		t.Fatal("the real file is not patched")
	}
	if f := out.Changed[0]; f.Path != real || f.Link != s.v1 {
		t.Fatalf("%+v", f)
	}
	s.mustDo(Change{RemoveAll: true})
	if got := s.read(real); got != v1Source {
		t.Fatalf("after rollback:\n%s", got)
	}
}

// Python takes a compiled copy as good when size and whole second agree.
func TestApply_NoStaleBytecodeWithinOneSecond(t *testing.T) {
	t.Parallel()
	for _, prefix := range []bool{false, true} {
		s := newSite(t)
		if prefix {
			s.where.Env["PYTHONPYCACHEPREFIX"] = filepath.Join(filepath.Dir(s.root), "cache")
		}
		one, two := newPatch(t, "same", "1", "X = 1\n"), newPatch(t, "same", "2", "X = 2\n")
		run := func() string {
			cmd := exec.Command(s.where.Python, "-c", `import sys; sys.path.insert(0, sys.argv[1]); import worker; print(getattr(worker, "X", 0))`, s.folder)
			cmd.Env = []string{"PYTHONPYCACHEPREFIX=" + s.where.Env["PYTHONPYCACHEPREFIX"]}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			return strings.TrimSpace(string(out))
		}
		for _, step := range []struct {
			change Change
			want   string
		}{{Change{}, "0"}, {Change{Add: []*patches.Patch{one}}, "1"}, {Change{Add: []*patches.Patch{two}}, "2"}, {Change{RemoveAll: true}, "0"}} {
			s.mustDo(step.change)
			if got := run(); got != step.want {
				t.Fatalf("prefix %v: the interpreter runs X = %s, want %s", prefix, got, step.want)
			}
		}
	}
}

func TestReadFacts_NoInterpreterNamesThoseOfRunningEngines(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	server := exec.Command(python(t), "-c", "import time; print('up', flush=True); time.sleep(1000)", "-m", "sglang.launch_server")
	pipe, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Kill(); server.Wait() })
	if _, err := pipe.Read(make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	for _, py := range []string{"", "~/no/python", "no-such-python"} {
		w := s.where
		w.Python = py
		_, err = ReadFacts(context.Background(), s.host, w, []*patches.Patch{newPatch(t, "one", "1", "ONE = 1\n")})
		var missing *NoInterpreterError
		if !errors.As(err, &missing) {
			t.Fatalf("%q: got %v", py, err)
		}
		found := false
		for _, c := range missing.Candidates {
			found = found || c.PID == fmt.Sprint(server.Process.Pid) && c.Python == python(t) && c.Engine == "sglang"
		}
		if !found || !strings.Contains(err.Error(), python(t)) {
			t.Fatalf("%q: the running engine is not named: %v", py, err)
		}
	}
}

// Another engine's interpreter is no advice.
func TestNoInterpreterError_HintsTheEngineThatIsAskedFor(t *testing.T) {
	t.Parallel()
	e := &NoInterpreterError{Host: "h", Engine: "vllm", Candidates: []Candidate{{"7", "/opt/sglang/bin/python3", "sglang"}, {"8", "/opt/vllm/bin/python3", "vllm"}}}
	if h := e.Hint(); !strings.HasSuffix(h, "--python /opt/vllm/bin/python3") {
		t.Error(h)
	}
	e.Candidates = e.Candidates[:1]
	if h := e.Hint(); strings.Contains(h, "/opt/sglang") || !strings.Contains(h, "has vllm") {
		t.Error(h)
	}
	e.Engine = ""
	if h := e.Hint(); !strings.HasSuffix(h, "--python /opt/sglang/bin/python3") {
		t.Error(h)
	}
}

func TestDo_ModuleNotFoundSaysWhereItWasLookedFor(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := newPatch(t, "one", "1", "ONE = 1\n")
	if err := os.RemoveAll(filepath.Join(s.root, "engine", "srt", "spec")); err != nil {
		t.Fatal(err)
	}
	_, _, err := s.do(Change{Add: []*patches.Patch{p}})
	var none *NoEngineError
	if !errors.As(err, &none) || len(none.Missing) != 2 || !strings.Contains(err.Error(), s.v1) {
		t.Fatalf("got %v", err)
	}
	s.where.Env = nil
	if _, _, err = s.do(Change{Add: []*patches.Patch{p}}); !errors.As(err, &none) || len(none.Missing[0].Searched) == 0 {
		t.Fatalf("got %v", err)
	}
	if r := s.status(p); len(r.Files) != 0 || !r.Clean() {
		t.Fatalf("status: %+v", r)
	}
}

func TestReadFacts_NoiseOfSiteHooksIsSkipped(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("sitecustomize.py", "print('welcome to this host')\nimport sys; sys.stdout.write('no newline')\n")
	s.mustDo(Change{Add: []*patches.Patch{newPatch(t, "one", "1", "ONE = 1\n")}})
}

func TestApply_StatePathsBelowHomeAreExpanded(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.where.StateDir = "~/a/b"
	s.mustDo(Change{Add: []*patches.Patch{newPatch(t, "one", "1", "ONE = 1\n")}})
	r := s.status()
	if len(r.Files) != 2 || !strings.HasSuffix(r.Files[0].StateDir, "/a/b") || strings.Contains(r.Files[0].StateDir, "~") {
		t.Fatalf("%+v", r.Files)
	}
}

func TestRollback_NamesProcessesThatStillRunThePatch(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.mustDo(Change{Add: []*patches.Patch{newPatch(t, "one", "1", "ONE = 1\n")}})
	ours := startServer(t, s.where.Python)
	other := startServer(t, virtualEnvironment(t, s.where.Python))
	out := s.mustDo(Change{RemoveAll: true})
	named := map[int]bool{}
	for _, p := range out.Live {
		named[p.PID] = true
	}
	if !named[ours] {
		t.Errorf("process %d runs the patch and is not named: %+v", ours, out.Live)
	}
	if named[other] {
		t.Errorf("process %d of another virtual environment is named: %+v", other, out.Live)
	}
}

// startServer starts what looks like an engine's process until the test ends.
func startServer(t *testing.T, python string) (pid int) {
	t.Helper()
	server := exec.Command(python, "-c", "import time; print('up', flush=True); time.sleep(1000)", "sglang.launch_server")
	pipe, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Kill(); server.Wait() })
	if _, err := pipe.Read(make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	return server.Process.Pid
}

// virtualEnvironment lays one out (PEP 405) and gives its interpreter.
func virtualEnvironment(t *testing.T, base string) string {
	t.Helper()
	dir := t.TempDir()
	python := filepath.Join(dir, "bin", "python3")
	if err := os.Mkdir(filepath.Dir(python), 0o755); err != nil {
		t.Fatal(err)
	}
	real, err := exec.LookPath(base)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, python); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "pyvenv.cfg"), []byte("home = "+filepath.Dir(real)+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return python
}

func TestRollback_AMissingFileIsNotForgotten(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.mustDo(Change{Add: []*patches.Patch{newPatch(t, "one", "1", "ONE = 1\n")}})
	away := filepath.Join(t.TempDir(), "away.py") // a file system that is not mounted now
	patched := s.read(s.v1)
	if err := os.Rename(s.v1, away); err != nil {
		t.Fatal(err)
	}
	var drift *DriftError
	if _, _, err := s.do(Change{RemoveAll: true}); !errors.As(err, &drift) || drift.Verdict != Missing {
		t.Fatalf("rollback of a missing file: %v, want a DriftError", err)
	}
	if err := os.WriteFile(s.v1, []byte(patched), 0o644); err != nil {
		t.Fatal(err)
	}
	s.mustDo(Change{RemoveAll: true})
	if got := s.read(s.v1); strings.Contains(got, "ONE") {
		t.Fatalf("the file that came back is still patched:\n%s", got)
	}
}

func TestRollback_ForeignPatchIsNamedNotPassedOver(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := newPatch(t, "one", "1", "ONE = 1\n")
	before := s.read(s.v1)
	s.mustDo(Change{Add: []*patches.Patch{p}})
	if err := os.Rename(filepath.Join(s.state, "files"), filepath.Join(t.TempDir(), "lost")); err != nil {
		t.Fatal(err)
	}
	change := Change{RemoveAll: true}
	library := DoOptions{Library: []*patches.Patch{p}}
	var drift *DriftError
	if err := s.doOn(s.host, change, library); !errors.As(err, &drift) || drift.Verdict != Foreign {
		t.Fatalf("rollback of a patch whose ledger is lost: %v, want a DriftError", err)
	}
	library.Force = true
	if err := s.doOn(s.host, change, library); err != nil {
		t.Fatal(err)
	}
	if got := s.read(s.v1); got != before {
		t.Fatalf("rollback --force left:\n%s", got)
	}
}

func TestStatus_APipeInAFilesPlaceIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := newPatch(t, "one", "1", "ONE = 1\n")
	s.mustDo(Change{Add: []*patches.Patch{p}})
	if err := os.Remove(s.v1); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(s.v1, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := s.verdicts(p); strings.Contains(got, "worker.py:pristine") || strings.Contains(got, "worker.py:patched") {
		t.Errorf("status of a pipe: %s", got)
	}
	if _, _, err := s.do(Change{RemoveAll: true}); err == nil {
		t.Error("rollback onto a pipe: no error")
	}
}

func TestApply_StateFolderWithBlanksAtItsEnd(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.where.StateDir = s.state + " \t"
	before := s.read(s.v1)
	s.mustDo(Change{Add: []*patches.Patch{newPatch(t, "one", "1", "ONE = 1\n")}})
	s.mustDo(Change{RemoveAll: true})
	if got := s.read(s.v1); got != before || len(s.leftBehind()) != 0 {
		t.Errorf("left %v and\n%s", s.leftBehind(), got)
	}
}
