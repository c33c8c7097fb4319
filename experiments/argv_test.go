package experiments

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPlan_CommandsGiveTheArgvOfTheServer pastes a planned command into a shell:
// what the server would get is what the spec says, byte for byte.
func TestPlan_CommandsGiveTheArgvOfTheServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	python := filepath.Join(dir, "my python")
	if err := os.WriteFile(python, []byte("#!/bin/sh\nprintf '%s\\0' \"$0\" \"$@\" \"env:$NCCL_PROTO\" \"cwd:$(pwd)\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	src := `version: 1
name: flags
server:
  engine: sglang
  python: "` + python + `"
  cwd: "` + dir + `"
  flags:
    mem-fraction-static: 0.90
    a-octal: 08
    a-exponent: 1e-3
    a-word: on
    a-bare: true
    a-false: false
    a-null: null
    a-true-text: "true"
    a-param: ${frac}
    a-escape: "$${HOME}"
    a-list: [1, 02, "two words", "it's"]
    a-repeat: {repeat: [x, "-y"]}
    a-join: {join: ":", values: [1.50, b]}
    a-map: {method: eagle3, n: 3, f: 0.50, deep: {x: [null, false, "a b"]}}
    a-dash: -1
    a-hard: "quote' \"double\" $HOME ` + "`x`" + ` \\ back\nnew line"
    a-empty: ""
  args: ["--last", "*", ""]
  env: {NCCL_PROTO: "L L'\n"}
params: {frac: {default: 0.50}}
`
	s, err := LoadSpec("flags.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	eng, err := Engines("sglang")
	if err != nil {
		t.Fatal(err)
	}
	e, err := Resolve(s, Options{Single: true, Host: HostConfig{Name: "h"}, Renderer: eng})
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPlan(e)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("/bin/sh", "-c", p.Launches[0].Command).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, p.Launches[0].Command)
	}
	got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	want := []string{python, "-m", "sglang.launch_server",
		"--mem-fraction-static", "0.90", "--a-octal", "08", "--a-exponent", "1e-3", "--a-word", "on", "--a-bare", "--a-true-text", "true",
		"--a-param", "0.50", "--a-escape", "${HOME}", "--a-list", "1", "02", "two words", "it's", "--a-repeat", "x", "--a-repeat=-y",
		"--a-join", "1.50:b", "--a-map", `{"method":"eagle3","n":3,"f":0.50,"deep":{"x":[null,false,"a b"]}}`, "--a-dash=-1",
		"--a-hard", "quote' \"double\" $HOME `x` \\ back\nnew line", "--a-empty", "", "--port", "30000", "--last", "*", ""}
	if diff := cmp.Diff(slices.Concat(want, []string{"env:L L'\n", "cwd:" + dir}), got); diff != "" {
		t.Error(diff)
	}
	// And the executor starts that very argv.
	words, err := argv(eng, p.Cells[0].Server, 30000)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, words); diff != "" {
		t.Error(diff)
	}
}
