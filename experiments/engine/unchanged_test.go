package engine_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"specrun/deploy/server"
	"specrun/experiments/engine"
	"specrun/remote"
)

type recorded struct {
	Argv []string
	Env  map[string]string
	Cwd  string
}

func read(t *testing.T, path string) recorded {
	t.Helper()
	var raw []byte
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		var err error
		if raw, err = os.ReadFile(path); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("nothing was recorded: ", err)
		}
	}
	var r recorded
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// Whatever a flag holds reaches the process as it stands, through a start on a
// host and through the command of --dry-run alike.
func TestFlagsReachTheServerUnchanged(t *testing.T) {
	python := "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		if python, err = exec.LookPath("python3"); err != nil {
			t.Fatal("this test needs python3: ", err)
		}
	}
	home := t.TempDir()
	cwd := filepath.Join(home, "it's a folder")
	bin := filepath.Join(home, "bin dir")
	for _, dir := range []string{cwd, bin} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(python, filepath.Join(bin, "python3")); err != nil {
		t.Fatal(err)
	}
	site, err := filepath.Abs("testdata/site")
	if err != nil {
		t.Fatal(err)
	}
	odd := "a quote ' and \", a space,\na newline, $HOME `id` \\ ! ~ * and\ttab\n"
	e, err := engine.Lookup("sglang")
	if err != nil {
		t.Fatal(err)
	}
	argv, err := e.Argv(engine.Server{
		Prefix: []string{"env", "PREFIX=x y"}, Python: "~/bin dir/python3", Port: 30000,
		Flags: []engine.Flag{
			{Name: "mem-fraction-static", Kind: engine.Value, Values: []string{"0.90"}},
			{Name: "id", Kind: engine.Value, Values: []string{"08"}},
			{Name: "off", Kind: engine.Omitted},
			{Name: "on", Kind: engine.Bare},
			{Name: "map", Kind: engine.JSON, Values: []string{`{"a":0.90,"b":"it's"}`}},
			{Name: "list", Kind: engine.List, Values: []string{"1", "b c", ""}},
			{Name: "odd", Kind: engine.Value, Values: []string{odd}},
			{Name: "tilde", Kind: engine.Value, Values: []string{"~/model"}},
			{Name: "minus", Kind: engine.Value, Values: []string{"-1"}},
		},
		Args: []string{"--verbatim", odd},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"--mem-fraction-static", "0.90", "--id", "08", "--on", "--map", `{"a":0.90,"b":"it's"}`, "--list", "1", "b c", "",
		"--odd", odd, "--tilde", "~/model", "--minus=-1", "--port", "30000", "--verbatim", odd}
	check := func(how string, got recorded, env map[string]string) {
		t.Helper()
		if !slices.Equal(got.Argv, want) {
			t.Errorf("%s: argv = %q\nwant %q", how, got.Argv, want)
		}
		for name, value := range env {
			if got.Env[name] != value {
				t.Errorf("%s: %s = %q, want %q", how, name, got.Env[name], value)
			}
		}
		if got.Cwd != cwd || got.Env["PREFIX"] != "x y" {
			t.Errorf("%s: cwd %q, prefix %q", how, got.Cwd, got.Env["PREFIX"])
		}
	}
	env := map[string]string{"PYTHONPATH": site, "ODD": odd, "EMPTY": ""}

	h := remote.Local(remote.LocalConfig{Env: []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}, Dir: home})
	defer h.Close()
	env["RECORD"] = filepath.Join(home, "started.json")
	id := fmt.Sprintf("flags-%d-%d", os.Getpid(), time.Now().UnixNano())
	state := filepath.Join(home, "state")
	if _, err := server.Start(t.Context(), h, server.Launch{ID: id, Argv: argv, Python: "~/bin dir/python3", Env: env, Cwd: cwd, StateDir: state}); err != nil {
		t.Fatal(err)
	}
	check("start", read(t, env["RECORD"]), env)
	if _, err := server.Stop(t.Context(), h, state, id, server.StopOptions{}); err != nil {
		t.Fatal(err)
	}

	for _, shell := range []string{"dash", "bash", "busybox"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("no %s here", shell)
			continue
		}
		env["RECORD"] = filepath.Join(home, shell+".json")
		line := engine.ShellQuote(argv, env, "~/it's a folder")
		args := []string{"-c", line}
		if shell == "busybox" {
			args = slices.Insert(args, 0, "sh")
		}
		cmd := exec.Command(path, args...)
		cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s\n%s", shell, err, out, line)
		}
		check(shell, read(t, env["RECORD"]), env)
	}
}

func TestShellQuote_PlainWordsStayReadable(t *testing.T) {
	got := engine.ShellQuote([]string{"~/env/bin/python3", "-m", "sglang.launch_server", "--port", "30000"}, map[string]string{"NCCL_PROTO": "LL"}, "/data")
	if want := "(cd /data && exec env NCCL_PROTO=LL ~/env/bin/python3 -m sglang.launch_server --port 30000)"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := engine.ShellQuote([]string{"a", "b c"}, nil, ""); strings.Contains(got, "cd") || got != "a 'b c'" {
		t.Errorf("got %s", got)
	}
}
