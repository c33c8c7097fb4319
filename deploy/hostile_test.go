package deploy

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"specrun/patches"
)

// In a shared state folder a member of its group can write what a dead script
// seems to have staged. That must not name anything outside the folder.
func TestApply_OrphansOfALockCannotNameOtherFolders(t *testing.T) {
	t.Parallel()
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

// What a transaction names becomes paths to replace and to remove, so one that
// this version would not have made is left alone.
func TestRecover_TransactionThatIsNotOneOfOursIsRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(tx *transaction, s *site){
		"another id":         func(tx *transaction, s *site) { tx.ID = "../../victim" },
		"no files":           func(tx *transaction, s *site) { tx.Files = nil },
		"no folders":         func(tx *transaction, s *site) { tx.Folders = nil },
		"a folder elsewhere": func(tx *transaction, s *site) { tx.Folders[0].Path += "/../.." },
		"a file elsewhere":   func(tx *transaction, s *site) { tx.Files[0].Path = "/home/you/.profile" },
		"a stage elsewhere":  func(tx *transaction, s *site) { tx.Files[0].Stage = s.v2 },
		"a ledger elsewhere": func(tx *transaction, s *site) { tx.Files[0].ID = "../../victim" },
		"no hash":            func(tx *transaction, s *site) { tx.Files[0].Pre = "../../victim" },
		"another schema":     func(tx *transaction, s *site) { tx.Schema = 7 },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.cutAfter(newPatch(t, "one", "1", "ONE = 1\n"), firstMove)
			plans, err := filepath.Glob(filepath.Join(s.state, "tx", "*.prepared", "plan.json"))
			if err != nil || len(plans) != 1 {
				t.Fatalf("%v %v", plans, err)
			}
			var tx transaction
			if err := json.Unmarshal([]byte(s.read(plans[0])), &tx); err != nil {
				t.Fatal(err)
			}
			change(&tx, s)
			data, err := json.Marshal(tx)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(plans[0], data, 0o600); err != nil {
				t.Fatal(err)
			}
			before := s.tree()
			_, err = Recover(t.Context(), s.host, s.where, RecoverOptions{Force: true})
			var ledger *LedgerError
			if !errors.As(err, &ledger) || ledger.Path != filepath.Dir(plans[0]) {
				t.Errorf("got %v", err)
			}
			if after := s.tree(); after != before {
				t.Errorf("the tree differs:\n%s\n%s", before, after)
			}
		})
	}
}
