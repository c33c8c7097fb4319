package deploy

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"specrun/patches"
)

// failOnce makes one mv fail: the first whose words match a pattern of case after
// that many others did.
func (s *site) failOnce(pattern string, after int) {
	s.fakeTool("mv", `PATH=${PATH#*:}
case $* in `+pattern+`)
	[ -e "${0%/*}/broken" ] || echo x >>"${0%/*}/seen"
	if [ ! -e "${0%/*}/broken" ] && [ "$(wc -l <"${0%/*}/seen")" -gt `+strconv.Itoa(after)+` ]; then
		: >"${0%/*}/broken"
		echo "mv: cannot move: No space left on device" >&2
		exit 1
	fi ;;
esac
mv "$@"`)
}

// records is what the state folder says about files: their ledgers, and which
// of them count for a claim.
func (s *site) records() map[string]string {
	s.t.Helper()
	found := map[string]string{}
	for _, pattern := range []string{"files/*", "claims/*/*"} {
		names, err := filepath.Glob(filepath.Join(s.state, pattern))
		if err != nil {
			s.t.Fatal(err)
		}
		for _, name := range names {
			found[name] = s.read(name)
		}
	}
	return found
}

// The files are all in place when the ledgers follow; when one of those cannot
// be written, the ones before it must go back with the files.
func TestApply_FailureAtTheLedgersUndoesThemToo(t *testing.T) {
	t.Parallel()
	one, two := newPatch(t, "one", "1", "ONE = 1\n"), newPatch(t, "two", "1", "TWO = 2\n")
	for name, at := range map[string]struct {
		before  Change
		pattern string
		after   int
	}{
		"second ledger of a first patch":  {Change{}, "*ledger-*/files/*.json", 1},
		"second ledger of a second patch": {Change{Add: []*patches.Patch{one}}, "*ledger-*/files/*.json", 1},
		"end of a second patch":           {Change{Add: []*patches.Patch{one}}, "*.prepared*.done", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			pristine := s.tree()
			if len(at.before.Add) > 0 {
				s.mustDo(at.before)
			}
			tree, records := s.tree(), s.records()
			s.failOnce(at.pattern, at.after)
			_, _, err := s.do(Change{Add: []*patches.Patch{two}})
			var failed *CommitError
			if !errors.As(err, &failed) || !failed.Undone {
				t.Fatalf("got %v", err)
			}
			if _, err := os.Stat(filepath.Join(s.bin, "broken")); err != nil {
				t.Fatal("mv did not fail: ", err)
			}
			if after := s.tree(); after != tree {
				t.Errorf("the tree differs:\n%s\n%s", tree, after)
			}
			after := s.records()
			for name, want := range records {
				if got, ok := after[name]; !ok || got != want {
					t.Errorf("%s is not as it was:\n%s", name, got)
				}
				delete(after, name)
			}
			for name := range after {
				t.Errorf("%s is new", name)
			}
			if left := s.openInState(); len(left) != 0 {
				t.Errorf("left: %v", left)
			}
			s.mustDo(Change{Add: []*patches.Patch{two}})
			s.mustDo(Change{RemoveAll: true})
			if after := s.tree(); after != pristine {
				t.Errorf("after rollback the tree differs:\n%s\n%s", pristine, after)
			}
		})
	}
}
