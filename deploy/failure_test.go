package deploy

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"specrun/patches"
)

func TestApply_ContentThatDoesNotCompileChangesNothing(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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

func TestDo_ManyAtOnceEndAsOneConsistentSet(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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

// A lock that is just being removed is seen with some of its files.
func TestLocks_HalfRemovedIsFree(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.plantLock(3, map[string]string{"pid": "1", "ticks": "1"})
	if err := os.Remove(filepath.Join(s.lockFolder(), "lock.3", "host")); err != nil {
		t.Fatal(err)
	}
	ls, err := LockStatus(t.Context(), s.host, s.state)
	if err != nil || len(ls) != 1 || ls[0].Held || ls[0].Reason != "released" {
		t.Fatalf("%+v %v", ls, err)
	}
	s.mustDo(Change{Add: []*patches.Patch{newPatch(t, "one", "1", "ONE = 1\n")}})
}

func TestApply_ClaimOfALostStateFolder(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("engine/srt/spec/.specrun-claim", "bob\n/gone/state\nelsewhere\n")
	_, _, err := s.do(Change{Add: []*patches.Patch{newPatch(t, "one", "1", "ONE = 1\n")}})
	var claimed *ClaimedError
	if !errors.As(err, &claimed) || claimed.Owner != "bob" || claimed.StateDir != "/gone/state" {
		t.Fatalf("got %v", err)
	}
}

func TestRollback_OfFilesThatAreGoneClearsTheLedgerWhenForced(t *testing.T) {
	t.Parallel()
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
	if err := s.doOn(s.host, Change{RemoveAll: true}, DoOptions{Options: Options{Force: true}}); err != nil {
		t.Fatal(err)
	}
	if got := s.verdicts(p); got != "" || len(s.leftBehind()) != 0 || len(s.openInState()) != 0 {
		t.Fatalf("status: %s, left %v %v", got, s.leftBehind(), s.openInState())
	}
}

func TestRollback_AfterTheWholeEnvironmentWasRemoved(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.mustDo(Change{Add: []*patches.Patch{newPatch(t, "one", "1", "ONE = 1\n")}})
	if err := os.RemoveAll(s.root); err != nil {
		t.Fatal(err)
	}
	s.where.Python = "" // any will do
	if err := s.doOn(s.host, Change{RemoveAll: true}, DoOptions{Options: Options{Force: true}}); err != nil {
		t.Fatal(err)
	}
	if r := s.status(); len(r.Files) != 0 || len(s.openInState()) != 0 {
		t.Fatalf("status: %+v", r.Files)
	}
}

func TestDo_FullBlobStoreIsToldFromDrift(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fakeTool("cp", "echo 'cp: Permission denied' >&2; exit 1")
	_, _, err := s.do(Change{Add: []*patches.Patch{newPatch(t, "one", "1", "ONE = 1\n")}})
	var conflict *ConflictError
	if !errors.As(err, &conflict) || !strings.Contains(err.Error(), "Permission denied") {
		t.Fatalf("got %v", err)
	}
}

func TestStatus_CorruptLedgerIsNamed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := newPatch(t, "one", "1", "ONE = 1\n")
	s.mustDo(Change{Add: []*patches.Patch{p}})
	file := filepath.Join(s.state, "files", fileID(s.v1)+".json")
	for _, content := range []string{"", "{", "[]", `{"schema":99}`} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		var bad *LedgerError
		if _, err := Status(context.Background(), s.host, s.where, []*patches.Patch{p}); !errors.As(err, &bad) || bad.Path != file {
			t.Fatalf("%q: got %v", content, err)
		}
		if _, _, err := s.do(Change{Add: []*patches.Patch{newPatch(t, "two", "1", "TWO = 2\n")}}); !errors.As(err, &bad) {
			t.Fatalf("%q: got %v", content, err)
		}
	}
}

// Names that someone else gave to folders must not reach the scripts.
func TestDo_StrangeStageFoldersAreLeftAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, name := range []string{".specrun-..", ".specrun-*", ".specrun-a b", ".specrun-$(touch x)"} {
		if err := os.Mkdir(filepath.Join(s.folder, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	before := s.tree()
	s.mustDo(Change{Add: []*patches.Patch{newPatch(t, "one", "1", "ONE = 1\n")}})
	s.mustDo(Change{RemoveAll: true})
	if after := s.tree(); after != before {
		t.Fatalf("the tree differs:\n%s\n%s", before, after)
	}
}

// A transaction that another command leaves open between the look and the
// commit is recovered like one that was there before.
func TestDo_RecoversWhatIsLeftOpenAfterTheFirstLook(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	one, two := newPatch(t, "one", "1", "ONE = 1\n"), newPatch(t, "two", "1", "TWO = 2\n")
	slow := &tamper{Target: s.host, script: "new commit", change: func(script string) string {
		s.cutAfter(one, firstMove)
		return script
	}}
	_, out, err := Do(context.Background(), slow, s.where, Change{Add: []*patches.Patch{two}}, DoOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if out.Recovered.empty() {
		t.Error("the outcome does not say that something was recovered")
	}
	if got := s.verdicts(); got != "worker.py:patched:one+two worker_v2.py:patched:one+two" {
		t.Error(got)
	}
}

// btrfs and others count no inodes: none of none are free, which is no reason
// to look for room.
func TestApply_NoInodesAtAllIsNotAFullDisk(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]struct {
		inodes string // free and all
		full   bool
	}{"not counted": {"0 0", false}, "none left": {"0 1000", true}, "some left": {"10 1000", false}} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.fakeTool("mkdir", `case $* in *.specrun-*) echo "mkdir: Permission denied" >&2; exit 1 ;; esac
PATH=${PATH#*:}; mkdir "$@"`)
			s.fakeTool("stat", `case $*: in
*%d*%c*:) echo 100000 4096 `+at.inodes+` ;;
*-f*:) echo 100000 4096 `+strings.Fields(at.inodes)[0]+` ;;
*) PATH=${PATH#*:}; stat "$@" ;;
esac`)
			_, _, err := s.do(Change{Add: []*patches.Patch{newPatch(t, "one", "1", "ONE = 1\n")}})
			var full *DiskFullError
			if errors.As(err, &full) != at.full {
				t.Fatalf("got %v", err)
			}
			if !at.full && !strings.Contains(err.Error(), "Permission denied") {
				t.Fatalf("the cause is missing: %v", err)
			}
		})
	}
}
