//go:build integration || soak

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"specrun/experiments/lab"
)

// TestIntegrationScripts runs testdata/integration with a really built specrun,
// since a copy of it is pushed to the practice host and runs there.
func TestIntegrationScripts(t *testing.T) {
	t.Parallel()
	bin := buildSpecrun(t)
	p := scriptParams("testdata/integration")
	setup := p.Setup
	p.Setup = func(e *testscript.Env) error {
		if err := setup(e); err != nil {
			return err
		}
		e.Setenv("PATH", filepath.Dir(bin)+string(os.PathListSeparator)+e.Getenv("PATH"))
		// One lab a script, ended with it even when the script fails.
		dir := filepath.Join(e.WorkDir, "lab")
		e.Setenv("SPECRUN_LAB", dir)
		e.Defer(func() {
			if _, err := lab.Stop(t.Context(), dir); err != nil {
				t.Errorf("stop the practice host: %v", err)
			}
		})
		return nil
	}
	p.Cmds["labhosts"] = cmdLabHosts
	p.Cmds["labspec"] = cmdLabSpec
	p.Cmds["waitlease"] = cmdWaitLease
	p.Cmds["waitlog"] = cmdWaitLog
	p.Cmds["markhost"] = cmdMarkHost
	p.Cmds["podman-store"] = cmdPodman(t)
	p.Cmds["labcontainer"] = cmdLabContainer
	p.Cmds["containerhost"] = cmdContainerHost
	p.Cmds["userunit"] = cmdUserUnit
	p.Cmds["launcherspec"] = cmdLauncherSpec
	testscript.Run(t, p)
}

// built is the program as users have it, built for the first test that asks.
var built = sync.OnceValues(func() (string, error) {
	bin := filepath.Join(os.Getenv(sharedFolder), "specrun")
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", bin, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build specrun: %w\n%s", err, out)
	}
	return bin, nil
})

func buildSpecrun(t *testing.T) string {
	t.Helper()
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// cmdLabHosts runs "labhosts NAME FILE": it writes a hosts file in which NAME is
// the running practice host, reached as any other host is.
func cmdLabHosts(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: labhosts NAME FILE")
	}
	ts.Check(ts.Exec("specrun", "lab", "status", "--json"))
	var running struct{ Host lab.Host }
	line, _, _ := strings.Cut(ts.ReadFile("stdout"), "\n")
	ts.Check(json.Unmarshal([]byte(line), &running))
	h := running.Host
	text := fmt.Sprintf("hosts:\n  %s:\n    address: %q\n    user: %q\n    port: %d\n    identity_file: %q\n    known_hosts: %q\n    python: %q\n    state_dir: %q\n    cwd: %q\n    env:\n",
		args[0], h.Address, h.User, h.Port, h.IdentityFile, h.KnownHosts, h.Python, h.StateDir, h.Cwd)
	for _, k := range sortedKeys(h.Env) {
		text += fmt.Sprintf("      %s: %q\n", k, h.Env[k])
	}
	if len(h.Env) == 0 {
		text = strings.TrimSuffix(text, "    env:\n")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o600))
}

// cmdLabSpec runs "labspec FILE": it writes the practice host's experiment, with
// one launch of each cell.
func cmdLabSpec(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: labspec FILE")
	}
	text := strings.Replace(string(lab.Spec()), "rounds: 3\n", "rounds: 1\n", 1)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

// cmdWaitLog runs "waitlog": it follows the log of the launch in progress to its
// end, through the id of the only sweep there is.
func cmdWaitLog(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: waitlog")
	}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if ts.Exec("specrun", "list", "--json") != nil { // no store yet
			continue
		}
		var sweep struct{ ID string }
		line, _, _ := strings.Cut(ts.ReadFile("stdout"), "\n")
		if json.Unmarshal([]byte(line), &sweep) != nil || sweep.ID == "" {
			continue
		}
		if ts.Exec("specrun", "logs", sweep.ID, "--follow") != nil { // no server yet
			continue
		}
		if !strings.Contains(ts.ReadFile("stdout"), "fired up and ready to roll") {
			ts.Fatalf("the log that was followed ends early:\n%s", ts.ReadFile("stdout"))
		}
		return
	}
	ts.Fatalf("no log of a launch in progress: %s", ts.ReadFile("stderr"))
}

// cmdWaitLease runs "waitlease HOST [TEXT]": it returns when a sweep holds the host's
// patch set, or when TEXT is among the leases.
func cmdWaitLease(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: waitlease HOST [TEXT]")
	}
	text := "patches-"
	if len(args) == 2 {
		text = args[1]
	}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		ts.Check(ts.Exec("specrun", "lock", "status", "--host", args[0]))
		if strings.Contains(ts.ReadFile("stdout"), text) {
			return
		}
	}
	ts.Fatalf("no lease on %s says %q", args[0], text)
}

// cmdMarkHost runs "markhost HOST LAUNCH": it marks the practice host as a stop does
// that could not be proved.
func cmdMarkHost(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: markhost HOST LAUNCH")
	}
	ts.Check(ts.Exec("specrun", "lab", "status", "--json"))
	var running struct{ Host lab.Host }
	line, _, _ := strings.Cut(ts.ReadFile("stdout"), "\n")
	ts.Check(json.Unmarshal([]byte(line), &running))
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	ts.Check(err)
	dir := filepath.Join(running.Host.StateDir, "mark")
	ts.Check(os.MkdirAll(dir, 0o700))
	text := fmt.Sprintf("when %d\nboot %sleft 5 D nv_wait python -m x\nport 30000\n", time.Now().Unix(), boot)
	ts.Check(os.WriteFile(filepath.Join(dir, args[1]), []byte(text), 0o600))
}
