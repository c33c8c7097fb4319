//go:build integration

package patches_test

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"specrun/patches"
	"specrun/patches/wheels"
)

// outlineOf makes the outline of a file with python3, which also says whether
// the file compiles.
func outlineOf(t testing.TB, src []byte) patches.Outline {
	t.Helper()
	cmd := exec.Command("python3", "-I", "-S", "-c", `
import ast, json, sys
tree = ast.parse(sys.stdin.buffer.read())
compile(tree, "file", "exec")
print(json.dumps({"syntax_ok": True,
  "functions": [n.name for n in tree.body if isinstance(n, ast.FunctionDef)],
  "classes": {n.name: {"bases": [ast.unparse(b) for b in n.bases], "methods": [m.name for m in n.body if isinstance(m, ast.FunctionDef)]}
    for n in tree.body if isinstance(n, ast.ClassDef)}}))`)
	cmd.Stdin = bytes.NewReader(src)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	var o patches.Outline
	if err := json.Unmarshal(out, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// Every release has at least one target of each profiler; those that it has
// fulfil what the target requires, compile when patched, alone and stacked,
// and come back byte for byte.
func TestLibrary_FitsReleases(t *testing.T) {
	lib, err := patches.Library()
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range wheels.Versions() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			found := 0
			for i := range lib[0].Targets {
				src := wheels.File(t, version, strings.ReplaceAll(lib[0].Targets[i].Module, ".", "/")+".py")
				if src == nil {
					continue
				}
				found++
				outline := outlineOf(t, src)
				var layers []patches.Layer
				for _, p := range lib {
					target := p.Targets[i]
					if target.Module != lib[0].Targets[i].Module {
						t.Fatalf("%s has its targets in another order", p)
					}
					if err := target.Check(outline); err != nil {
						t.Errorf("%s: %v", p, err)
					}
					out, err := patches.Apply(p, target, src)
					if err != nil {
						t.Fatal(err)
					}
					outlineOf(t, out)
					fences, err := patches.FindFence(out)
					if err != nil || len(fences) != 1 || !bytes.Equal(fences[0].Cut(out), src) {
						t.Errorf("%s: the block cannot be cut out again: %v", p, err)
					}
					layers = append(layers, patches.Layer{Patch: p, Target: target})
				}
				stacked, err := patches.Stack(src, layers)
				if err != nil {
					t.Fatal(err)
				}
				outlineOf(t, stacked)
			}
			if found == 0 {
				t.Error("no target is in the release")
			}
		})
	}
}
