//go:build integration || soak

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"specrun/remote/remotetest"
)

// site is a host behind a real sshd: an engine's files, and a state folder.
type site struct {
	*user
	venv, state string
	hosts       string // entries of the hosts file so far
}

// badInput is a command that must fail, and what it has to say. In args and
// texts, @ stands for the user's folder.
type badInput struct {
	args    []string
	code    int
	message []string // what and where
	hint    []string // what next; nil: the message says it all
}

// testBadInput: whatever is wrong, the error says what, where and what next,
// has its exit code, and the host is as it was.
func testBadInput(t *testing.T, bin string) {
	s := newSite(t, bin)
	sshd := remotetest.StartSSHD(t, remotetest.Options{})
	s.addHost("box", sshd, sshd.KnownHosts, filepath.Join(s.venv, "bin/python3"), s.state)
	// So that there is a state folder to be left alone.
	s.does(0, "apply", "profiling-v4", "--host", "box")
	s.does(0, "rollback", "--host", "box")

	t.Run("files", func(t *testing.T) { s.at(t).wrongFiles() })
	t.Run("names", func(t *testing.T) { s.at(t).wrongNames() })
	t.Run("host keys", func(t *testing.T) { s.at(t).hostKeys() })
	t.Run("key refused", func(t *testing.T) { s.at(t).keyRefused() })
	t.Run("interpreter", func(t *testing.T) { s.at(t).interpreters(sshd) })
	t.Run("disk full", func(t *testing.T) { s.at(t).fullDisks(sshd) })
	t.Run("read-only folder", func(t *testing.T) { s.at(t).readOnlyFolder() })
	t.Run("port taken", func(t *testing.T) { s.at(t).portTaken() })
}

// newSite takes the practice host's environment for the engine's files; no
// practice host runs.
func newSite(t *testing.T, bin string) *site {
	s := &site{user: newUser(t, bin)}
	s.stopLabAtTheEnd()
	// The system's interpreter is one that every user of this machine can run.
	s.does(0, "lab", "start", "--python", "/usr/bin/python3")
	s.does(0, "lab", "stop")
	s.venv, s.state = filepath.Join(s.labDir(), "venv"), filepath.Join(s.dir, "state")
	for dir := s.labDir(); dir != os.TempDir(); dir = filepath.Dir(dir) { // for other users of this machine
		must(t, os.Chmod(dir, 0o755))
	}
	return s
}

// at is the site in a subtest.
func (s *site) at(t *testing.T) *site {
	u := *s.user
	u.t = t
	return &site{user: &u, venv: s.venv, state: s.state, hosts: s.hosts}
}

// addHost writes the hosts file anew with one more entry; empty values are left out.
func (s *site) addHost(name string, sshd *remotetest.SSHD, knownHosts, python, state string) {
	s.hosts += fmt.Sprintf("  %s:\n    address: 127.0.0.1\n    port: %d\n    user: %s\n    identity_file: %s\n    known_hosts: %s\n",
		name, sshd.Port, sshd.User, sshd.ClientKey, knownHosts)
	if python != "" {
		s.hosts += "    python: " + python + "\n"
	}
	if state != "" {
		s.hosts += "    state_dir: " + state + "\n"
	}
	s.write("hosts.yaml", "hosts:\n"+s.hosts)
}

// refused runs bad input as text and as JSON and checks all of it. Folders
// beside the site's own may be named that must not change either.
func (s *site) refused(b badInput, folders ...string) {
	t := s.t
	t.Helper()
	folders = append(folders, s.venv, s.state)
	before := tree(t, folders...)
	fill := func(texts []string) []string {
		var out []string
		for _, text := range texts {
			out = append(out, strings.ReplaceAll(text, "@", s.dir))
		}
		return out
	}
	args := fill(b.args)
	a := s.run(args...)
	message, hint, hinted := strings.Cut(a.stderr, "\nhint: ")
	if a.code != b.code {
		t.Errorf("want exit %d of %s", b.code, a)
	}
	if !strings.HasPrefix(message, "error: ") && !strings.Contains(message, "\nerror: ") || !hinted && b.hint != nil {
		t.Errorf("no error with a hint: %s", a)
	}
	for _, text := range fill(b.message) {
		if !strings.Contains(message, text) {
			t.Errorf("the error does not name %q: %s", text, a)
		}
	}
	for _, text := range fill(b.hint) {
		if !strings.Contains(hint, text) {
			t.Errorf("the hint does not name %q: %s", text, a)
		}
	}

	j := s.run(append(args, "--json")...)
	failures, summaries := j.lines(t, "error"), j.lines(t, "summary")
	if j.code != b.code || len(failures) != 1 || len(summaries) != 1 {
		t.Fatalf("want exit %d, an error line and a summary: %s", b.code, j)
	}
	e, end := failures[0], summaries[0]
	if e["schema"] != 1.0 || e["code"] != float64(b.code) || e["hint"] == nil && b.hint != nil || end["ok"] != false || end["exit"] != float64(b.code) {
		t.Errorf("%v\n%v", e, end)
	}
	for _, text := range fill(b.message) {
		if text, in := firstLine(text), fmt.Sprint(e["message"]); !strings.Contains(in, text) {
			t.Errorf("the JSON error does not name %q: %s", text, in)
		}
	}
	sameTree(t, before, tree(t, folders...))
	s.noStages(folders...)
}

// noStages looks for what an unfinished change would leave beside the files.
func (s *site) noStages(folders ...string) {
	s.t.Helper()
	for line := range strings.Lines(tree(s.t, folders...)) {
		if strings.Contains(line, "/.specrun") && !strings.Contains(line, "/.specrun-lab ") {
			s.t.Errorf("left: %s", line)
		}
	}
}

func (s *site) wrongFiles() {
	s.write("tabs.yaml", "version: 1\nname: x\nserver:\n\tengine: sglang\n")
	s.write("key.yaml", "version: 1\nname: x\nserver:\n  engine: sglang\n  enviroment: {}\n  flags: {}\n")
	s.write("type.yaml", "version: 1\nname: x\nrounds: many\nserver:\n  engine: sglang\n")
	s.write("expression.yaml", "version: 1\nname: x\nserver:\n  engine: sglang\n  flags: { tp-size: \"${step + 1}\" }\nparams:\n  steps: { values: 1..2, default: 1 }\n")
	for _, b := range []badInput{
		{[]string{"sweep", "-f", "tabs.yaml", "--host", "box"}, 2, []string{"tabs.yaml:4:"}, []string{"YAML"}},
		{[]string{"sweep", "-f", "key.yaml", "--host", "box"}, 2, []string{"key.yaml:5:3", "enviroment"}, []string{"env"}},
		{[]string{"apply", "profiling-v4", "-f", "key.yaml", "--host", "box"}, 2, []string{"key.yaml:5:3", "enviroment"}, []string{"env"}},
		{[]string{"sweep", "-f", "type.yaml", "--host", "box"}, 2, []string{"type.yaml:3:", "rounds"}, nil},
		{[]string{"sweep", "-f", "expression.yaml", "--host", "box"}, 2, []string{"expression.yaml:5:", "step"}, nil},
		{[]string{"sweep", "-f", "none.yaml", "--host", "box"}, 2, []string{"none.yaml"}, []string{"-f"}},
	} {
		s.refused(b)
	}
	s.write("bad-hosts.yaml", "hosts:\n  box:\n    adress: 127.0.0.1\n")
	s.write("torn-hosts.yaml", "hosts:\n  box: {address: 127.0.0.1\n")
	for _, b := range []badInput{
		{[]string{"apply", "profiling-v4", "--hosts-file", "bad-hosts.yaml", "--host", "box"}, 2, []string{"bad-hosts.yaml:3:5", "adress"}, []string{"address"}},
		{[]string{"apply", "profiling-v4", "--hosts-file", "torn-hosts.yaml", "--host", "box"}, 2, []string{"torn-hosts.yaml:"}, []string{"YAML"}},
		{[]string{"status", "--hosts-file", "no-hosts.yaml", "--host", "box"}, 2, []string{"no-hosts.yaml"}, []string{"--hosts-file"}},
	} {
		s.refused(b)
	}
}

func (s *site) wrongNames() {
	spec, _ := s.practiceSpec()
	for _, b := range []badInput{
		{[]string{"apply", "profiling-v5", "--host", "box"}, 2, []string{`"profiling-v5"`}, []string{"profiling-v4"}},
		{[]string{"apply", "profiling-v4", "--host", "boxx"}, 2, []string{`"boxx"`, "hosts.yaml"}, []string{"box"}},
		{[]string{"sweep", "-f", spec, "stesp=1..4", "--host", "box"}, 2, []string{"stesp"}, []string{"steps"}},
		{[]string{"sweep", "-f", spec, "steps=4..x", "--host", "box"}, 2, []string{"steps=4..x"}, nil},
		{[]string{"apply", "--host", "box", "profiling-v4", "profiling-v9"}, 2, []string{`"profiling-v9"`}, []string{"profiling-v"}},
		{[]string{"apply", "profiling-v4"}, 2, []string{"no host"}, []string{"--host"}},
	} {
		s.refused(b)
	}
}

// hostKeys: an unknown or changed key is refused before anything is sent; an
// unknown one is recorded when asked for, so that OpenSSH believes it too.
func (s *site) hostKeys() {
	t := s.t
	sshd := remotetest.StartSSHD(t, remotetest.Options{})
	line, err := sshd.KnownHostsLine("ed25519")
	must(t, err)
	python := filepath.Join(s.venv, "bin/python3")

	other := remotetest.StartSSHD(t, remotetest.Options{})
	otherLine, err := other.KnownHostsLine("ed25519")
	must(t, err)
	changed := s.write("changed", strings.Fields(line)[0]+" "+strings.Join(strings.Fields(otherLine)[1:], " ")+"\n")
	s.addHost("changed", sshd, changed, python, s.state)
	was, err := os.ReadFile(changed)
	must(t, err)
	for _, args := range [][]string{{"apply", "profiling-v4", "--host", "changed"}, {"apply", "profiling-v4", "--host", "changed", "--accept-new"}} {
		s.refused(badInput{args, 5, []string{"changed: ", "SHA256:", changed + ":1"}, []string{"reinstalled"}})
	}
	if is, err := os.ReadFile(changed); err != nil || !bytes.Equal(is, was) {
		t.Errorf("the recorded key was changed: %s %v", is, err)
	}

	own := filepath.Join(s.dir, "own_known_hosts")
	s.addHost("stranger", sshd, own, python, s.state)
	s.refused(badInput{[]string{"apply", "profiling-v4", "--host", "stranger"}, 5, []string{"stranger: ", "SHA256:"}, []string{"--accept-new", "ssh-keygen"}})
	if _, err := os.Stat(own); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a key was recorded unasked: %v", err)
	}
	s.does(0, "status", "--host", "stranger", "--accept-new")
	s.does(0, "status", "--host", "stranger")
	recorded, err := os.ReadFile(own)
	must(t, err)
	if string(recorded) != line {
		t.Errorf("recorded %q, want %q", recorded, line)
	}
	ssh := exec.Command("ssh", "-F", "none", "-i", sshd.ClientKey, "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes",
		"-o", "UserKnownHostsFile="+own, "-o", "GlobalKnownHostsFile=/dev/null", "-p", fmt.Sprint(sshd.Port), sshd.User+"@127.0.0.1", "true")
	if out, err := ssh.CombinedOutput(); err != nil {
		t.Errorf("OpenSSH does not believe the recorded key: %v\n%s", err, out)
	}
}

func (s *site) keyRefused() {
	sshd := remotetest.StartSSHD(s.t, remotetest.Options{OnlyThese: true, AuthorizedKeys: []string{"# nobody"}})
	s.addHost("closed", sshd, sshd.KnownHosts, filepath.Join(s.venv, "bin/python3"), s.state)
	s.refused(badInput{[]string{"apply", "profiling-v4", "--host", "closed"}, 5, []string{"closed: ", sshd.ClientKey}, []string{"authorized_keys"}})
	sshd.Close()
	s.refused(badInput{[]string{"apply", "profiling-v4", "--host", "closed"}, 5, []string{"closed: ", fmt.Sprint(sshd.Port)}, []string{"sshd"}})
}

func (s *site) interpreters(sshd *remotetest.SSHD) {
	t := s.t
	s.addHost("unnamed", sshd, sshd.KnownHosts, "", s.state)
	s.addHost("nowhere", sshd, sshd.KnownHosts, "/no/such/python3", s.state)
	s.addHost("bare", sshd, sshd.KnownHosts, "/usr/bin/python3", s.state)
	s.refused(badInput{[]string{"apply", "profiling-v4", "--host", "unnamed"}, 2, []string{"unnamed: no Python interpreter"}, []string{"--python"}})
	s.refused(badInput{[]string{"apply", "profiling-v4", "--host", "nowhere"}, 2, []string{"nowhere: no Python interpreter", "/no/such/python3"}, []string{"--python"}})
	s.refused(badInput{[]string{"apply", "profiling-v4", "--host", "bare"}, 2,
		[]string{"bare: profiling-v4", "/usr/bin/python3", "sglang.srt.speculative.eagle_worker", "looked in "}, []string{"--python"}})

	// A running engine tells which interpreter is meant.
	python := filepath.Join(s.venv, "bin/python3")
	engine := exec.Command(python, "-m", "sglang.launch_server", "--model-path", "m", "--port", fmt.Sprint(freePort(t)))
	engine.Env = append(s.env, "SPECRUN_LAB_SETTINGS="+filepath.Join(s.labDir(), "settings.json"))
	must(t, engine.Start())
	defer func() {
		engine.Process.Signal(syscall.SIGTERM)
		engine.Wait()
	}()
	if !eventually(func() bool {
		return indexOf(argvOf(fmt.Sprintf("/proc/%d", engine.Process.Pid)), []string{"-m", "sglang.launch_server"}) == 1
	}) {
		t.Fatal("the engine does not start")
	}
	s.refused(badInput{[]string{"apply", "profiling-v4", "--host", "unnamed"}, 2,
		[]string{"unnamed: no Python interpreter", fmt.Sprintf("%s (sglang, pid %d)", python, engine.Process.Pid)}, []string{"--python "}})
}

// fullDisks: the file system of the engine's files, then that of the state.
func (s *site) fullDisks(sshd *remotetest.SSHD) {
	t := s.t
	disk := filepath.Join(s.dir, "disk")
	must(t, os.Mkdir(disk, 0o755))
	if err := syscall.Mount("none", disk, "tmpfs", 0, "size=24m"); err != nil {
		t.Fatalf("a small file system needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	if out, err := exec.Command("cp", "-a", s.venv, disk+"/venv").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	fill, err := os.Create(disk + "/fill")
	must(t, err)
	defer fill.Close()
	for chunk := make([]byte, 4096); err == nil; {
		_, err = fill.Write(chunk)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	s.addHost("full", sshd, sshd.KnownHosts, disk+"/venv/bin/python3", s.state)
	s.refused(badInput{[]string{"apply", "profiling-v4", "--host", "full"}, 1, []string{"full: ", disk}, []string{"free"}}, disk+"/venv")
	s.addHost("fullstate", sshd, sshd.KnownHosts, filepath.Join(s.venv, "bin/python3"), disk+"/state")
	s.refused(badInput{[]string{"apply", "profiling-v4", "--host", "fullstate"}, 1, []string{"fullstate: ", disk}, []string{"state_dir"}}, disk+"/venv", disk+"/state")
	// With room again both work.
	must(t, fill.Truncate(0))
	for _, host := range []string{"full", "fullstate"} {
		s.does(0, "apply", "profiling-v4", "--host", host)
		s.does(0, "rollback", "--host", host)
	}
}

// readOnlyFolder: another user's engine.
func (s *site) readOnlyFolder() {
	sshd := remotetest.StartSSHD(s.t, remotetest.Options{UID: 4002})
	s.addHost("guest", sshd, sshd.KnownHosts, filepath.Join(s.venv, "bin/python3"), "")
	s.refused(badInput{[]string{"apply", "profiling-v4", "--host", "guest"}, 4,
		[]string{"guest: ", filepath.Join("sglang", "srt", "speculative"), "specrun4002", "belongs to root"}, []string{"root"}})
}

// portTaken: the foreign process is named and left alone.
func (s *site) portTaken() {
	t := s.t
	spec, port := s.practiceSpec("hosts: [lab]", "hosts: [box]")
	stranger := exec.Command("python3", "-m", "http.server", "--bind", "127.0.0.1", fmt.Sprint(port))
	must(t, stranger.Start())
	ended := make(chan error, 1)
	go func() { ended <- stranger.Wait() }()
	defer func() {
		stranger.Process.Kill()
		<-ended
	}()
	if !eventually(func() bool { return !portIsFree(port) }) {
		t.Fatal("the stranger does not listen")
	}
	before := tree(t, s.venv)
	a := s.does(1, "sweep", "-f", spec, "steps=1..2", "--rounds", "1", "--host", "box", "--store", "results.db")
	for _, text := range []string{"port_in_use", fmt.Sprintf("port %d", port), fmt.Sprintf("pid %d", stranger.Process.Pid), "http.server"} {
		if !strings.Contains(a.stdout+a.stderr, text) {
			t.Errorf("the stranger is not named by %q: %s", text, a)
		}
	}
	for _, r := range s.does(0, "list", "--runs", "--json", "--store", "results.db").lines(t, "run") {
		if r["state"] != "failed" || r["class"] != "port_in_use" || !strings.Contains(fmt.Sprint(r["reason"]), "next: ") {
			t.Errorf("%v", r)
		}
	}
	select {
	case err := <-ended:
		t.Errorf("the stranger was ended: %v", err)
		ended <- err
	default:
	}
	sameTree(t, before, tree(t, s.venv))
	s.noStages(s.venv)
	if left, err := filepath.Glob(filepath.Join(s.state, "runs", "*", "identity")); err != nil || len(left) > 0 {
		t.Errorf("a server was started: %v %v", left, err)
	}
}
