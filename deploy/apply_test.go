package deploy

import (
	"testing"

	"specrun/patches"
)

var shells = map[string][]string{
	"dash": {"dash"}, "bash": {"bash"}, "busybox": {"busybox", "sh"},
}

func TestDo_ApplyThenRollbackLeavesEverythingAsItWas(t *testing.T) {
	t.Parallel()
	for name, shell := range shells {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, shell...)
			p := newPatch(t, "one", "1", "ONE = 1\n")
			before := s.tree()
			if got, want := s.verdicts(p), "worker.py:pristine: worker_v2.py:pristine:"; got != want {
				t.Fatalf("status before: %s, want %s", got, want)
			}
			out := s.mustDo(Change{Add: []*patches.Patch{p}})
			if len(out.Changed) != 2 || !out.Durable || len(out.Notes) != 0 {
				t.Fatalf("apply: %+v", out)
			}
			if got, want := s.verdicts(p), "worker.py:patched:one worker_v2.py:patched:one"; got != want {
				t.Fatalf("status after apply: %s, want %s", got, want)
			}
			if out := s.mustDo(Change{Add: []*patches.Patch{p}}); out.Tx != "" || len(out.Kept) != 2 {
				t.Fatalf("apply again is no no-op: %+v", out)
			}
			s.mustDo(Change{RemoveAll: true})
			if got, want := s.verdicts(p), "worker.py:pristine: worker_v2.py:pristine:"; got != want {
				t.Fatalf("status after rollback: %s, want %s", got, want)
			}
			if after := s.tree(); after != before {
				t.Fatalf("the tree differs:\nbefore\n%safter\n%s", before, after)
			}
		})
	}
}
