package configs

import (
	"cmp"
	"slices"
	"strings"

	"specrun/internal/edit"
)

// nearest returns the known names that a mistyped one may mean, at most three,
// the likeliest first: within a third of its letters, or beginning alike.
func nearest(name string, known []string) []string {
	type candidate struct {
		name string
		far  int
	}
	var all []candidate
	for _, k := range known {
		far := edit.Distance(strings.ToLower(name), strings.ToLower(k))
		if far <= max(1, len(name)/3) || len(name) >= 3 && strings.HasPrefix(k, name) {
			all = append(all, candidate{k, far})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(a.far, b.far) })
	var names []string
	for _, c := range all[:min(3, len(all))] {
		names = append(names, c.name)
	}
	return names
}
