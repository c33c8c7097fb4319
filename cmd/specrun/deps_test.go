package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// allowed is the import table of the design: which packages of this module a
// package may import. A package that is missing here may import none, so a new
// one has to be placed first.
var allowed = map[string][]string{
	"cmd/specrun": {"*"},

	"remote":             {},
	"remote/loopback":    {"remote"},
	"remote/remotetest":  {"remote", "remote/loopback"},
	"patches":            {"internal/edit", "internal/yamlplace"},
	"patches/library":    {},
	"patches/wheels":     {},
	"configs":            {"remote", "internal/edit", "internal/yamlplace"},
	"internal/edit":      {},
	"internal/yamlplace": {},

	"deploy":        {"patches", "remote"},
	"deploy/server": {"remote"},

	"experiments/record":  {},
	"experiments/metrics": {"experiments/record"},
	"experiments/trust":   {"experiments/record"},
	"experiments/stats":   {"experiments/record"},
	"experiments/engine":  {"experiments/record", "experiments/metrics", "deploy/server", "internal/edit"},
	"experiments/bench":   {"experiments/record", "experiments/metrics", "remote"},
	"experiments/store":   {"experiments/record"},
	"experiments/report":  {"experiments/record", "experiments/stats"},
	"experiments/lab":     {"remote/loopback"},
	"experiments/detach":  {"experiments", "experiments/bench", "experiments/record", "patches", "remote"},
	"experiments/origin":  {"experiments"},
	"experiments": {"experiments/record", "experiments/engine", "experiments/metrics",
		"experiments/bench", "experiments/trust", "experiments/stats",
		"deploy", "deploy/server", "patches", "remote", "internal/edit"},
}

// testOnly are packages that only tests may import.
var testOnly = []string{"remote/remotetest", "patches/wheels", "experiments/recordertest", "experiments/metrics/metricstest", "internal/tier"}

func TestImportsFollowTheDesign(t *testing.T) {
	root := "../.."
	seen := map[string]bool{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && file != root || d.Name() == "testdata" || d.Name() == "dist") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		pkg := path.Dir(filepath.ToSlash(rel))
		seen[pkg] = true
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, imp := range f.Imports {
			target, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				return err
			}
			target, ours := strings.CutPrefix(target, "specrun/")
			if !ours || slices.Contains(allowed[pkg], "*") && !slices.Contains(testOnly, target) {
				continue
			}
			if !slices.Contains(allowed[pkg], target) && !(slices.Contains(testOnly, pkg)) {
				t.Errorf("%s imports %s: not in the import table (design: one flow, one direction)", rel, target)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range allowed {
		if !seen[pkg] && !slices.Contains(testOnly, pkg) && pkg != "patches/library" {
			t.Errorf("the import table names %s, which does not exist", pkg)
		}
	}
}
