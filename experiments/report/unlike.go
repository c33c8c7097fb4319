package report

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"specrun/experiments/record"
)

// Unlike is a key of the work or the hardware in which two sides differ, so that
// their numbers do not answer the same question.
type Unlike struct{ Cell, Group, Key, A, B string }

func (u Unlike) String() string {
	return fmt.Sprintf("%s %s %s / %s", u.Group, u.Key, firstLine(u.A), firstLine(u.B))
}

// UnlikeError says that two sides are not alike: another model, other work or
// other GPUs. CompareOptions.Force compares them all the same.
type UnlikeError struct {
	A, B string
	Keys []Unlike
}

func (e *UnlikeError) Error() string {
	var keys []string
	for _, k := range e.Keys {
		keys = append(keys, k.String())
	}
	return fmt.Sprintf("%s and %s are not alike: %s", e.A, e.B, strings.Join(keys, "; "))
}

// Hint says what to do next.
func (e *UnlikeError) Hint() string {
	return "measure both with the same work on the same hardware, or compare them all the same with --force"
}

// likeKeys are the facts of the workload that must be equal.
var likeKeys = [...]string{"model", "prompts_sha256", "requests", "concurrency", "max_tokens", "temperature", "seed"}

var gpuName = regexp.MustCompile(`^(?:gpu ?)?\d+ name$|^name$`)

// unlike finds the keys in which the runs of a cell differ between two sides.
// What a side does not know, such as an old log, is not unlike.
func unlike(cell string, a, b []record.RunData) []Unlike {
	var out []Unlike
	add := func(group, key string, left, right []string) {
		if len(left) == 0 || len(right) == 0 || slices.ContainsFunc(left, func(v string) bool { return slices.Contains(right, v) }) {
			return
		}
		out = append(out, Unlike{cell, group, key, strings.Join(left, " or "), strings.Join(right, " or ")})
	}
	for _, key := range likeKeys {
		add("workload", key, factValues(a, "workload", key), factValues(b, "workload", key))
	}
	add("gpu", "name", gpus(a), gpus(b))
	return out
}

func factValues(runs []record.RunData, group, key string) []string {
	seen := map[string]bool{}
	for _, run := range runs {
		for _, f := range run.Provenance {
			if f.Group == group && f.Key == key {
				seen[f.Value] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// gpus gives the GPUs of each run as "8 x NAME", the same once.
func gpus(runs []record.RunData) []string {
	seen := map[string]bool{}
	for _, run := range runs {
		count := map[string]int{}
		for _, f := range run.Provenance {
			if f.Group == "gpu" && gpuName.MatchString(f.Key) {
				count[f.Value]++
			}
		}
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(count)) {
			parts = append(parts, fmt.Sprintf("%d x %s", count[name], name))
		}
		if len(parts) > 0 {
			seen[strings.Join(parts, " and ")] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// profilers names the profiling patches of runs with version and the beginning of
// the content's hash. known is false when nothing says whether there was one.
func profilers(runs []record.RunData) (names []string, known bool) {
	seen := map[string]bool{}
	for _, run := range runs {
		for _, f := range run.Provenance {
			if f.Group != "patches" {
				continue
			}
			known = true
			key, value := patchFact(f.Key, f.Value)
			if key == "none" {
				continue
			}
			for _, word := range strings.Fields(value) {
				if patchHash.MatchString(word) {
					word = "(" + word[:shownHash] + ")"
				}
				key += " " + word
			}
			seen[key] = true
		}
	}
	return slices.Sorted(maps.Keys(seen)), known
}

const shownHash = 8

// patchHash is at least as much of a hash as profilers print of theirs.
var patchHash = regexp.MustCompile(`^[0-9a-f]{12,64}$`)

// patchFact gives a fact about a patch the same key and value whether specrun
// put the patch there or a log tells of it, which has the beginning of the hash.
func patchFact(key, value string) (string, string) {
	if key == "profiler" {
		name, rest, _ := strings.Cut(value, " ")
		if strings.HasSuffix(name, ":") { // "unknown: text blocks"
			return key, value
		}
		key, value = name, rest
	}
	words := strings.Fields(value)
	for i, w := range words {
		if patchHash.MatchString(w) {
			words[i] = w[:12]
		}
	}
	return key, strings.Join(words, " ")
}

// labelNames are the labels that runs carry, sorted.
func labelNames(runs []record.RunData) []string {
	seen := map[string]bool{}
	for _, run := range runs {
		for _, l := range run.Labels {
			seen[l.Name] = true
		}
	}
	return append([]string{}, slices.Sorted(maps.Keys(seen))...)
}

// reasons are why runs carry a label, each once.
func reasons(label string, sides ...[]record.RunData) []string {
	var out []string
	for _, run := range slices.Concat(sides...) {
		for _, l := range run.Labels {
			if l.Name == label && !slices.Contains(out, l.Reason) {
				out = append(out, l.Reason)
			}
		}
	}
	return out
}

// flagsOf says aloud what makes two sides hard to compare although they do the
// same work: other profilers, an unknown meaning of TOTAL, another host.
func flagsOf(a, b []record.RunData, hostsA, hostsB []string, total bool) []string {
	var out []string
	flag := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	pa, knownA := profilers(a)
	pb, knownB := profilers(b)
	text := func(names []string, known bool) string {
		switch {
		case len(names) > 0:
			return strings.Join(names, ", ")
		case known:
			return "none"
		}
		return "not known"
	}
	if (knownA || knownB) && !slices.Equal(pa, pb) || knownA != knownB {
		flag("profilers differ: %s / %s", text(pa, knownA), text(pb, knownB))
	}
	la, lb := labelNames(a), labelNames(b)
	sides := func(label string) string {
		inA, inB := slices.Contains(la, label), slices.Contains(lb, label)
		switch {
		case inA && inB:
			return "a and b"
		case inA:
			return "a"
		case inB:
			return "b"
		}
		return ""
	}
	if s := sides("total-unknown"); s != "" && total {
		flag("%s: %s (total-unknown)", s, strings.Join(reasons("total-unknown", a, b), "; "))
	}
	if s := sides("imported"); s != "" {
		flag("%s: imported, so that work and hardware are not known to be alike", s)
	}
	for _, label := range []string{"simulated", "sync-probe"} {
		if s := sides(label); s == "a" || s == "b" {
			flag("only %s is %s", s, label)
		}
	}
	if len(hostsA) > 0 && len(hostsB) > 0 && !slices.Equal(hostsA, hostsB) {
		flag("hosts differ: %s / %s; machines of one kind have differed by 20 %%", strings.Join(hostsA, ", "), strings.Join(hostsB, ", "))
	}
	return out
}

// hosts of the runs of cells, sorted.
func (s *Side) hosts(cells ...record.Cell) []string {
	seen := map[string]bool{}
	for _, c := range cells {
		for _, r := range s.runsOf(c) {
			if r.Host != "" {
				seen[r.Host] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}
