package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each type of JSON line that a command prints is in docs/json.md.
func TestJSONTypesAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	printed := regexp.MustCompile(`\.line\("([a-z_]+)"`)
	types := map[string]bool{}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range printed.FindAllStringSubmatch(string(b), -1) {
			types[m[1]] = true
		}
	}
	if len(types) < 20 {
		t.Fatalf("only %d types were found: does the printer have another name now?", len(types))
	}
	for name := range types {
		if !strings.Contains(string(doc), "`"+name+"`") {
			t.Errorf("docs/json.md says nothing of the type %s", name)
		}
	}
}
