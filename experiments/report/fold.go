package report

import (
	"regexp"
	"slices"
	"strings"

	"specrun/experiments/record"
)

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
