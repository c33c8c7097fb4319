package report

import (
	"encoding/json"
	"maps"
	"regexp"
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

// cellRuns are the runs that two sides have of one cell.
type cellRuns struct{ a, b []record.RunData }

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

// fold tells consequences with what they follow from: a flag asked for and the
// one in effect, the same setting on each of eight GPUs, the hash of a file that
// a patch changed, a command line that has nothing else in it.
func fold(ds []*difference, a, b []record.RunData) []*difference {
	ds = foldGPUs(ds)
	ds = foldAsked(ds, sideFacts(a), sideFacts(b))
	foldPatchedFiles(ds)
	foldCode(ds)
	foldModels(ds)
	foldEchoes(ds)
	foldSameValues(ds)
	foldArgv(ds)
	return slices.DeleteFunc(ds, func(d *difference) bool { return d.gone })
}

// follow says that d is a consequence of cause.
func (d *difference) follow(cause *difference) {
	if d == cause || d.gone || cause.gone {
		return
	}
	d.gone = true
	cause.also = append(cause.also, d.group+" "+d.key)
	cause.also = append(cause.also, d.also...)
}

func (d *difference) sameValues(o *difference) bool {
	return slices.Equal(d.a, o.a) && slices.Equal(d.b, o.b)
}

var gpuIndex = regexp.MustCompile(`^(?:gpu ?)?(\d+) (.+)$`)

// foldGPUs makes one difference of those that several GPUs have alike.
func foldGPUs(ds []*difference) []*difference {
	first := map[string]*difference{}
	var out []*difference
	count := map[*difference][]string{}
	for _, d := range ds {
		m := gpuIndex.FindStringSubmatch(d.key)
		if d.group != "gpu" || m == nil {
			out = append(out, d)
			continue
		}
		id := m[2] + "\x00" + strings.Join(d.a, "\x01") + "\x00" + strings.Join(d.b, "\x01")
		was := first[id]
		if was == nil {
			first[id] = d
			was = d
			out = append(out, d)
		}
		count[was] = append(count[was], m[1])
	}
	for d, indexes := range count {
		if len(indexes) > 1 {
			d.key = strings.Join(indexes, ",") + " " + gpuIndex.FindStringSubmatch(d.key)[2]
		}
	}
	return out
}

// foldAsked makes one difference of a flag on the command line and the same in
// the configuration read back. What is asked for differently but in effect the
// same changes nothing.
func foldAsked(ds []*difference, a, b map[factKey][]string) []*difference {
	effective := map[string]*difference{}
	for _, d := range ds {
		if d.group == "flags" && !strings.HasPrefix(d.key, askedPrefix) {
			effective[ruleKey("flags", d.key)] = d
		}
	}
	known := func(facts map[factKey][]string, name string) []string {
		for k, v := range facts {
			if k.group == "flags" && !strings.HasPrefix(k.key, askedPrefix) && ruleKey("flags", k.key) == name {
				return v
			}
		}
		return nil
	}
	for _, d := range ds {
		name, asked := strings.CutPrefix(d.key, askedPrefix)
		if d.group != "flags" || !asked {
			continue
		}
		canonical := ruleKey("flags", name)
		if e := effective[canonical]; e != nil {
			e.key = name // as the user writes it
			d.gone = true
			e.also = append(e.also, "flags "+d.key)
			continue
		}
		if x, y := known(a, canonical), known(b, canonical); len(x) > 0 && slices.Equal(x, y) {
			d.why = "asked for differently; the server reports the same value"
			continue
		}
		d.key = name
	}
	return ds
}

// foldPatchedFiles: with other patches, the files that they change have other
// hashes. A file that no patch accounts for stays.
func foldPatchedFiles(ds []*difference) {
	var patch *difference
	for _, d := range ds {
		if d.group == "patches" && d.key != "none" && patch == nil {
			patch = d
		}
	}
	if patch == nil {
		return
	}
	for _, d := range ds {
		if d.group == "patches" && d.key == "none" {
			d.follow(patch)
		}
		if d.group == "env" && strings.HasPrefix(d.key, profileSwitch) { // set where the patch is in
			d.follow(patch)
		}
		if d.group == "code" && strings.HasPrefix(d.key, "file ") && d.allOurs() {
			d.follow(patch)
		}
	}
}

// profileSwitch begins the variables that the built-in patches are switched by.
const profileSwitch = "EAGLE3_PROFILE"

func (d *difference) allOurs() bool {
	other := func(v string) bool { return !ours(v) }
	return !slices.ContainsFunc(d.a, other) && !slices.ContainsFunc(d.b, other)
}

// ours says that a file's content is known: pristine, or what patches made of it.
func ours(hashAndVerdict string) bool {
	_, verdict, _ := strings.Cut(hashAndVerdict, " ")
	return verdict == "pristine" || verdict == "patched"
}

// foldCode: a file that differs shows in the hash of its folder and of the whole
// engine too, and another version or commit in all of them.
func foldCode(ds []*difference) {
	find := func(keys ...string) *difference {
		for _, key := range keys {
			for _, d := range ds {
				if d.group == "code" && d.key == key && !d.gone {
					return d
				}
			}
		}
		return nil
	}
	var files, folders []*difference
	for _, d := range ds {
		if d.group == "code" && strings.HasPrefix(d.key, "file ") && !d.gone {
			if strings.HasSuffix(d.key, "/*") {
				folders = append(folders, d)
			} else {
				files = append(files, d)
			}
		}
	}
	origin := find("engine_version", "engine_commit", "git_commit")
	if origin != nil {
		for _, key := range []string{"engine_commit", "git_commit", "git_branch"} {
			if d := find(key); d != nil {
				d.follow(origin)
			}
		}
		for _, d := range files {
			if d.allOurs() {
				d.follow(origin)
			}
		}
	}
	if dirty := find("git_dirty"); dirty != nil && len(files) > 0 {
		dirty.follow(files[0])
	}
	for _, folder := range folders {
		for _, f := range files {
			if strings.HasPrefix(f.key, strings.TrimSuffix(folder.key, "*")) {
				folder.follow(f)
			}
		}
		if origin != nil {
			folder.follow(origin)
		}
	}
	for _, key := range []string{"engine_files", "files_not_as_installed"} {
		d := find(key)
		if d == nil {
			continue
		}
		if origin != nil {
			d.follow(origin)
		}
		for _, cause := range slices.Concat(files, folders) {
			d.follow(cause)
		}
	}
}

// foldModels: what is known of a model's files follows from its fingerprint, and
// that from another path of it.
func foldModels(ds []*difference) {
	for _, m := range []struct{ prefix, flag string }{{"model_", "model-path"}, {"draft_", "speculative-draft-model-path"}} {
		var fingerprint *difference
		for _, d := range ds {
			if d.group == "workload" && d.key == m.prefix+"fingerprint" {
				fingerprint = d
			}
		}
		if fingerprint == nil {
			continue
		}
		for _, d := range ds {
			if d.group == "workload" && strings.HasPrefix(d.key, m.prefix) {
				d.follow(fingerprint)
			}
		}
		for _, d := range ds {
			if d.group == "flags" && ruleKey("flags", d.key) == m.flag {
				fingerprint.follow(d)
			}
		}
	}
}

// foldEchoes: an environment variable that differs and is repeated in what the
// server reports of its configuration.
func foldEchoes(ds []*difference) {
	for _, e := range ds {
		if e.group != "env" || len(e.key) < 4 {
			continue
		}
		name := ruleKey("flags", e.key)
		for _, d := range ds {
			if d.group != "flags" || strings.HasPrefix(d.key, askedPrefix) {
				continue
			}
			named := func(v string) bool { return strings.Contains(v, e.key) }
			if ruleKey("flags", d.key) == name || slices.ContainsFunc(d.a, named) || slices.ContainsFunc(d.b, named) {
				d.follow(e)
			}
		}
	}
}

// foldSameValues: the same two versions or paths under several keys are one
// difference, told under the key that matters most.
func foldSameValues(ds []*difference) {
	for i, d := range ds {
		for _, o := range ds[i+1:] {
			if d.gone || o.gone || !d.constant() || !d.sameValues(o) || !telling(d.left()) || !telling(d.right()) {
				continue
			}
			wd, _ := cause(d.group, d.key)
			wo, _ := cause(o.group, o.key)
			if wo > wd {
				d.follow(o)
			} else {
				o.follow(d)
			}
		}
	}
}

// telling says that a value is so particular that it occurs twice only because
// both are the same thing: a version with its parts, a path, a hash.
func telling(v string) bool {
	return v != absent && len(v) >= 5 && (strings.Contains(v, "/") || version.MatchString(v) || len(v) >= 32)
}

var version = regexp.MustCompile(`^v?\d+(\.\d+){1,}([.+~-]?[A-Za-z0-9][\w.+~-]*)?$`)

// foldArgv takes out of the command line what other differences have said: the
// words of flags and the interpreter. What is left is the difference. Of several
// command lines of a side, as cells have them, the words of all count.
func foldArgv(ds []*difference) {
	for _, d := range ds {
		if d.group != "command" || d.key != "argv" {
			continue
		}
		a, okA := readArgvs(d.a)
		b, okB := readArgvs(d.b)
		if !okA || !okB {
			continue
		}
		var cause *difference
		told := func(word string) bool {
			name, ok := flagName(word)
			if !ok {
				return false
			}
			for _, o := range ds {
				if o.group == "flags" && !o.gone && ruleKey("flags", o.key) == name {
					if cause == nil {
						cause = o
					}
					return true
				}
			}
			return false
		}
		interpreter := slices.IndexFunc(ds, func(o *difference) bool { return o.group == "code" && o.key == "python" })
		onlyA, onlyB := argvRest(a, b, told, interpreter >= 0)
		switch {
		case len(onlyA)+len(onlyB) > 0:
			d.a, d.b = []string{quoteWords(onlyA)}, []string{quoteWords(onlyB)}
			d.weight, d.why = argvWeight(onlyA, onlyB)
		case cause != nil:
			d.follow(cause)
		case interpreter >= 0:
			d.follow(ds[interpreter])
		default:
			d.weight, d.why = innocent, "the same words in another order"
		}
	}
}

func readArgvs(values []string) (all [][]string, ok bool) {
	for _, v := range values {
		argv, ok := readArgv(v)
		if !ok {
			return nil, false
		}
		all = append(all, argv)
	}
	return all, true
}

func readArgv(text string) (argv []string, ok bool) {
	err := json.Unmarshal([]byte(text), &argv)
	return argv, err == nil && len(argv) > 0
}

// flagName gives the name of a flag that a word of a command line is, in the
// spelling of the rules.
func flagName(word string) (string, bool) {
	if !strings.HasPrefix(word, "--") {
		return "", false
	}
	name, _, _ := strings.Cut(word, "=")
	return ruleKey("flags", name), true
}

// argvRest gives the words that only the command lines of one side have, each
// flag with its values as one, less what is told elsewhere.
func argvRest(a, b [][]string, told func(string) bool, otherInterpreter bool) (onlyA, onlyB []string) {
	pieces := func(all [][]string) (out []string) {
		for _, argv := range all {
			if otherInterpreter {
				argv = argv[1:]
			}
			for i := 0; i < len(argv); i++ {
				piece := argv[i]
				if strings.HasPrefix(piece, "--") && !strings.Contains(piece, "=") {
					for i+1 < len(argv) && !strings.HasPrefix(argv[i+1], "--") {
						i++
						piece += " " + argv[i]
					}
				}
				if !slices.Contains(out, piece) {
					out = append(out, piece)
				}
			}
		}
		return out
	}
	pa, pb := pieces(a), pieces(b)
	rest := func(from, other []string) (out []string) {
		for _, p := range from {
			word, _, _ := strings.Cut(p, " ")
			if !slices.Contains(other, p) && !told(word) {
				out = append(out, p)
			}
		}
		return out
	}
	return rest(pa, pb), rest(pb, pa)
}

// argvWeight is that of the weightiest flag among words of a command line.
func argvWeight(words ...[]string) (weight float64, why string) {
	weight = unknowns["command"]
	for _, w := range slices.Concat(words...) {
		word, _, _ := strings.Cut(w, " ")
		if name, ok := flagName(word); ok {
			if flag, reason := cause("flags", name); flag > weight {
				weight, why = flag, reason
			}
		}
	}
	return weight, why
}

func quoteWords(words []string) string {
	if len(words) == 0 {
		return absent
	}
	return strings.Join(words, " ")
}
