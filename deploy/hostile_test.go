package deploy

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"specrun/patches"
)

// In a shared state folder a member of its group can write what a dead script
// seems to have staged. That must not name anything outside the folder.
func TestApply_OrphansOfALockCannotNameOtherFolders(t *testing.T) {
	s := newSite(t)
	victim := filepath.Join(filepath.Dir(s.state), "victim")
	staged := filepath.Join(s.state, "tx", "staged")
	for _, dir := range []string{victim, staged} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s.plantLock(1, map[string]string{"pid": "999999999", "ticks": "1", "session": "1", "tx": "../../victim .. * " + victim + " staged"})
	s.mustDo(Change{Add: []*patches.Patch{newPatch(t, "one", "1", "ONE = 1\n")}})
	if _, err := os.Stat(victim); err != nil {
		t.Errorf("a folder outside of the state folder was removed: %v", err)
	}
	if _, err := os.Stat(s.state); err != nil {
		t.Errorf("the state folder was removed: %v", err)
	}
	if _, err := os.Stat(staged); err == nil {
		t.Error("what the dead script had staged is still there")
	}
}

func TestLeftovers_OnlyFoldersThatMeanWhatTheySay(t *testing.T) {
	folders := []string{"/a/b", "/a/../home/you", "/a/b/", "relative", "/a\nb", "/a/./b"}
	f := &Facts{States: []*StateFacts{{Path: "/state", Exists: true, Writable: true,
		Transactions: []transactionFile{{ID: "x", Phase: "staged", Folders: folders}, {ID: "../x", Phase: "staged", Folders: folders}}}}}
	l := f.leftovers("/state")
	if !slices.Equal(l.folders, []string{"/a/b"}) || !slices.Equal(l.ids, []string{"x"}) {
		t.Fatalf("%+v", l)
	}
}
