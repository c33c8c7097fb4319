//go:build integration || soak

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"specrun/experiments/lab"
)

// user is one person at one terminal.
type user struct {
	t    *testing.T
	bin  string
	dir  string // working folder
	home string
	env  []string
}

func newUser(t *testing.T, bin string) *user {
	t.Helper()
	u := &user{t: t, bin: bin, dir: t.TempDir(), home: t.TempDir()}
	u.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + u.home, "LC_ALL=C.UTF-8", "SPECRUN_LAB=" + u.labDir()}
	return u
}

func (u *user) labDir() string { return filepath.Join(u.dir, "lab") }

func (u *user) write(name, text string) string {
	u.t.Helper()
	path := filepath.Join(u.dir, name)
	must(u.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// answer is what a command said.
type answer struct {
	args           []string
	code           int
	stdout, stderr string
}

func (a answer) String() string {
	return fmt.Sprintf("specrun %s: exit %d\n%s%s", strings.Join(a.args, " "), a.code, a.stdout, a.stderr)
}

// lines are the JSON lines of one type.
func (a answer) lines(t *testing.T, kind string) []map[string]any {
	t.Helper()
	var out []map[string]any
	for line := range strings.Lines(a.stdout) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("no JSON line: %q\n%s", line, a)
		}
		if m["type"] == kind {
			out = append(out, m)
		}
	}
	return out
}

func (u *user) command(args ...string) *exec.Cmd {
	cmd := exec.Command(u.bin, args...)
	cmd.Dir, cmd.Env = u.dir, u.env
	return cmd
}

// running is a command that has been started.
type running struct {
	*exec.Cmd
	u              *user
	stdout, stderr bytes.Buffer
	seen           chan string // lines of stderr; closed at its end
}

func (u *user) start(args ...string) *running {
	u.t.Helper()
	r := &running{Cmd: u.command(args...), u: u, seen: make(chan string, 1000)}
	r.Cmd.Stdout = &r.stdout
	pipe, err := r.StderrPipe()
	must(u.t, err)
	must(u.t, r.Start())
	go func() {
		defer close(r.seen)
		for s := bufio.NewScanner(pipe); s.Scan(); {
			r.seen <- s.Text()
		}
	}()
	return r
}

// until waits for a line of stderr that holds text.
func (r *running) until(text string) {
	r.u.t.Helper()
	for line := range r.seen {
		fmt.Fprintln(&r.stderr, line)
		if strings.Contains(line, text) {
			return
		}
	}
	r.u.t.Fatalf("%v ended without %q:\n%s", r.Args, text, r.stderr.String())
}

// end waits for its end. The code of one that was killed is -1.
func (r *running) end() answer {
	r.u.t.Helper()
	for line := range r.seen {
		fmt.Fprintln(&r.stderr, line)
	}
	err := r.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		r.u.t.Fatal(err)
	}
	return answer{r.Args[1:], r.ProcessState.ExitCode(), r.stdout.String(), r.stderr.String()}
}

func (u *user) run(args ...string) answer {
	u.t.Helper()
	return u.start(args...).end()
}

// does runs a command that must end with the code.
func (u *user) does(code int, args ...string) answer {
	u.t.Helper()
	a := u.run(args...)
	if a.code != code {
		u.t.Fatalf("want exit %d of %s", code, a)
	}
	return a
}

// removeStore forgets the results of an earlier part.
func (u *user) removeStore(name string) {
	u.t.Helper()
	files, err := filepath.Glob(filepath.Join(u.dir, name+"*"))
	must(u.t, err)
	for _, f := range files {
		must(u.t, os.RemoveAll(f))
	}
}

// startLab starts the user's practice host, or changes its settings.
func (u *user) startLab(edit func(*lab.Settings)) lab.Host {
	u.t.Helper()
	s, err := lab.DefaultSettings()
	must(u.t, err)
	edit(&s)
	text, err := json.Marshal(s)
	must(u.t, err)
	u.stopLabAtTheEnd()
	a := u.does(0, "lab", "start", "--json", "--settings", u.write("settings.json", string(text)))
	var r lab.Running
	first, _, _ := strings.Cut(a.stdout, "\n")
	must(u.t, json.Unmarshal([]byte(first), &r))
	return r.Host
}

func (u *user) stopLabAtTheEnd() {
	u.t.Cleanup(func() {
		if _, err := lab.Stop(context.Background(), u.labDir()); err != nil {
			u.t.Errorf("stop the practice host: %v", err)
		}
	})
}

// fast is for tests of behaviour: model times are a twentieth.
func fast(s *lab.Settings) { s.Scale = 0.05 }

// practiceSpec is the practice host's own spec with a port of this test, since
// practice hosts know nothing of each other's leases.
func (u *user) practiceSpec(replace ...string) (file string, port int) {
	u.t.Helper()
	port = freePort(u.t)
	replace = append(replace, "port: auto", fmt.Sprintf("port: %d", port))
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(string(lab.Spec()), replace[i]) {
			u.t.Fatalf("the practice spec has no %q", replace[i])
		}
	}
	return u.write("practice.yaml", strings.NewReplacer(replace...).Replace(string(lab.Spec()))), port
}

// eventually polls a condition for ten seconds.
func eventually(ok func() bool) bool {
	for limit := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if ok() {
			return true
		}
		if time.Now().After(limit) {
			return false
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
