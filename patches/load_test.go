package patches_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"specrun/patches"
)

func TestLoadDir_FaultsNameFileLineAndColumn(t *testing.T) {
	cases := []struct{ name, manifest, want, hint string }{
		{"unknown key", "name: a\nversion: 1\nsumary: x\n", `p/patch.yaml:3:1: unknown key "sumary" in a patch`, `did you mean "summary"?`},
		{"unknown key in a target", strings.Replace(appendManifest, "kind:", "kin:", 1), `p/patch.yaml:6:5: unknown key "kin" in a target`, `did you mean "kind"?`},
		{"missing key", "name: a\nversion: 1\n", `p/patch.yaml:1:1: a patch needs "summary"`, ""},
		{"key twice", "name: a\nname: b\n", `p/patch.yaml:2:1: key "name" stands twice`, ""},
		{"wrong type", "name: [a]\nversion: 1\nsummary: x\ntargets: []\n", `p/patch.yaml:1:7: name must be text, not a list`, ""},
		{"no target", "name: a\nversion: 1\nsummary: x\ntargets: []\n", `p/patch.yaml:4:10: a patch needs at least one target`, ""},
		{"bad name", strings.Replace(appendManifest, "sample\n", "Sam ple\n", 1), `p/patch.yaml:1:7: name is "Sam ple"`, ""},
		{"bad probe", "probe: heavy\n" + appendManifest, `p/patch.yaml:1:8: probe is "heavy"; it must be one of none, light, events, sync`, ""},
		{"near probe", "probe: synch\n" + appendManifest, `p/patch.yaml:1:8: probe is "synch"`, `did you mean "sync"?`},
		{"later kind", strings.Replace(appendManifest, "kind: append", "kind: diff", 1), `p/patch.yaml:6:11: kind "diff" is not supported by this version`, ""},
		{"unknown kind", strings.Replace(appendManifest, "kind: append", "kind: apend", 1), `p/patch.yaml:6:11: kind is "apend"`, `did you mean "append"?`},
		{"both module and path", strings.Replace(appendManifest, "kind:", "module: a.b\n    kind:", 1), `p/patch.yaml:5:5: a target needs either module or path`, ""},
		{"relative path", strings.Replace(appendManifest, "/tmp/", "", 1), `p/patch.yaml:5:11: path must begin with / or ~/`, ""},
		{"no such file", strings.Replace(appendManifest, "block.py", "blok.py", 1), `p/patch.yaml:7:14: content file blok.py: there is no such file in the patch`, ""},
		{"file outside", strings.Replace(appendManifest, "block.py", "../../block.py", 1), `p/patch.yaml:7:14: content file ../../block.py: it leaves the folder`, ""},
		{"not ascii", strings.Replace(appendManifest, "block.py", "latin.py", 1), `content file latin.py: line 2 holds a byte that is not plain ASCII`, ""},
		{"no newline", strings.Replace(appendManifest, "block.py", "cut.py", 1), `content file cut.py must end with a newline`, ""},
		{"marks inside", strings.Replace(appendManifest, "block.py", "marks.py", 1), `content file marks.py holds the marks`, ""},
		{"content of edits", strings.Replace(appendManifest, "kind: append", "kind: edits", 1), `p/patch.yaml:7:14: "content" does not belong to kind edits`, ""},
		{"yaml syntax", "name: [\n", `p/patch.yaml:`, ""},
		{"empty", "", `p/patch.yaml:1:1: the file is empty`, ""},
		{"two actions", editsOf("{find: a, before: b, after: c}"), `one of replace, before, after`, ""},
		{"no action", editsOf("{find: a}"), `p/patch.yaml:8:9: an edit needs one of`, ""},
		{"nothing put in", editsOf(`{find: a, replace: ""}`), `replace must hold at least one line`, ""},
		{"no change", editsOf(`{find: a, replace: a}`), `the edit changes nothing`, ""},
		{"same anchor", editsOf("{find: a, after: b}\n      - {find: a, after: c}"), `p/patch.yaml:9:9: the edit in line 8 has the same anchor`, ""},
		{"requirement", strings.Replace(appendManifest, "kind:", "requires: [{methods: [x]}]\n    kind:", 1), `a requirement needs either class or function`, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			fs := fstest.MapFS{
				"p/patch.yaml": {Data: []byte(c.manifest)},
				"p/block.py":   {Data: []byte("x = 1\n")},
				"p/latin.py":   {Data: []byte("x = 1\ns = '\xe9'\n")},
				"p/cut.py":     {Data: []byte("x = 1")},
				"p/marks.py":   {Data: []byte("# <<< specrun sample <<<\n")},
			}
			_, err := patches.LoadDir(fs, "p")
			var fault *patches.LoadError
			if !errors.As(err, &fault) {
				t.Fatalf("got %v", err)
			}
			if !strings.Contains(err.Error(), c.want) || fault.Hint() != c.hint {
				t.Errorf("got %v (%s)\nwant %s (%s)", err, fault.Hint(), c.want, c.hint)
			}
		})
	}
}

func editsOf(list string) string {
	return "name: sample\nversion: \"1\"\nsummary: edits\ntargets:\n  - path: /tmp/x\n    kind: edits\n    edits:\n      - " + list + "\n"
}

func TestMarshal_IsCanonicalAndComplete(t *testing.T) {
	ps, err := patches.Library()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, p := range ps {
		blob, err := p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		back, err := patches.Unmarshal(blob)
		if err != nil {
			t.Fatal(err)
		}
		again, err := back.Marshal()
		if err != nil || !bytes.Equal(blob, again) || back.SHA256() != p.SHA256() {
			t.Errorf("%s: the blob changes on its way: %v", p, err)
		}
		for i, target := range p.Targets {
			want, err := patches.Apply(p, target, []byte("x = 1\n"))
			if err != nil {
				t.Fatal(err)
			}
			got, err := patches.Apply(back, back.Targets[i], []byte("x = 1\n"))
			if err != nil || !bytes.Equal(want, got) {
				t.Errorf("%s applies another block after its way: %v", p, err)
			}
		}
		if seen[p.SHA256()] {
			t.Errorf("%s has the hash of another patch", p)
		}
		seen[p.SHA256()] = true
	}
	for _, bad := range []string{"", "{}", `{"specrun_patch":9}`, `{"specrun_patch":1,"manifest":"","files":{}}`, `{"specrun_patch":1,"more":1}`} {
		if _, err := patches.Unmarshal([]byte(bad)); err == nil {
			t.Errorf("%q is read as a patch", bad)
		}
	}
}

func TestSHA256_ChangesWithAnyByte(t *testing.T) {
	load := func(manifest, block string) string {
		p, err := patches.LoadDir(fstest.MapFS{"patch.yaml": {Data: []byte(manifest)}, "block.py": {Data: []byte(block)}}, ".")
		if err != nil {
			t.Fatal(err)
		}
		return p.SHA256()
	}
	base := load(appendManifest, "x = 1\n")
	if base != load(appendManifest, "x = 1\n") || base == load(appendManifest, "x = 2\n") || base == load(appendManifest+"# more\n", "x = 1\n") {
		t.Error("the hash is not the content's")
	}
}

func TestLookup(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "mine")
	if err := os.MkdirAll(own, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"patch.yaml": strings.Replace(appendManifest, "sample\n", "mine\n", 1), "block.py": "x = 1\n"} {
		if err := os.WriteFile(filepath.Join(own, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"mine", own, "profiling-v4"} {
		if p, err := patches.Lookup(name, filepath.Join(dir, "none"), dir); err != nil || p.Name != filepath.Base(name) {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
	_, err := patches.Lookup("profiling-v5x", dir)
	var nf *patches.NotFoundError
	if !errors.As(err, &nf) || len(nf.Nearest) == 0 || !strings.HasPrefix(nf.Nearest[0], "profiling-v") || !strings.Contains(nf.Hint(), "did you mean") {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(filepath.Join(own, "patch.yaml"), []byte("nam: x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := patches.Lookup("mine", dir); err == nil || !strings.HasPrefix(err.Error(), filepath.Join(own, "patch.yaml")+":1:1: ") {
		t.Errorf("got %v", err)
	}
	if _, err := patches.Lookup("./"); err == nil || !strings.Contains(err.Error(), "not a patch folder") {
		t.Errorf("got %v", err)
	}
}

func TestCheck(t *testing.T) {
	target := func(requires string) patches.Target {
		return sample(t, strings.Replace(appendManifest, "kind:", "requires: ["+requires+"]\n    kind:", 1)).Targets[0]
	}
	o := patches.Outline{SyntaxOK: true, Functions: []string{"helper"}, Classes: map[string]patches.Class{
		"Base":   {Methods: []string{"draft"}},
		"Worker": {Bases: []string{"Base", "elsewhere.Other"}, Methods: []string{"verify", "forward"}},
	}}
	for _, c := range []struct{ requires, missing string }{
		{"{class: Worker, methods: [verify, draft]}", ""},
		{"{class: Worker, methods: [verify, old_forward|forward]}", ""},
		{"{class: Drafter|Worker, methods: [draft]}", ""},
		{"{class: Drafter, methods: [draft], optional: true}", ""},
		{"{function: helper|other}", ""},
		{"{class: Worker, methods: [verify, extend]}, {class: Drafter}, {function: main}", "/tmp/sample.py has no method Worker.extend, no class Drafter, no function main"},
	} {
		err := target(c.requires).Check(o)
		if c.missing == "" && err != nil {
			t.Errorf("%s: %v", c.requires, err)
		}
		var unmet *patches.UnmetError
		if c.missing != "" && (!errors.As(err, &unmet) || err.Error() != c.missing || !strings.Contains(unmet.Hint(), "Base, Worker")) {
			t.Errorf("%s: %v", c.requires, err)
		}
	}
	var c *patches.Conflict
	if err := target("{class: Worker}").Check(patches.Outline{}); !errors.As(err, &c) {
		t.Errorf("a file that does not parse: %v", err)
	}
}
