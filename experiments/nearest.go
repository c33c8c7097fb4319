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

// likeNotes names the variables and flags that a sweep adds to those of the spec
// although the spec has one of nearly that name: a letter may be missing, and the
// server would not say so.
func likeNotes(e *Experiment) (out []string) {
	var env []string
	for _, v := range e.Spec.Server.Env {
		env = append(env, v.Name)
	}
	have := map[string][]string{"env": env, "flag": e.Spec.flagNames()}
	asked := map[string]bool{}
	for _, c := range e.Cells {
		for key := range c.Params {
			asked[key] = true
		}
	}
	for _, key := range sortedKeys(asked) {
		kind, name, _ := strings.Cut(key, ".")
		known, prefixed := have[kind]
		if !prefixed || slices.Contains(known, name) {
			continue
		}
		// Nearer than a guess for an unknown key: page-size is not meant for tp-size.
		if like := nearest(name, known); like != "" && edit.Distance(name, like) <= max(1, len(name)/6) {
			out = append(out, fmt.Sprintf("%s is added to the server: the spec has no %s, but %s", key, name, like))
		}
	}
	return out
}
