package experiments

import (
	"slices"

	"specrun/deploy"
)

// holds says whether exactly set is deployed: each file that a patch of the set
// may fit has it, in the set's order, and nothing else. When that cannot be told
// from reading it is false, and Ensure finds out.
func (s PatchState) holds(set []PatchRef) bool {
	if s.Unsound != "" || len(s.Patches) != len(set) {
		return false
	}
	for _, ref := range set {
		if s.looked != nil && !slices.Contains(s.looked, ref.SHA256) {
			return false
		}
		if !slices.ContainsFunc(s.Patches, func(p PatchRef) bool { return p.Name == ref.Name && p.SHA256 == ref.SHA256 }) {
			return false
		}
	}
	for _, f := range s.Files {
		var want []string
		for _, ref := range set {
			if slices.Contains(f.stack, ref.SHA256) || slices.Contains(f.targetOf, ref.SHA256) {
				want = append(want, ref.SHA256)
			}
		}
		if !slices.Equal(f.stack, want) {
			return false
		}
	}
	return true
}

// isAs says whether nothing differs from what was found before: the patches, the
// bytes of each file, and what was wrong with them.
func (s PatchState) isAs(found PatchState) bool {
	return s.Unsound == found.Unsound && !s.Open && samePatches(s.Patches, found.Patches) && len(s.changedSince(found)) == 0
}

// changedSince lists the files whose bytes differ from those that were found.
func (s PatchState) changedSince(found PatchState) []string {
	var out []string
	for _, f := range found.Files {
		if !slices.ContainsFunc(s.Files, func(o PatchedFile) bool { return o.Path == f.Path && o.SHA256 == f.SHA256 }) {
			out = append(out, f.Path)
		}
	}
	return out
}

// samePatches compares sets by name and content, in order.
func samePatches(a, b []PatchRef) bool {
	return slices.EqualFunc(a, b, func(x, y PatchRef) bool { return x.Name == y.Name && x.SHA256 == y.SHA256 })
}

// verdict is what is said of a file beside its hash: also what it was before,
// where that was not the release.
func (f PatchedFile) verdict() string {
	if f.PristineVerdict == string(deploy.PreEdited) && f.Verdict != f.PristineVerdict {
		return f.Verdict + ", was " + f.PristineVerdict
	}
	return f.Verdict
}
