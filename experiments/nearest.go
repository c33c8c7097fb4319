package experiments

import (
	"fmt"
	"slices"
	"strings"

	"specrun/internal/edit"
)

// nearest gives the candidate that differs from word in the fewest characters,
// "" when none is near enough to be meant.
func nearest(word string, candidates []string) string {
	best, bestDist := "", 1+max(1, min(2, len(word)/2), len(word)/3)
	sorted := slices.Sorted(slices.Values(candidates))
	for _, c := range sorted {
		d := edit.Distance(strings.ToLower(word), strings.ToLower(c))
		if strings.HasSuffix(c, "-"+word) || strings.HasPrefix(c, word) && len(word) > 2 {
			d = min(d, 1)
		}
		if d < bestDist {
			best, bestDist = c, d
		}
	}
	return best
}

// unknownHint proposes the nearest candidate, or lists them when few.
func unknownHint(word string, candidates []string) string {
	if n := nearest(word, candidates); n != "" {
		return fmt.Sprintf("did you mean %s?", n)
	}
	if len(candidates) == 0 {
		return ""
	}
	sorted := slices.Sorted(slices.Values(candidates))
	if len(sorted) > 20 {
		return fmt.Sprintf("known are %s, ...", strings.Join(sorted[:20], ", "))
	}
	return "known are " + strings.Join(sorted, ", ")
}
