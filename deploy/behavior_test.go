package deploy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"specrun/patches"
)

func TestDo_RemovingTheLowerPatchDerivesTheFileAnew(t *testing.T) {
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
			found = found || c.PID == fmt.Sprint(server.Process.Pid) && c.Python == python(t)
		}
		if !found || !strings.Contains(err.Error(), python(t)) {
			t.Fatalf("%q: the running engine is not named: %v", py, err)
		}
	}
}

func TestDo_ModuleNotFoundSaysWhereItWasLookedFor(t *testing.T) {
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
	s := newSite(t)
	s.write("sitecustomize.py", "print('welcome to this host')\nimport sys; sys.stdout.write('no newline')\n")
	s.mustDo(Change{Add: []*patches.Patch{newPatch(t, "one", "1", "ONE = 1\n")}})
}

func TestApply_ContentThatDoesNotCompileChangesNothing(t *testing.T) {
	s := newSite(t)
	before := s.tree()
	_, _, err := s.do(Change{Add: []*patches.Patch{newPatch(t, "bad", "1", "def f(:\n")}})
	var conflict *ConflictError
	if !errors.As(err, &conflict) || !strings.Contains(err.Error(), "does not compile") || conflict.Path != s.v1 {
		t.Fatalf("got %v", err)
	}
	if after := s.tree(); after != before || len(s.leftBehind()) != 0 || len(s.openInState()) != 0 {
		t.Fatalf("left: %v %v", s.leftBehind(), s.openInState())
	}
}

// The second mv fails: what the first one did must be undone.
func TestApply_FailureHalfWayIsUndone(t *testing.T) {
	s := newSite(t)
	before := s.tree()
	s.fakeTool("mv", `for last; do :; done
case $last:$* in */worker_v2.py:*) echo "mv: cannot move: Device or resource busy" >&2; exit 1 ;; esac
PATH=${PATH#*:}; mv "$@"`)
	_, _, err := s.do(Change{Add: []*patches.Patch{newPatch(t, "one", "1", "ONE = 1\n")}})
	var failed *CommitError
	if !errors.As(err, &failed) || !failed.Undone || failed.Path != s.v2 || !strings.Contains(err.Error(), "resource busy") {
		t.Fatalf("got %v", err)
	}
	if after := s.tree(); after != before || len(s.leftBehind()) != 0 || len(s.openInState()) != 0 {
		t.Fatalf("not undone: %v %v\n%s\n%s", s.leftBehind(), s.openInState(), before, after)
	}
}

// From the second file on no mv works any more: it can be neither finished nor
// undone until the cause is gone.
func TestApply_FailureThatCannotBeUndoneIsSaidAndFinishedLater(t *testing.T) {
	s := newSite(t)
	before := s.tree()
	p := newPatch(t, "one", "1", "ONE = 1\n")
	s.fakeTool("mv", `for last; do :; done
[ ! -e "${0%/*}/broken" ] || exit 1
case $last in */worker_v2.py) : >"${0%/*}/broken"; exit 1 ;; esac
PATH=${PATH#*:}; mv "$@"`)
	_, _, err := s.do(Change{Add: []*patches.Patch{p}})
	var failed *RollbackFailedError
	if !errors.As(err, &failed) {
		t.Fatalf("got %v", err)
	}
	if got := s.verdicts(p); got != "worker.py:incomplete: worker_v2.py:incomplete:" || s.status(p).Clean() || len(s.status(p).Open) != 1 {
		t.Fatalf("status: %s", got)
	}
	_, _, err = Do(context.Background(), s.host, s.where, Change{Add: []*patches.Patch{p}}, DoOptions{DryRun: true})
	var open *OpenTransactionError
	if !errors.As(err, &open) {
		t.Fatalf("a dry run on an open transaction: %v", err)
	}
	s.fakeTool("mv", "")
	out := s.mustDo(Change{RemoveAll: true})
	if out.Recovered == nil || len(out.Recovered.Transactions) != 1 {
		t.Fatalf("%+v", out)
	}
	if after := s.tree(); after != before {
		t.Fatalf("the tree differs:\n%s\n%s", before, after)
	}
}

func TestRecover_ThirdContentIsLeftAloneWithoutForce(t *testing.T) {
	s := newSite(t)
	p := newPatch(t, "one", "1", "ONE = 1\n")
	s.cutAfter(p, firstMove)
	s.write("engine/srt/spec/worker_v2.py", "third\n")
	_, err := Recover(context.Background(), s.host, s.where, RecoverOptions{})
	var drift *DriftError
	if !errors.As(err, &drift) || drift.Verdict != Incomplete || drift.Path != s.v2 {
		t.Fatalf("got %v", err)
	}
	if s.read(s.v2) != "third\n" {
		t.Fatal("it was overwritten")
	}
	r, err := Recover(context.Background(), s.host, s.where, RecoverOptions{Force: true})
	if err != nil || len(r.Transactions) != 1 || r.Transactions[0].Result != "forward" {
		t.Fatalf("%+v %v", r, err)
	}
	if kept := s.read(filepath.Join(s.state, "blobs", hashText("third\n"))); kept != "third\n" {
		t.Fatalf("kept: %q", kept)
	}
}

func TestApply_StatePathsBelowHomeAreExpanded(t *testing.T) {
	s := newSite(t)
	s.where.StateDir = "~/a/b"
	s.mustDo(Change{Add: []*patches.Patch{newPatch(t, "one", "1", "ONE = 1\n")}})
	r := s.status()
	if len(r.Files) != 2 || !strings.HasSuffix(r.Files[0].StateDir, "/a/b") || strings.Contains(r.Files[0].StateDir, "~") {
		t.Fatalf("%+v", r.Files)
	}
}

func TestRollback_NamesProcessesThatStillRunThePatch(t *testing.T) {
	s := newSite(t)
	s.mustDo(Change{Add: []*patches.Patch{newPatch(t, "one", "1", "ONE = 1\n")}})
	server := exec.Command(s.where.Python, "-c", "import time; print('up', flush=True); time.sleep(1000)", "sglang.launch_server")
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
	out := s.mustDo(Change{RemoveAll: true})
	for _, p := range out.Live {
		if p.PID == server.Process.Pid {
			return
		}
	}
	t.Fatalf("live: %+v", out.Live)
}

func TestDo_ManyAtOnceEndAsOneConsistentSet(t *testing.T) {
	s := newSite(t)
	before := s.tree()
	var wg sync.WaitGroup
	names := []string{"p1", "p2", "p3", "p4"}
	for _, name := range names {
		p := newPatch(t, name, "1", "P = '"+name+"'\n")
		wg.Go(func() {
			for limit := time.Now().Add(30 * time.Second); time.Now().Before(limit); {
				_, _, err := s.do(Change{Add: []*patches.Patch{p}})
				var locked *LockedError
				var drift *DriftError
				switch {
				case err == nil:
					return
				case errors.As(err, &locked), errors.As(err, &drift):
				default:
					t.Errorf("%s: %v", name, err)
					return
				}
			}
			t.Errorf("%s was never applied", name)
		})
	}
	wg.Wait()
	r := s.status()
	for _, f := range r.Files {
		if f.Verdict != Patched || len(f.Patches) != len(names) {
			t.Fatalf("%+v", f)
		}
	}
	s.mustDo(Change{RemoveAll: true})
	if after := s.tree(); after != before {
		t.Fatalf("the tree differs:\n%s\n%s", before, after)
	}
}

func TestLocks_AreListedAndGivenBack(t *testing.T) {
	s := newSite(t)
	ctx := context.Background()
	s.plantLock(3, map[string]string{"pid": "1", "ticks": "1", "host": "another"})
	ls, err := LockStatus(ctx, s.host, s.state)
	if err != nil || len(ls) != 1 || !ls[0].Held || ls[0].Reason != "other-host" || ls[0].Generation != 3 || ls[0].What != s.folder || ls[0].User != "someone" {
		t.Fatalf("%+v %v", ls, err)
	}
	p := newPatch(t, "one", "1", "ONE = 1\n")
	_, _, err = s.do(Change{Add: []*patches.Patch{p}})
	var locked *LockedError
	if !errors.As(err, &locked) || locked.PID != 1 || locked.Hint() == "" {
		t.Fatalf("got %v", err)
	}
	if ls, err = ReleaseLock(ctx, s.host, s.state, ls[0]); err != nil || ls[0].Held {
		t.Fatalf("%+v %v", ls, err)
	}
	s.mustDo(Change{Add: []*patches.Patch{p}})
	s.plantHolder()
	s.await("the lock to be seen", func() bool { ls, err = LockStatus(ctx, s.host, s.state); return err == nil })
	s.dropLocks()
	s.plantHolder()
	ls, err = LockStatus(ctx, s.host, s.state)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = ReleaseLock(ctx, s.host, s.state, ls[0]); !errors.As(err, &locked) || locked.PID != s.holder.Process.Pid {
		t.Fatalf("a running script's lock was given back: %v", err)
	}
}

func TestApply_ClaimOfALostStateFolder(t *testing.T) {
	s := newSite(t)
	s.write("engine/srt/spec/.specrun-claim", "bob\n/gone/state\nelsewhere\n")
	_, _, err := s.do(Change{Add: []*patches.Patch{newPatch(t, "one", "1", "ONE = 1\n")}})
	var claimed *ClaimedError
	if !errors.As(err, &claimed) || claimed.Owner != "bob" || claimed.StateDir != "/gone/state" {
		t.Fatalf("got %v", err)
	}
}

func TestRollback_OfFilesThatAreGoneClearsTheLedger(t *testing.T) {
	s := newSite(t)
	p := newPatch(t, "one", "1", "ONE = 1\n")
	s.mustDo(Change{Add: []*patches.Patch{p}})
	for _, f := range []string{s.v1, s.v2} {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.verdicts(p); got != "worker.py:missing:one worker_v2.py:missing:one" {
		t.Fatalf("status: %s", got)
	}
	s.mustDo(Change{RemoveAll: true})
	if got := s.verdicts(p); got != "" || len(s.leftBehind()) != 0 || len(s.openInState()) != 0 {
		t.Fatalf("status: %s, left %v %v", got, s.leftBehind(), s.openInState())
	}
}

func TestRollback_AfterTheWholeEnvironmentWasRemoved(t *testing.T) {
	s := newSite(t)
	s.mustDo(Change{Add: []*patches.Patch{newPatch(t, "one", "1", "ONE = 1\n")}})
	if err := os.RemoveAll(s.root); err != nil {
		t.Fatal(err)
	}
	s.where.Python = "" // any will do
	s.mustDo(Change{RemoveAll: true})
	if r := s.status(); len(r.Files) != 0 || len(s.openInState()) != 0 {
		t.Fatalf("status: %+v", r.Files)
	}
}

func TestDo_FullBlobStoreIsToldFromDrift(t *testing.T) {
	s := newSite(t)
	s.fakeTool("cp", "echo 'cp: Permission denied' >&2; exit 1")
	_, _, err := s.do(Change{Add: []*patches.Patch{newPatch(t, "one", "1", "ONE = 1\n")}})
	var conflict *ConflictError
	if !errors.As(err, &conflict) || !strings.Contains(err.Error(), "Permission denied") {
		t.Fatalf("got %v", err)
	}
}
