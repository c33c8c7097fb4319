package patches

import (
	"sort"

	"specrun/internal/edit"
)

// nearest lists the names that look like the given one, best first.
func nearest(name string, names []string) []string {
	type near struct {
		name string
		d    int
	}
	var found []near
	for _, n := range names {
		if d := edit.Distance(name, n); d <= max(2, len(name)/3) {
			found = append(found, near{n, d})
		}
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].d < found[j].d })
	var out []string
	for _, f := range found[:min(len(found), 3)] {
		out = append(out, f.name)
	}
	return out
}
