package report

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"specrun/experiments/record"
)

// factKey names a fact of provenance.
type factKey struct{ group, key string }

// absent stands for "has no such fact" among the values of a side.
const absent = "\x00absent"

// sideFacts gives the values that each fact has in the runs of a side: one when
// it is constant, more when it varies, absent among them when only some runs
// have it. A key that a run has several times counts as one fact with all its
// values.
func sideFacts(runs []record.RunData) map[factKey][]string {
	out := map[factKey][]string{}
	have := map[factKey]int{}
	for _, run := range runs {
		values := map[factKey][]string{}
		for _, f := range run.Provenance {
			k, value := factKey{f.Group, modulePath(f.Group, f.Key)}, f.Value
			if f.Group == "patches" {
				k.key, value = patchFact(k.key, value)
			}
			values[k] = append(values[k], withoutPort(k, value))
		}
		for k, vs := range values {
			slices.Sort(vs)
			have[k]++
			if v := strings.Join(vs, "\n"); !slices.Contains(out[k], v) {
				out[k] = append(out[k], v)
			}
		}
	}
	for k := range out {
		if have[k] < len(runs) {
			out[k] = append(out[k], absent)
		}
		slices.Sort(out[k])
	}
	return out
}

// modulePath names an engine file by its place in the engine, so that the same
// file in two environments is one fact.
func modulePath(group, key string) string {
	path, ok := strings.CutPrefix(key, "file ")
	if group != "code" || !ok {
		return key
	}
	for _, folder := range []string{"/site-packages/", "/dist-packages/", "/python/"} {
		if i := strings.LastIndex(path, folder); i >= 0 {
			return "file " + path[i+len(folder):]
		}
	}
	return key
}

// portFlags are chosen for each launch.
var portFlags = []string{"port", "nccl-port", "dist-init-addr"}

// withoutPort leaves the ports out of a command line: they differ between any
// two launches and explain nothing.
func withoutPort(k factKey, value string) string {
	argv, ok := readArgv(value)
	if k != (factKey{"command", "argv"}) || !ok {
		return value
	}
	var kept []string
	for i := 0; i < len(argv); i++ {
		name, flag := flagName(argv[i])
		if !flag || !slices.Contains(portFlags, name) {
			kept = append(kept, argv[i])
		} else if !strings.Contains(argv[i], "=") {
			i++ // its value
		}
	}
	text, err := json.Marshal(kept)
	if err != nil {
		return value
	}
	return string(text)
}

// difference is a fact that two sides do not have in common.
type difference struct {
	factKey
	a, b   []string   // the values that only this side has; several: it varies within the side
	also   []string   // differences that are a mere consequence of this one
	gone   bool       // itself a consequence: told with another one
	steady *[2]string // varies between cells only, not within one: the values of a cell in which it differs
	weight float64
	why    string
}

// left and right are the values of a difference that has one on each side.
func (d *difference) left() string  { return d.a[0] }
func (d *difference) right() string { return d.b[0] }

// constant says that the fact has one value on each side.
func (d *difference) constant() bool { return len(d.a) == 1 && len(d.b) == 1 }

// values of the difference where it has one on each side.
func (d *difference) values() (a, b string, ok bool) {
	switch {
	case d.constant():
		return d.left(), d.right(), true
	case d.steady != nil:
		return d.steady[0], d.steady[1], true
	}
	return "", "", false
}

// cellRuns are the runs that two sides have of one cell; of a partial side they
// failed, so that not all of their provenance is known.
type cellRuns struct {
	a, b               []record.RunData
	partialA, partialB bool
}

// steadyIn looks whether facts that have several values on a side have one in each
// cell: a file is pristine under the baseline and patched under the others, and
// may still have been edited between the sides.
func steadyIn(ds []*difference, cells []cellRuns) {
	left, right := make([]map[factKey][]string, len(cells)), make([]map[factKey][]string, len(cells))
	for i, c := range cells {
		left[i], right[i] = sideFacts(c.a), sideFacts(c.b)
	}
	value := func(facts map[factKey][]string, k factKey) (string, bool) {
		switch v := facts[k]; len(v) {
		case 0:
			return absent, true
		case 1:
			return v[0], true
		}
		return "", false
	}
	for _, d := range ds {
		var example *[2]string
		steady := true
		for i := range cells {
			a, okA := value(left[i], d.factKey)
			b, okB := value(right[i], d.factKey)
			steady = steady && okA && okB
			if example == nil && okA && okB && a != b {
				example = &[2]string{a, b}
			}
		}
		if steady {
			d.steady = example
		}
	}
}

// nothing are the ways in which programs say that a setting has no value.
func nothing(v string) bool {
	return v == "" || v == "null" || v == "None" || v == "none" || v == absent
}

// compareFacts gives the facts in which two sides differ. Groups that one side
// has no fact of explain nothing, since nothing is known: they are named apart.
func compareFacts(a, b []record.RunData) (ds []*difference, unknown []string) {
	left, right := sideFacts(a), sideFacts(b)
	groupsOf := func(facts map[factKey][]string) map[string]bool {
		out := map[string]bool{}
		for k := range facts {
			out[k.group] = true
		}
		return out
	}
	inA, inB := groupsOf(left), groupsOf(right)
	keys := slices.Collect(maps.Keys(left))
	for k := range right {
		if left[k] == nil {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(x, y factKey) int {
		if c := compareGroups(x.group, y.group); c != 0 {
			return c
		}
		return strings.Compare(x.key, y.key)
	})
	for _, k := range keys {
		if !inA[k.group] || !inB[k.group] {
			if !slices.Contains(unknown, k.group) {
				unknown = append(unknown, k.group)
			}
			continue
		}
		if d := differ(k, left[k], right[k]); d != nil {
			ds = append(ds, d)
		}
	}
	return ds, unknown
}

// differ compares the values of a fact. What both sides have in some of their
// runs, such as the flags of a baseline, is left out of both.
func differ(k factKey, a, b []string) *difference {
	if len(a) == 0 {
		a = []string{absent}
	}
	if len(b) == 0 {
		b = []string{absent}
	}
	without := func(from, what []string) []string {
		return slices.DeleteFunc(slices.Clone(from), func(v string) bool { return slices.Contains(what, v) })
	}
	onlyA, onlyB := without(a, b), without(b, a)
	switch {
	case len(onlyA) == 0 && len(onlyB) == 0:
		return nil
	case len(onlyA) == 0:
		onlyA = a
	case len(onlyB) == 0:
		onlyB = b
	}
	d := &difference{factKey: k, a: onlyA, b: onlyB}
	if d.constant() && nothing(d.left()) && nothing(d.right()) {
		return nil
	}
	return d
}
