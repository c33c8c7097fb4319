package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets scripts run "specrun" as a program of its own: this test binary
// behind the name.
func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){
		"specrun": main,
	})
}

// sharedFolder names a folder for what is made once for all tests.
const sharedFolder = "SPECRUN_TEST_SHARED"

type tests struct{ *testing.M }

func (m tests) Run() int {
	dir, err := os.MkdirTemp("", "specrun-shared-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = os.Setenv(sharedFolder, dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.M.Run()
}

// TestScripts runs testdata/script against the real command tree, each script
// with its own home, no ssh agent and nothing of the user's.
func TestScripts(t *testing.T) {
	testscript.Run(t, scriptParams("testdata/script"))
}

func scriptParams(dir string) testscript.Params {
	return testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(e *testscript.Env) error {
			home := filepath.Join(e.WorkDir, "home")
			if err := os.MkdirAll(home, 0o700); err != nil {
				return err
			}
			e.Setenv("HOME", home)
			e.Setenv("XDG_CONFIG_HOME", filepath.Join(home, ".config"))
			e.Setenv("XDG_DATA_HOME", filepath.Join(home, ".local", "share"))
			e.Setenv("XDG_STATE_HOME", filepath.Join(home, ".local", "state"))
			e.Setenv("SSH_AUTH_SOCK", "")
			e.Setenv("SPECRUN_STORE", "")
			// Under -race each end of a program else waits a second for reports
			// of other threads; the end of a command has joined its own.
			e.Setenv("GORACE", "atexit_sleep_ms=0")
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exitcode": cmdExitCode,
			"sweeps":   cmdSweeps,
		},
	}
}

// cmdExitCode runs "exitcode N program args...": the program must end with N.
func cmdExitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exitcode N program args...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("%s: exit %s, want %s", strings.Join(args[1:], " "), got, args[0])
	}
}

// TestDocumentedCommandsAreRun fails when README or docs show a specrun command
// that no script runs.
func TestDocumentedCommandsAreRun(t *testing.T) {
	var scripts strings.Builder
	for _, pattern := range []string{"testdata/script/*.txtar", "testdata/integration/*.txtar"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			scripts.Write(b)
		}
	}
	docs, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range append(docs, "../../README.md") {
		b, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for n, command := range shownCommands(string(b)) {
			if !strings.Contains(scripts.String(), command) {
				t.Errorf("%s shows %q (command %d), which no script in testdata runs", filepath.Base(doc), command, n+1)
			}
		}
	}
}

// shownCommands returns the specrun commands in the fenced sh and console
// blocks of a Markdown text, without prompt and trailing comment.
func shownCommands(text string) []string {
	var commands []string
	inside := false
	for _, line := range strings.Split(text, "\n") {
		if fence, ok := strings.CutPrefix(line, "```"); ok {
			inside = !inside && (fence == "sh" || fence == "console")
			continue
		}
		line = strings.TrimPrefix(strings.TrimSpace(line), "$ ")
		if !inside || !strings.HasPrefix(line, "specrun ") {
			continue
		}
		line, _, _ = strings.Cut(line, "  #")
		commands = append(commands, strings.TrimSpace(line))
	}
	return commands
}
