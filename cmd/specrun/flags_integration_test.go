//go:build integration || soak

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// hardFlags are the kinds of values that get lost on the way through YAML and
// shells: one flag each that the practice host's server accepts.
const hardFlags = `    mem-fraction-static: 0.90
    watchdog-timeout: 08
    schedule-conservativeness: 1e-0
    log-level-http: on
    json-model-override-args: { rope_scaling: { factor: 4.0, type: yarn }, name: "it's" }
    model-loader-extra-config: { enable: true, list: [1, 2] }
    cuda-graph-bs: [1, 2, 4]
    lora-paths: [a=/x y, 'b=$HOME']
    disable-cuda-graph: false
    enable-metrics: true
    api-key: null
    chat-template: "a 'quoted' \"value\", a space\nand $(a) \\ second line\ttoo "
    tokenizer-path: -leading-dash
`

// hardArgv is what has to stand in the server's argument list for them.
var hardArgv = []string{
	"--mem-fraction-static", "0.90",
	"--watchdog-timeout", "08",
	"--schedule-conservativeness", "1e-0",
	"--log-level-http", "on",
	"--json-model-override-args", `{"rope_scaling":{"factor":4.0,"type":"yarn"},"name":"it's"}`,
	"--model-loader-extra-config", `{"enable":true,"list":[1,2]}`,
	"--cuda-graph-bs", "1", "2", "4",
	"--lora-paths", "a=/x y", "b=$HOME",
	"--enable-metrics",
	"--chat-template", "a 'quoted' \"value\", a space\nand $(a) \\ second line\ttoo ",
	"--tokenizer-path=-leading-dash",
}

// testFlagsReachTheServer compares the argument list of the server process with
// what the spec says, and with that of the printed command, pasted into a shell.
func testFlagsReachTheServer(t *testing.T, bin string) {
	u := newUser(t, bin)
	u.startLab(fast)
	spec, port := u.practiceSpec("    random-seed: 1\n", "    random-seed: 1\n"+hardFlags,
		"NCCL_PROTO: LL,", `NCCL_PROTO: LL, HARD: "a 'b' \"c\" $(d)\ne ",`)
	const hardEnv = "a 'b' \"c\" $(d)\ne "

	r := u.start("run", "-f", spec, "steps=2", "--rounds", "1", "--host", "lab", "--store", "results.db")
	byRun, runEnv := serverProcess(t, port)
	if a := r.end(); a.code != 0 {
		t.Fatal(a)
	}
	if at := indexOf(byRun, hardArgv); at < 0 {
		t.Errorf("the server's arguments do not hold those of the spec:\n%q\n%q", byRun, hardArgv)
	}
	for _, never := range []string{"--disable-cuda-graph", "--api-key", "null", "false"} {
		if slices.Contains(byRun, never) {
			t.Errorf("the server got %s: %q", never, byRun)
		}
	}

	plan := u.does(0, "run", "-f", spec, "steps=2", "--rounds", "1", "--host", "lab", "--dry-run").stdout
	_, command, ok := strings.Cut(plan, "patches profiling-v4\n")
	if !ok {
		t.Fatalf("no command in the plan:\n%s", plan)
	}
	shell := exec.Command("/bin/sh")
	shell.Stdin = strings.NewReader(command)
	shell.Env = u.env
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := os.Create(filepath.Join(u.dir, "pasted.log"))
	must(t, err)
	defer out.Close()
	shell.Stdout, shell.Stderr = out, out
	must(t, shell.Start())
	defer func() {
		syscall.Kill(-shell.Process.Pid, syscall.SIGKILL)
		shell.Wait()
	}()
	pasted, pastedEnv := serverProcess(t, port)
	if !slices.Equal(byRun, pasted) {
		t.Errorf("the pasted command starts something else:\n%q\n%q", pasted, byRun)
	}
	for name, env := range map[string]map[string]string{"server": runEnv, "pasted": pastedEnv} {
		if env["HARD"] != hardEnv || env["NCCL_PROTO"] != "LL" {
			t.Errorf("%s: HARD is %q, NCCL_PROTO is %q", name, env["HARD"], env["NCCL_PROTO"])
		}
	}
}

// serverProcess waits for a server that is told this port, and reads argument
// list and environment of the first of its processes.
func serverProcess(t *testing.T, port int) (argv []string, env map[string]string) {
	t.Helper()
	want := []string{"--port", fmt.Sprint(port)}
	for limit := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		procs, err := filepath.Glob("/proc/[0-9]*")
		must(t, err)
		for _, p := range procs {
			argv := argvOf(p)
			// Not the shells that start it, whose text holds the words too.
			if indexOf(argv, want) < 0 || indexOf(argv, []string{"-m", "sglang.launch_server"}) != 1 {
				continue
			}
			raw, err := os.ReadFile(filepath.Join(p, "environ"))
			if err != nil {
				continue
			}
			env = map[string]string{}
			for _, e := range strings.Split(string(raw), "\x00") {
				name, value, _ := strings.Cut(e, "=")
				env[name] = value
			}
			return argv, env
		}
		if time.Now().After(limit) {
			t.Fatalf("no server with port %d", port)
		}
	}
}

// indexOf is where part begins in all, -1 when it does not.
func indexOf(all, part []string) int {
	for i := range all {
		if i+len(part) <= len(all) && slices.Equal(all[i:i+len(part)], part) {
			return i
		}
	}
	return -1
}
