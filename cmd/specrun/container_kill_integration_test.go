//go:build integration || soak

package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"specrun/experiments/lab"
	"specrun/internal/tier"
	"specrun/remote/remotetest"
)

// TestContainers_KillAndResume ends specrun by SIGKILL while its server is in a
// container; resume has every run once, and nothing is left anywhere.
func TestContainers_KillAndResume(t *testing.T) {
	t.Parallel()
	bin := buildSpecrun(t)
	u := newUser(t, bin)
	settings, err := lab.DefaultSettings()
	must(t, err)
	fast(&settings)
	text, err := json.Marshal(settings)
	must(t, err)
	u.stopLabAtTheEnd()
	// The one that the container's programs have, too.
	first, _, _ := strings.Cut(u.does(0, "lab", "start", "--json", "--settings", u.write("settings.json", string(text)), "--python", "/usr/bin/python3").stdout, "\n")
	var running lab.Running
	must(t, json.Unmarshal([]byte(first), &running))
	h := running.Host
	p := remotetest.StartPodman(t)
	// The engine of the practice host, at the same paths inside.
	dir := filepath.Dir(h.Cwd)
	engine := p.Start("--network", "none")
	p.Run("exec", engine, "mkdir", "-p", dir)
	for _, part := range []string{"venv", "home", "settings.json"} {
		p.Run("cp", filepath.Join(dir, part), engine+":"+dir+"/")
	}
	p.Run("commit", "-q", engine, "localhost/engine:1")
	engineFiles := "cd " + dir + "/venv && find . -type f ! -name '*.pyc' | sort | xargs sha256sum"
	before := p.Run("exec", engine, "sh", "-c", engineFiles)

	own, err := json.Marshal(append([]string{"--network", "host"}, remotetest.HostMounts()...))
	if err != nil {
		t.Fatal(err)
	}
	ownContainer := `{image: "localhost/engine:1", args: ` + string(own) + `}`
	const started, measured = "the server is started", "the first run is done"
	kills := []struct{ name, container, moment string }{
		{"named", engine, started}, {"own", ownContainer, measured}, {"named", engine, measured}, {"own", ownContainer, started},
	}
	for _, k := range kills[:len(kills)/tier.Stride(4)] {
		container, moment := k.container, k.moment
		t.Run(k.name+", "+moment, func(t *testing.T) {
			work := t.TempDir()
			spec := strings.Replace(string(lab.Spec()), "  launch: process\n", "  launch: podman\n  container: "+container+"\n  python: "+h.Python+"\n  cwd: "+h.Cwd+"\n", 1)
			spec = strings.Replace(spec, "env: {", "env: { SPECRUN_LAB_SETTINGS: "+dir+"/settings.json,", 1)
			if err := os.WriteFile(work+"/specrun.yaml", []byte(spec), 0o600); err != nil {
				t.Fatal(err)
			}
			specrun := func(args ...string) *exec.Cmd {
				cmd := exec.Command(bin, args...)
				cmd.Dir = work
				cmd.Env = append(os.Environ(), append(p.Env, "HOME="+work, "XDG_STATE_HOME=", "XDG_DATA_HOME=", "XDG_CONFIG_HOME=")...)
				return cmd
			}
			sweep := specrun("sweep", "steps=2", "--rounds", "1", "--host", "local")
			stderr, err := sweep.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := sweep.Start(); err != nil {
				t.Fatal(err)
			}
			said := ""
			first := make(chan bool)
			go func() {
				lines := bufio.NewScanner(stderr)
				for lines.Scan() {
					said += lines.Text() + "\n"
					if strings.HasPrefix(lines.Text(), "[1/") {
						close(first)
						break
					}
				}
			}()
			if moment == measured {
				select {
				case <-first:
				case <-time.After(3 * time.Minute):
					t.Fatalf("no run: %s", said)
				}
			} else {
				runs := eventually(func() bool {
					found, err := filepath.Glob(work + "/.local/state/specrun/runs/*/identity")
					return err == nil && len(found) > 0
				})
				if !runs {
					t.Fatal("no server was started in a container")
				}
			}
			if err := sweep.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			sweep.Wait()
			out, err := specrun("resume").CombinedOutput()
			if err != nil || !strings.Contains(string(out), "2 runs done, 0 failed, 0 missing") {
				t.Errorf("resume: %v\n%s", err, out)
			}
			if left := p.Run("ps", "-a", "--format", "{{.Names}}"); left != engine {
				t.Errorf("containers are left: %s", left)
			}
			if left := p.Run("exec", engine, "sh", "-c", "ps ax | grep '[s]glang' || :"); left != "" {
				t.Errorf("processes are left: %s", left)
			}
			if after := p.Run("exec", engine, "sh", "-c", engineFiles); after != before {
				t.Errorf("the engine's files differ:\n%s\nwere\n%s", after, before)
			}
			if out, err := specrun("lock", "status", "--host", "local").CombinedOutput(); err != nil || !strings.Contains(string(out), "no leases") {
				t.Errorf("leases: %v\n%s", err, out)
			}
		})
	}
}
