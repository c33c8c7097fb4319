package patches_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"specrun/patches"
)

// sample loads a patch of the given patch.yaml and the block of testdata/apply.
func sample(t testing.TB, manifest string) *patches.Patch {
	t.Helper()
	block, err := os.ReadFile("testdata/apply/block.py")
	if err != nil {
		t.Fatal(err)
	}
	p, err := patches.LoadDir(fstest.MapFS{"p/patch.yaml": {Data: []byte(manifest)}, "p/block.py": {Data: block}}, "p")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const appendManifest = `name: sample
version: "1"
summary: a sample block
targets:
  - path: /tmp/sample.py
    kind: append
    content: block.py
`

// Each NAME.patch with NAME.src gives NAME.out; HASH in .out stands for the
// content hash of the patch.
func TestApply_Triples(t *testing.T) {
	files, err := filepath.Glob("testdata/apply/*.patch")
	if err != nil || len(files) == 0 {
		t.Fatalf("no triples: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".patch")
		t.Run(name, func(t *testing.T) {
			read := func(ext string) []byte {
				b, err := os.ReadFile(strings.TrimSuffix(file, ".patch") + ext)
				if err != nil {
					t.Fatal(err)
				}
				return b
			}
			p := sample(t, string(read(".patch")))
			src := read(".src")
			want := bytes.ReplaceAll(read(".out"), []byte("HASH"), []byte(p.SHA256()))
			before := bytes.Clone(src)
			got, err := patches.Apply(p, p.Targets[0], src)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if !bytes.Equal(src, before) {
				t.Error("src was changed")
			}
			if _, err := patches.Apply(p, p.Targets[0], got); !errors.Is(err, patches.ErrAlreadyApplied) {
				t.Errorf("a second time: %v", err)
			}
			fences, err := patches.FindFence(got)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range fences {
				if !bytes.Equal(f.Cut(got), src) {
					t.Errorf("cutting the block gives %q", f.Cut(got))
				}
			}
			if isAppend := strings.HasPrefix(name, "append-"); isAppend != (len(fences) == 1) {
				t.Errorf("%d blocks", len(fences))
			}
		})
	}
}

func FuzzApplyAppend(f *testing.F) {
	for _, s := range []string{"", "a", "a\n", "a\r", "a\r\nb", "\xef\xbb\xbf", "\xff\xfe\x00", "# >>> specrun sample 1 sha256:", "# specrun: the file had no newline at its end\n", "\n\r\n\r"} {
		f.Add([]byte(s), true)
	}
	first := sample(f, appendManifest)
	second := sample(f, strings.Replace(appendManifest, "sample\n", "other\n", 1))
	f.Fuzz(func(t *testing.T, src []byte, swap bool) {
		a, b := first, second
		if swap {
			a, b = b, a
		}
		one, err := patches.Apply(a, a.Targets[0], src)
		if err != nil {
			return // src holds marks of its own
		}
		two, err := patches.Apply(b, b.Targets[0], one)
		if err != nil {
			t.Fatalf("the second patch: %v", err)
		}
		if !bytes.HasPrefix(one, src) || !bytes.HasPrefix(two, one) {
			t.Fatalf("the file's own bytes changed: %q", two)
		}
		for _, p := range []*patches.Patch{a, b} {
			if _, err := patches.Apply(p, p.Targets[0], two); !errors.Is(err, patches.ErrAlreadyApplied) {
				t.Fatalf("%s again: %v", p, err)
			}
		}
		fences, err := patches.FindFence(two)
		if err != nil || len(fences) < 2 {
			t.Fatalf("%d blocks, %v", len(fences), err)
		}
		last := len(fences) - 1
		if !bytes.Equal(fences[last].Cut(two), one) || !bytes.Equal(fences[last-1].Cut(one), src) {
			t.Fatalf("cutting the blocks does not give the file back")
		}
	})
}

func FuzzApplyEdits(f *testing.F) {
	p := sample(f, `name: sample
version: "1"
summary: edits
targets:
  - path: /tmp/x
    kind: edits
    edits:
      - {find: a, replace: "b\nc"}
      - {find: d, after: e}
      - {find: g, before: h}
`)
	for _, s := range []string{"a\nd\ng", "a\r\nd\r\ng\r\n", "\xef\xbb\xbfa\nd\nx\ng\n", "g\rd\ra", "a\na\nd\ng\n", "b\nc\nd\ng\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		out, err := patches.Apply(p, p.Targets[0], src)
		if err != nil {
			var c *patches.Conflict
			if !errors.As(err, &c) && !errors.Is(err, patches.ErrAlreadyApplied) {
				t.Fatal(err)
			}
			return
		}
		// Whatever stood between the anchors is there still, in order.
		// A byte order mark is no part of the first line: it stays where it is.
		bom := []byte("\xef\xbb\xbf")
		if bytes.HasPrefix(src, bom) != bytes.HasPrefix(out, bom) {
			t.Fatalf("the byte order mark changed: %q -> %q", src, out)
		}
		rest := out
		for _, line := range bytes.FieldsFunc(bytes.TrimPrefix(src, bom), func(r rune) bool { return r == '\n' || r == '\r' }) {
			if string(line) == "a" {
				continue
			}
			i := bytes.Index(rest, line)
			if i < 0 {
				t.Fatalf("%q is lost: %q -> %q", line, src, out)
			}
			rest = rest[i+len(line):]
		}
		if ends := func(b []byte) bool { return bytes.HasSuffix(b, []byte("\n")) || bytes.HasSuffix(b, []byte("\r")) }; ends(src) != ends(out) {
			t.Fatalf("the end of the file changed: %q -> %q", src, out)
		}
		// Where the new lines stood elsewhere before, nothing tells which are ours:
		// then it is refused with a conflict, and never applied twice.
		var unclear *patches.Conflict
		if _, err := patches.Apply(p, p.Targets[0], out); !errors.Is(err, patches.ErrAlreadyApplied) && !errors.As(err, &unclear) {
			t.Fatalf("a second time: %v on %q", err, out)
		}
	})
}

func TestApply_Conflicts(t *testing.T) {
	edits := func(edits string) string {
		return "name: sample\nversion: \"1\"\nsummary: edits\ntargets:\n  - module: a.b\n    kind: edits\n    edits:\n" + edits
	}
	block := func(t *testing.T) []byte {
		p := sample(t, appendManifest)
		out, err := patches.Apply(p, p.Targets[0], []byte("x = 1\n"))
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	cases := []struct {
		name, manifest string
		src            string
		want           []string
	}{
		{"anchor nowhere", edits("      - {find: \"    return x\", after: y}\n"), "def f():\n\treturn x\n",
			[]string{"a.b: sample 1 edit 1: its anchor of 1 lines matches nowhere", `line 2 (differs in white space only) "\treturn x"`}},
		{"anchor looks alike", edits("      - {find: return value_one, after: y}\n"), "x\nreturn value_two\n",
			[]string{`line 2 (looks like its first line) "return value_two"`}},
		{"anchor twice", edits("      - {find: x, after: y}\n"), "x\na\nx\n", []string{"matches 2 times", "line 1 (matches)", "line 3 (matches)"}},
		{"partly applied", edits("      - {find: x, replace: y}\n      - {find: b, replace: c}\n"), "y\nb\n", []string{"partly applied: edit 1 of 2 is there already"}},
		{"overlap", edits("      - {find: \"x\\nb\", replace: y}\n      - {find: b, replace: c}\n"), "x\nb\n", []string{"edit 2: it changes the same lines as edit 1"}},
		{"another version", strings.Replace(appendManifest, `"1"`, `"2"`, 1), string(block(t)), []string{"line 2 holds another version of it (1, sha256:"}},
		{"block changed", appendManifest, strings.Replace(string(block(t)), "True", "False", 1), []string{"block from line 2 on was changed by hand"}},
		{"block cut off", appendManifest, strings.Replace(string(block(t)), "# <<< specrun sample <<<\n", "", 1), []string{"damaged block", "line 2: block of sample begins here but does not end"}},
		{"end without start", appendManifest, "x\n# <<< specrun sample <<<\n", []string{"line 2: block of sample ends here but does not begin"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := sample(t, c.manifest)
			_, err := patches.Apply(p, p.Targets[0], []byte(c.src))
			var conflict *patches.Conflict
			if !errors.As(err, &conflict) || conflict.Hint() == "" {
				t.Fatalf("got %v", err)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%v\nlacks %q", err, w)
				}
			}
		})
	}
}

func TestStack_DerivesAFileFromPristineAndTheLayersLeft(t *testing.T) {
	pristine := []byte("x = 1")
	a := sample(t, appendManifest)
	b := sample(t, strings.Replace(appendManifest, "sample\n", "other\n", 1))
	layers := []patches.Layer{{Patch: a, Target: a.Targets[0]}, {Patch: b, Target: b.Targets[0]}}
	both, err := patches.Stack(pristine, layers)
	if err != nil {
		t.Fatal(err)
	}
	fences, err := patches.FindFence(both)
	if err != nil || len(fences) != 2 || fences[0].Name != "sample" || fences[1].Name != "other" || fences[1].SHA256 != b.SHA256() {
		t.Fatalf("%+v, %v", fences, err)
	}
	onlyB, err := patches.Stack(pristine, layers[1:])
	if err != nil {
		t.Fatal(err)
	}
	direct, err := patches.Apply(b, b.Targets[0], pristine)
	if err != nil || !bytes.Equal(onlyB, direct) {
		t.Errorf("%q, %v; want %q", onlyB, err, direct)
	}
	if none, err := patches.Stack(pristine, nil); err != nil || !bytes.Equal(none, pristine) {
		t.Errorf("%q, %v", none, err)
	}
	var c *patches.Conflict
	if _, err := patches.Stack(pristine, append(layers, layers[0])); !errors.As(err, &c) {
		t.Errorf("the same layer twice: %v", err)
	}
}
