//go:build linux

package lab

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"specrun/experiments"
	"specrun/remote"
)

// connect dials a practice host by its host entry alone.
func connect(t *testing.T, h Host) *remote.Host {
	t.Helper()
	r, err := remote.Dial(context.Background(), remote.Config{Name: "lab", Address: h.Address, Port: h.Port, User: h.User,
		IdentityFiles: []string{h.IdentityFile}, KnownHosts: []string{h.KnownHosts}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func output(t *testing.T, r *remote.Host, text string) string {
	t.Helper()
	res, err := r.Run(context.Background(), remote.Script{Name: "test", Text: "main() {\n" + text + "\n}\n"})
	if err != nil {
		t.Fatalf("%v\n%s", err, res.Stderr)
	}
	return strings.TrimSpace(string(res.Stdout))
}

func TestLab(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "lab")
	s := fast(t)
	l, err := Start(ctx, Options{Dir: dir, Settings: &s})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(ctx)
	h := l.Host()
	r := connect(t, h)

	found := output(t, r, h.Python+` -c 'import importlib.util; print(importlib.util.find_spec("sglang.srt.speculative.eagle_worker").origin)'`)
	if !strings.HasPrefix(found, l.Dir()) {
		t.Errorf("the host's interpreter finds the worker at %s", found)
	}
	if got := output(t, r, `echo "$HOME"; pwd -P; command -v python3; echo ${SSH_AUTH_SOCK-none}`); got !=
		strings.Join([]string{h.Cwd, h.Cwd, h.Python, "none"}, "\n") {
		t.Errorf("session has\n%s", got)
	}
	if _, err := Start(ctx, Options{Dir: dir}); !errors.As(err, new(*BusyError)) {
		t.Errorf("second start in the folder: %v", err)
	}

	// A server detached from its session lives on, and ends with the practice host.
	output(t, r, `setsid `+h.Python+` -m sglang.launch_server --model-path m --port 0 >server.log 2>&1 </dev/null &`)
	log := filepath.Join(h.Cwd, "server.log")
	if !await(ctx, 30*time.Second, func() bool {
		text, err := os.ReadFile(log)
		return err == nil && bytes.Contains(text, []byte("ready to roll"))
	}) {
		text, err := os.ReadFile(log)
		t.Fatalf("%v\n%s", err, text)
	}
	if err := os.WriteFile(found, []byte("# changed\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if left, err := withEnv(l.layout.mark()); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	if err := l.Close(ctx); err != nil {
		t.Errorf("second close: %v", err)
	}

	// The same folder again: the same host to its clients, with what they changed.
	again, err := Start(ctx, Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close(ctx)
	if fmt.Sprint(again.Host()) != fmt.Sprint(h) {
		t.Errorf("host was %+v, is %+v", h, again.Host())
	}
	if got, err := again.Settings(); err != nil || got.Scale != s.Scale {
		t.Errorf("settings %+v, %v", got, err)
	}
	if text, err := os.ReadFile(found); err != nil || string(text) != "# changed\n" {
		t.Errorf("worker file %q, %v", text, err)
	}
	connect(t, again.Host())
}

func TestTemporaryLab(t *testing.T) {
	t.Parallel()
	l, err := Start(context.Background(), Options{TempDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(l.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("folder is still there: %v", err)
	}
}

func TestNoPython(t *testing.T) {
	t.Parallel()
	var missing *PythonError
	_, err := Start(context.Background(), Options{TempDir: t.TempDir(), Python: "no-such-python"})
	if !errors.As(err, &missing) || missing.Hint() == "" {
		t.Errorf("got %v", err)
	}
}

// An installed wheel is told from a changed one by the hashes of RECORD.
func TestRecord(t *testing.T) {
	t.Parallel()
	dir := newEnvironment(t).sitePackages()
	var text []byte
	for _, info := range []string{"sglang-" + version, "torch-" + torchVersion} {
		record, err := os.ReadFile(filepath.Join(dir, info+".dist-info", "RECORD"))
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, record...)
	}
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	recorded := map[string]bool{}
	for _, row := range rows {
		recorded[row[0]] = true
		data, err := os.ReadFile(filepath.Join(dir, row[0]))
		if err != nil {
			t.Error(err)
			continue
		}
		sum := sha256.Sum256(data)
		if want := "sha256=" + base64.RawURLEncoding.EncodeToString(sum[:]); row[1] != "" && row[1] != want {
			t.Errorf("%s: recorded %s, is %s", row[0], row[1], want)
		}
	}
	if name := "sglang/srt/speculative/eagle_worker.py"; !recorded[name] || len(rows) < 20 {
		t.Errorf("%d rows, %s recorded: %v", len(rows), name, recorded[name])
	}
}

func TestSpec(t *testing.T) {
	spec, err := experiments.LoadSpec(SpecName, Spec())
	if err != nil {
		t.Fatal(err)
	}
	if spec.Rounds != 3 || spec.Repeats != 1 {
		t.Errorf("rounds %d, repeats %d", spec.Rounds, spec.Repeats)
	}
}

func TestDaemon(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "lab")
	if _, err := Status(ctx, dir); !errors.As(err, new(*NotRunningError)) {
		t.Fatalf("status before the start: %v", err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	env, err := exec.LookPath("env")
	if err != nil {
		t.Fatal(err)
	}
	s := fast(t)
	o := DaemonOptions{Dir: dir, Settings: &s, Command: []string{env, serveDir + "=" + dir, exe}}
	first, started, err := StartDaemon(ctx, o)
	if err != nil || !started {
		t.Fatalf("started %v, %v", started, err)
	}
	t.Cleanup(func() {
		if _, err := Stop(ctx, dir); err != nil {
			t.Error(err)
		}
	})
	s.Scale = 0.5
	second, started, err := StartDaemon(ctx, o)
	if err != nil || started || second.PID() != first.PID() {
		t.Errorf("second start: started %v, pid %d after %d, %v", started, second.PID(), first.PID(), err)
	}
	if got, err := ReadSettings(layout(first.Dir).settings()); err != nil || got.Scale != 0.5 {
		t.Errorf("settings of the second start: %v, %v", got.Scale, err)
	}
	r := connect(t, first.Host)
	output(t, r, `setsid `+first.Host.Python+` -c 'import time; time.sleep(600)' >/dev/null 2>&1 </dev/null &`)
	if left, err := withEnv(layout(first.Dir).mark()); err != nil || len(left) == 0 {
		t.Fatalf("nothing runs: %v %v", left, err)
	}

	// Killed, it leaves a file and a process: status is not fooled, stop cleans up.
	if err := first.Process.signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(ctx, 10*time.Second, func() bool { return !first.Process.alive() })
	if _, err := Status(ctx, dir); !errors.As(err, new(*NotRunningError)) {
		t.Errorf("status after a kill: %v", err)
	}
	if stopped, err := Stop(ctx, dir); err != nil || stopped {
		t.Errorf("stop after a kill: %v, %v", stopped, err)
	}
	if left, err := withEnv(layout(first.Dir).mark()); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}

	third, started, err := StartDaemon(ctx, o)
	if err != nil || !started || third.Host.Port != first.Host.Port {
		t.Fatalf("third start: started %v, port %d after %d, %v", started, third.Host.Port, first.Host.Port, err)
	}
	if stopped, err := Stop(ctx, dir); err != nil || !stopped {
		t.Errorf("stop: %v, %v", stopped, err)
	}
	if third.Process.alive() {
		t.Error("still alive")
	}
	o.Command = []string{"/bin/sh", "-c", "echo no luck >&2; exit 1"}
	if _, _, err := StartDaemon(ctx, o); err == nil || !strings.Contains(err.Error(), "no luck") {
		t.Errorf("a process that ends at once: %v", err)
	}
}
