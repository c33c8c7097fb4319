package experiments

import (
	"fmt"
	"slices"
	"strings"
)

// nearest gives the candidate that differs from word in the fewest characters,
// "" when none is near enough to be meant.
func nearest(word string, candidates []string) string {
	best, bestDist := "", 1+max(1, min(2, len(word)/2), len(word)/3)
	sorted := slices.Sorted(slices.Values(candidates))
	for _, c := range sorted {
		d := editDistance(strings.ToLower(word), strings.ToLower(c))
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

// editDistance counts insertions, deletions, replacements and swaps of two
// neighbours.
func editDistance(a, b string) int {
	ra, rb := []rune(a), []rune(b)
	rows := make([][]int, len(ra)+1)
	for i := range rows {
		rows[i] = make([]int, len(rb)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(ra); i++ {
		for j := 1; j <= len(rb); j++ {
			cost := 1
			if ra[i-1] == rb[j-1] {
				cost = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && ra[i-1] == rb[j-2] && ra[i-2] == rb[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(ra)][len(rb)]
}
