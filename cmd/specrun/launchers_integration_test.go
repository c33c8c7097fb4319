//go:build integration || soak

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"specrun/experiments/lab"
	"specrun/remote/remotetest"
)

// cmdPodman runs "podman-store": from there on podman, here and in the sessions of
// a practice host that is started afterwards, has a store of the test's own.
func cmdPodman(t *testing.T) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		// A program of that name: sessions of the practice host have its PATH, and
		// an environment of their own.
		podman, err := exec.LookPath("podman")
		ts.Check(err)
		dir := ts.MkAbs("podman")
		ts.Check(os.MkdirAll(dir, 0o700))
		script := "#!/bin/sh\nexport " + strings.Join(remotetest.StartPodman(t).Env, " ") + "\nexec " + podman + " \"$@\"\n"
		ts.Check(os.WriteFile(filepath.Join(dir, "podman"), []byte(script), 0o700))
		ts.Setenv("PATH", dir+string(os.PathListSeparator)+ts.Getenv("PATH"))
	}
}

// cmdLabContainer runs "labcontainer NAME IMAGE": it puts what the practice host
// serves with into a new container NAME without a network, at the same paths, and
// keeps it as IMAGE, too.
func cmdLabContainer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: labcontainer NAME IMAGE")
	}
	name, image := args[0], args[1]
	dir := ts.Getenv("SPECRUN_LAB")
	run := append([]string{"run", "-d", "--name", name, "--network", "none"}, remotetest.HostMounts()...)
	ts.Check(ts.Exec("podman", append(run, remotetest.HostImage, "/bin/sh", "-c", "while :; do sleep 3600 & wait $!; done")...))
	ts.Check(ts.Exec("podman", "exec", name, "mkdir", "-p", dir))
	for _, part := range []string{"venv", "home", "settings.json"} {
		ts.Check(ts.Exec("podman", "cp", filepath.Join(dir, part), name+":"+dir+"/"))
	}
	ts.Check(ts.Exec("podman", "commit", "-q", name, image))
}

// cmdContainerHost runs "containerhost NAME OF CONTAINER FILE": it adds to a hosts
// file the container as a host, reached as OF is.
func cmdContainerHost(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: containerhost NAME OF CONTAINER FILE")
	}
	file := ts.MkAbs(args[3])
	text := ts.ReadFile(args[3])
	_, entry, found := strings.Cut(text, "  "+args[1]+":\n")
	if !found {
		ts.Fatalf("no host %s in %s", args[1], args[3])
	}
	var lines []string
	for line := range strings.Lines(entry) {
		if !strings.Contains(line, "state_dir:") { // its own, inside
			lines = append(lines, line)
		}
	}
	text += "  " + args[0] + ":\n    container: " + args[2] + "\n" + strings.Join(lines, "")
	ts.Check(os.WriteFile(file, []byte(text), 0o600))
}

// cmdUserUnit runs "userunit NAME": a service manager of the test's own for the
// user's units, in place of systemd, which the machine need not have; NAME is one
// of them. Real systemd has a test of its own (make test-launchers).
func cmdUserUnit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: userunit NAME")
	}
	dir := ts.MkAbs("manager")
	ts.Check(os.MkdirAll(dir, 0o700))
	fake, err := filepath.Abs("../../deploy/server/testdata")
	ts.Check(err)
	ts.Setenv("FAKE_SYSTEMD", dir)
	ts.Setenv("XDG_RUNTIME_DIR", ts.MkAbs("runtime"))
	ts.Setenv("PATH", fake+string(os.PathListSeparator)+ts.Getenv("PATH"))
	ts.Check(os.WriteFile(filepath.Join(dir, args[0]), []byte("[Service]\nType=notify\nRestart=always\nExecStart=/bin/false\n"), 0o600))
}

// cmdLauncherSpec runs "launcherspec FILE KEY: VALUE ...": the practice experiment with these
// lines in the place of launch:.
func cmdLauncherSpec(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: launcherspec FILE LINE...")
	}
	text := strings.Replace(string(lab.Spec()), "  launch: process\n", "  "+strings.Join(args[1:], "\n  ")+"\n", 1)
	text = strings.Replace(text, "hosts: [lab]\n", "", 1)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}
