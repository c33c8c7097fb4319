package server

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"specrun/remote"
)

func localHost(t *testing.T, home string, env ...string) Host {
	t.Helper()
	return localShell(t, home, nil, env...)
}

func localShell(t *testing.T, home string, shell []string, env ...string) Host {
	t.Helper()
	h := remote.Local(remote.LocalConfig{Env: append([]string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}, env...), Dir: home, Shell: shell})
	t.Cleanup(func() { h.Close() })
	return h
}

// recorded is what the stand-in saw of itself.
type recorded struct {
	Argv    []string
	Env     map[string]string
	Cwd     string
	SID     int
	PID     int
	Ignored []int
}

func (b *bench) record(l Launch) recorded {
	b.t.Helper()
	path := filepath.Join(b.t.TempDir(), "record.json")
	l.Argv = append([]string{}, l.Argv...)
	l.Argv = append(l.Argv, "--record", path, "--no-serve")
	b.start(l)
	eventually(b.t, "the record of "+l.ID, func() bool { _, err := os.Stat(path); return err == nil })
	return readRecorded(b.t, path)
}

func readRecorded(t *testing.T, path string) recorded {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var r recorded
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

var nasty = []string{"", "it's \"quoted\" here\nand there", "  ", "$HOME", "`id`", "~/x", "*", "a\\nb", "-", "--", "08", "0.90", "é\x01\x7f", "tail\n\n", `{"a": [1, "x y"]}`}

func TestStart_ArgvAndEnvironmentArriveUnchanged(t *testing.T) {
	for _, shell := range shells(t) {
		t.Run(filepath.Base(filepath.Dir(shell)), func(t *testing.T) {
			b := newBench(t)
			b.shell = shell
			l := b.launch("argv", 0, nasty...)
			l.Env = map[string]string{}
			for i, s := range nasty {
				l.Env["V"+string(rune('a'+i))] = s
			}
			l.Env["with.dot"] = "1"
			got := b.record(l)
			if want := append([]string{b.script, "0"}, nasty...); !slices.Equal(got.Argv[:len(want)], want) {
				t.Errorf("argv = %q\nwant   %q", got.Argv, want)
			}
			for name, want := range l.Env {
				if got.Env[name] != want {
					t.Errorf("%s = %q, want %q", name, got.Env[name], want)
				}
			}
			if got.Env["SPECRUN_RUN_ID"] != l.ID || got.Env["SESSION"] != "1" || got.SID != got.PID {
				t.Errorf("run id %q, session variable %q, sid %d of pid %d", got.Env["SPECRUN_RUN_ID"], got.Env["SESSION"], got.SID, got.PID)
			}
			// Where env can, and busybox's cannot, signals are as usual, whatever nohup did.
			if exec.Command(shell, "-c", "env --default-signal=HUP,INT,QUIT,TERM true").Run() == nil && len(got.Ignored) > 0 {
				t.Errorf("signals %v are ignored", got.Ignored)
			}
		})
	}
}

// shells returns the shells of this machine, each under the name sh, so that
// busybox acts as one.
func shells(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, name := range []string{"dash", "bash", "busybox"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Logf("no %s here", name)
			continue
		}
		link := filepath.Join(t.TempDir(), name, "sh")
		if err := os.Mkdir(filepath.Dir(link), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, link); err != nil {
			t.Fatal(err)
		}
		found = append(found, link)
	}
	if len(found) == 0 {
		t.Fatal("none of dash, bash, busybox is installed")
	}
	return found
}

func TestStart_EnvironmentLayers(t *testing.T) {
	b := newBench(t)
	home := filepath.Dir(b.state)
	file := "# comment\n\nexport FROM_FILE='quoted $x'\nBOTH=file\r\nHOST_AND_FILE=file\n  SPACES = \nLAST=\"no newline\""
	file = strings.Replace(file, "  SPACES = \n", "PLAIN=a b=c  \n", 1)
	if err := os.WriteFile(filepath.Join(home, "server.env"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	l := b.launch("layers", 0)
	l.HostEnv = map[string]string{"HOST_AND_FILE": "host", "HOST": "1", "SESSION": "2"}
	l.EnvFile = "~/server.env"
	l.Env = map[string]string{"BOTH": "spec"}
	l.Cwd = "~/"
	got := b.record(l)
	for name, want := range map[string]string{
		"HOST": "1", "SESSION": "2", "HOST_AND_FILE": "file", "BOTH": "spec", "FROM_FILE": "quoted $x", "PLAIN": "a b=c  ",
		"LAST": "no newline", "PATH": filepath.Dir(b.python) + ":" + os.Getenv("PATH"),
	} {
		if got.Env[name] != want {
			t.Errorf("%s = %q, want %q", name, got.Env[name], want)
		}
	}
	if got.Cwd != home {
		t.Errorf("cwd = %q, want %q", got.Cwd, home)
	}
	left, err := filepath.Glob(filepath.Join(b.state, "runs", b.id("layers"), "launch*"))
	if err != nil || len(left) != 0 {
		t.Errorf("the launcher, which holds the environment, was left: %q %v", left, err)
	}
}

func TestStart_LoginEnvironmentReplacesTheSessions(t *testing.T) {
	b := newBench(t)
	home := filepath.Dir(b.state)
	profile := "echo noise; echo more noise >&2\nFROM_PROFILE='line one\nline two'\nexport FROM_PROFILE\nPATH=/opt/nvcc:$PATH\n"
	if err := os.WriteFile(filepath.Join(home, ".profile"), []byte(profile), 0o600); err != nil {
		t.Fatal(err)
	}
	b.h = localHost(t, home, "SHELL=/bin/sh", "SESSION=1")
	base, err := LoginEnv(t.Context(), b.h)
	if err != nil {
		t.Fatal(err)
	}
	delete(base, "SESSION") // a real login has none of the session's; this one inherits
	l := b.launch("login", 0)
	l.Base = base
	got := b.record(l)
	if got.Env["FROM_PROFILE"] != "line one\nline two" {
		t.Errorf("FROM_PROFILE = %q", got.Env["FROM_PROFILE"])
	}
	if _, ok := got.Env["SESSION"]; ok {
		t.Error("the session's environment is still there")
	}
	if path := got.Env["PATH"]; !strings.HasPrefix(path, filepath.Dir(b.python)+":") || !strings.Contains(path, "/opt/nvcc:") {
		t.Errorf("PATH = %q", path)
	}
}

func TestEnvironAndArgv_OfTheRunningProcess(t *testing.T) {
	b := newBench(t)
	l := b.launch("proc", freePort(t))
	l.Env = map[string]string{"MULTI": "a\nb", "EMPTY": ""}
	id := b.start(l).Identity
	eventually(t, "the program in place of its launcher", func() bool {
		argv, err := Argv(t.Context(), b.h, id)
		return err == nil && slices.Equal(argv, l.Argv)
	})
	env, err := Environ(t.Context(), b.h, id)
	if err != nil {
		t.Fatal(err)
	}
	if empty, ok := env["EMPTY"]; env["MULTI"] != "a\nb" || !ok || empty != "" {
		t.Errorf("environment = %q", env)
	}
	if _, err := b.stopID(l.ID, StopOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := Environ(t.Context(), b.h, id); err == nil || !strings.Contains(err.Error(), ErrGone.Error()) {
		t.Errorf("environment of a dead process: %v", err)
	}
}

func TestHostPaths(t *testing.T) {
	for _, c := range []struct {
		argv []string
		want []int
	}{
		{[]string{"~/py", "-m", "x"}, []int{0}},
		{[]string{"numactl", "--all", "~/py", "-m", "x", "--p", "~/m"}, []int{2}},
		{[]string{"~/a", "~/py", "-m"}, []int{0, 1}},
		{[]string{"py", "-m", "x", "~/m"}, nil},
		{nil, nil},
	} {
		if got := HostPaths(c.argv); !slices.Equal(got, c.want) {
			t.Errorf("HostPaths(%q) = %v, want %v", c.argv, got, c.want)
		}
	}
}

func TestLaunch_CheckRefuses(t *testing.T) {
	for name, l := range map[string]Launch{
		"id":     {ID: "../x", Argv: []string{"a"}},
		"argv":   {ID: "x"},
		"equals": {ID: "x", Argv: []string{"a=b"}},
		"port":   {ID: "x", Argv: []string{"a"}, Port: 70000},
		"env":    {ID: "x", Argv: []string{"a"}, Env: map[string]string{"A=B": ""}},
		"gpu":    {ID: "x", Argv: []string{"a"}, GPUs: []string{"0,1"}},
		"nul":    {ID: "x", Argv: []string{"a", "b\x00"}},
	} {
		if _, err := Start(t.Context(), nil, l); err == nil {
			t.Errorf("%s: was taken", name)
		}
	}
}
