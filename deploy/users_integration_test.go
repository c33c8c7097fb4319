//go:build integration

package deploy

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"specrun/patches"
	"specrun/remote/remotetest"
)

const otherUID = 4001

// twoUsers makes a site that user 4001 owns and root can write too, and a
// second view of it through that user's own sshd.
func twoUsers(t *testing.T) (root, other *site) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("two users need root")
	}
	root = newSite(t)
	for dir := filepath.Dir(root.root); dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	err := filepath.WalkDir(root.root, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(path, otherUID, otherUID)
	})
	if err != nil {
		t.Fatal(err)
	}
	root.host = remotetest.StartSSHD(t, remotetest.Options{}).Dial(t)
	view := *root
	other = &view
	other.host = remotetest.StartSSHD(t, remotetest.Options{UID: otherUID}).Dial(t)
	other.where.StateDir = "" // the default of that account
	return root, other
}

func TestTwoUsers_WritableStateDirIsOneLedger(t *testing.T) {
	root, other := twoUsers(t)
	before := root.tree()
	// The folder is shared: setgid, and of the group of the other user.
	if err := os.Mkdir(root.state, 0o770); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(root.state, 0, otherUID); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(root.state, 0o770|os.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	one, two := newPatch(t, "one", "1", "ONE = 1\n"), newPatch(t, "two", "1", "TWO = 2\n")
	root.mustDo(Change{Add: []*patches.Patch{one}})
	want := "worker.py:patched:one worker_v2.py:patched:one"
	if got := other.verdicts(one, two); got != want {
		t.Fatalf("the other user sees %s, want %s", got, want)
	}
	other.mustDo(Change{Add: []*patches.Patch{two}})
	want = "worker.py:patched:one+two worker_v2.py:patched:one+two"
	if got := root.verdicts(one, two); got != want {
		t.Fatalf("root sees %s, want %s", got, want)
	}
	for _, f := range other.status(one).Files {
		if f.StateDir != root.state {
			t.Fatalf("the ledger of %s is in %s", f.Path, f.StateDir)
		}
	}
	root.mustDo(Change{Remove: []string{"one"}})
	other.library = []*patches.Patch{one}
	other.mustDo(Change{Remove: []string{"two"}})
	if after := root.tree(); after != before {
		t.Fatalf("the tree differs:\n%s\n%s", before, after)
	}
}

func TestTwoUsers_StateDirOutOfReachNamesOwnerAndFolder(t *testing.T) {
	root, other := twoUsers(t)
	one, two := newPatch(t, "one", "1", "ONE = 1\n"), newPatch(t, "two", "1", "TWO = 2\n")
	root.mustDo(Change{Add: []*patches.Patch{one}}) // 0700, root's
	patched := root.tree()
	for name, c := range map[string]Change{"apply": {Add: []*patches.Patch{two}}, "exact": {SetExact: true, Exact: []*patches.Patch{two}}} {
		for _, force := range []bool{false, true} {
			_, _, err := Do(context.Background(), other.host, other.where, c, DoOptions{Options: Options{Force: force}})
			var claimed *ClaimedError
			if !errors.As(err, &claimed) {
				t.Fatalf("%s: got %v, want a *ClaimedError", name, err)
			}
			if claimed.Owner != "root" || claimed.StateDir != root.state || !strings.Contains(err.Error(), "root") || !strings.Contains(err.Error(), root.state) {
				t.Fatalf("%s: the error names neither owner nor folder: %v", name, err)
			}
		}
	}
	if got := other.verdicts(one); got != "worker.py:foreign: worker_v2.py:foreign:" {
		t.Fatalf("the other user sees %s", got)
	}
	if after := root.tree(); after != patched {
		t.Fatal("a refused command changed the tree")
	}
	if left := root.leftBehind(); len(left) != 1 {
		t.Fatalf("left: %v", left)
	}
	root.mustDo(Change{RemoveAll: true})
	// Once pristine, the folder is free for the other user's own ledger.
	other.mustDo(Change{Add: []*patches.Patch{two}})
	_, _, err := root.do(Change{Add: []*patches.Patch{one}})
	if err != nil {
		t.Fatalf("root can write every state folder: %v", err)
	}
	if got := root.verdicts(one, two); got != "worker.py:patched:two+one worker_v2.py:patched:two+one" {
		t.Fatalf("root sees %s", got)
	}
}

// Two controllers that both saw no claim: the second one's script finds it.
func TestTwoUsers_ClaimMadeInBetween(t *testing.T) {
	root, other := twoUsers(t)
	one := newPatch(t, "one", "1", "ONE = 1\n")
	err := other.applyChanged(other.host, one, func() { root.mustDo(Change{Add: []*patches.Patch{one}}) })
	var claimed *ClaimedError
	if !errors.As(err, &claimed) || claimed.Owner != "root" || claimed.StateDir != root.state {
		t.Fatalf("got %v", err)
	}
	if got := root.verdicts(one); got != "worker.py:patched:one worker_v2.py:patched:one" {
		t.Fatalf("root sees %s", got)
	}
}
