//go:build integration || soak

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"specrun/experiments/lab"
	"specrun/experiments/store"
)

// A sweep that goes on on its host by itself, each part with a practice host of
// its own.
func TestDetach(t *testing.T) {
	t.Parallel()
	bin := buildSpecrun(t)
	for _, part := range []struct {
		name string
		test func(t *testing.T, bin string)
	}{
		{"the laptop goes", testDetachedLaptopGoes},
		{"the process is killed", testDetachedIsKilled},
		{"it is ended", testDetachedIsEnded},
		{"it cannot begin", testDetachedCannotBegin},
		{"on the host itself", testDetachedHere},
		{"without room", testDetachedFullDisk},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			part.test(t, bin)
		})
	}
}

// detached lists the folders of such sweeps on the host.
func (u *user) detached(h lab.Host) []string {
	u.t.Helper()
	all, err := filepath.Glob(filepath.Join(h.StateDir, "detached", "*"))
	must(u.t, err)
	return all
}

// newest is the id of the sweep begun last.
func (u *user) newestSweep() string {
	u.t.Helper()
	sweeps := u.does(0, "list", "--json", "--store", "results.db").lines(u.t, "sweep")
	if len(sweeps) == 0 {
		u.t.Fatal("no sweep is stored")
	}
	return fmt.Sprint(sweeps[0]["id"])
}

// killOnHost ends the process of a detached sweep by SIGKILL, and returns its pid.
func (u *user) killOnHost(dir string) int {
	u.t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "identity"))
	must(u.t, err)
	pid, err := strconv.Atoi(strings.Fields(string(text))[1])
	must(u.t, err)
	must(u.t, syscall.Kill(pid, syscall.SIGKILL))
	return pid
}

// The laptop's specrun is killed after the first event, and the line is bad. New
// ones follow the sweep, two at once, and at the end each run is there once, as of
// a sweep that ran from here.
func testDetachedLaptopGoes(t *testing.T, bin string) {
	u := newUser(t, bin)
	h := u.startLab(fast)
	line := newLine(t, net.JoinHostPort(h.Address, strconv.Itoa(h.Port)))
	u.hostsFile("gpu", h, line.port())
	spec, port := u.practiceSpec("[profiling-v4]", "[./own-patch]")
	own := u.ownPatch("own-patch")
	sweep := sixRuns(spec)
	sweep[slices.Index(sweep, "lab")] = "gpu"

	r := u.start(append(sweep, "--detach")...)
	r.until("[1/3]")
	must(t, r.Process.Signal(syscall.SIGKILL))
	r.end()
	must(t, os.Rename(own, own+".gone")) // the host has all that it needs
	id := u.newestSweep()
	if dirs := u.detached(h); len(dirs) != 1 || filepath.Base(dirs[0]) != id {
		t.Fatalf("on the host: %v, want %s", dirs, id)
	}

	followers := []*running{u.start("resume", "--store", "results.db"), u.start("watch", "--host", "gpu", "--store", "results.db")}
	followers[0].until("[1/3]") // what was told before is told again
	line.cut()
	for range 2 { // while it writes, and twice
		a := u.does(0, "list", "--host", "gpu", "--store", "results.db")
		if !strings.Contains(a.stderr, "fetched sweep "+id) {
			t.Errorf("nothing was fetched: %s", a)
		}
		line.cut()
	}
	for _, f := range followers {
		if a := f.end(); a.code != 0 || !strings.Contains(a.stdout, "baseline") {
			t.Errorf("a follower ends without the table: %s", a)
		}
	}
	u.hasSixRuns()
	u.leftAlone(h, port)
	if dirs := u.detached(h); len(dirs) > 0 {
		t.Errorf("left on the host: %v", dirs)
	}
	must(t, os.Rename(own+".gone", own))
	u.asFromHere(id, sweep)

	// From here on it is a sweep like any other.
	if a := u.run("resume", id, "--store", "results.db"); a.code != 0 || !strings.Contains(a.stderr, "nothing is left to do") {
		t.Errorf("resume of what is done: %s", a)
	}
	if a := u.does(0, "list", "--host", "gpu", "--store", "results.db"); strings.Contains(a.stderr, "fetched") {
		t.Errorf("fetched once more: %s", a)
	}
	a := u.does(0, "logs", id, "--store", "results.db")
	if !strings.Contains(a.stdout, "Decode batch") {
		t.Errorf("the server's log was not brought here: %s", a)
	}
}

// ownPatch writes a patch of the user's own, a copy of profiling-v4.
func (u *user) ownPatch(name string) (dir string) {
	u.t.Helper()
	dir = filepath.Join(u.dir, name)
	must(u.t, os.Mkdir(dir, 0o700))
	for _, pattern := range []string{"profiling-v4/*", "profiler/*.py"} {
		files, err := filepath.Glob(filepath.Join("..", "..", "patches", "library", pattern))
		must(u.t, err)
		for _, f := range files {
			text, err := os.ReadFile(f)
			must(u.t, err)
			text = bytes.ReplaceAll(text, []byte("../profiler/"), nil)
			text = bytes.Replace(text, []byte("name: profiling-v4"), []byte("name: "+name), 1)
			must(u.t, os.WriteFile(filepath.Join(dir, filepath.Base(f)), text, 0o600))
		}
	}
	return dir
}

// asFromHere compares cells, host and artifacts of a stored sweep with those of
// the same sweep planned and kept here.
func (u *user) asFromHere(id string, sweep []string) {
	u.t.Helper()
	ctx := context.Background()
	s, err := store.Open(ctx, filepath.Join(u.dir, "results.db"), store.MustExist())
	must(u.t, err)
	defer s.Close()
	view, err := s.View(ctx, id)
	must(u.t, err)
	plans := u.does(0, append(sweep, "--dry-run", "--json")...).lines(u.t, "plan")
	planned := map[any]bool{}
	for _, c := range plans[0]["cells"].([]any) {
		planned[c.(map[string]any)["key"]] = true
	}
	for _, c := range view.Cells {
		if !planned[c.Key] {
			u.t.Errorf("cell %v has another key than a sweep from here", c.Params)
		}
	}
	for _, r := range view.Runs {
		host := ""
		for _, f := range view.Data[r.ID].Provenance {
			if f.Group == "host" && f.Key == "name" {
				host = f.Value
			}
		}
		if r.Host != "gpu" || host != "gpu" {
			u.t.Errorf("run %s is of host %q, and says %q", r.ID, r.Host, host)
		}
	}
	if len(view.Artifact) == 0 {
		u.t.Error("no log was kept")
	}
	for _, a := range view.Artifact {
		f, _, err := s.Kept(ctx, a.SHA256)
		if err == nil {
			_, err = io.Copy(io.Discard, f)
			f.Close()
		}
		if err != nil {
			u.t.Errorf("%s of launch %s: %v", a.Name, a.LaunchID, err)
		}
	}
}

// The process on the host is killed: the follower says so, and resume goes on
// there; killed again, resume --here goes on from here. Its secret was never
// written there.
func testDetachedIsKilled(t *testing.T, bin string) {
	const secret = "open-sesame-99"
	u := newUser(t, bin)
	u.env = append(u.env, "PRACTICE_TOKEN="+secret)
	h := u.startLab(fast)
	spec, port := u.practiceSpec("NCCL_PROTO: LL,", "NCCL_PROTO: LL, OTHER_NAME: { from: env, name: PRACTICE_TOKEN },")
	r := u.start(append(sixRuns(spec), "--detach")...)
	r.until("[1/3]")
	id := u.newestSweep()
	dir := filepath.Join(h.StateDir, "detached", id)
	neverIn(t, dir, secret)
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", u.killOnHost(dir)))
	if err == nil && bytes.Contains(environ, []byte(secret)) {
		t.Error("the secret is in the environment of the process")
	}
	a := r.end()
	if a.code != 1 || !strings.Contains(a.stderr, "was killed") || !strings.Contains(a.stderr, "specrun resume "+id) {
		t.Errorf("want exit 1 and how to go on: %s", a)
	}

	// A resume that the host refuses leaves the sweep with the host, which has
	// results that may not be here.
	job := filepath.Join(dir, "job.json")
	must(t, os.Rename(job, job+".was"))
	must(t, os.MkdirAll(filepath.Join(job, "in the way"), 0o700))
	for range 2 {
		if a := u.does(1, "resume", "--store", "results.db"); !strings.Contains(a.stderr, "cannot be written") {
			t.Errorf("want that the host refuses it: %s", a)
		}
	}
	must(t, os.RemoveAll(job))
	must(t, os.Rename(job+".was", job))

	r = u.start("resume", "--store", "results.db")
	r.until("goes on on lab by itself")
	r.until("[2/")
	u.killOnHost(dir)
	if a := r.end(); a.code != 1 {
		t.Errorf("killed again: %s", a)
	}
	u.does(0, "resume", "--here", "--store", "results.db")
	u.hasSixRuns()
	u.leftAlone(h, port)
	if dirs := u.detached(h); len(dirs) > 0 {
		t.Errorf("left on the host: %v", dirs)
	}
}

func neverIn(t *testing.T, dir, secret string) {
	t.Helper()
	files := 0
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil // it was there a moment ago
		}
		files++
		if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte(secret)) {
			t.Errorf("the secret is kept in %s", path)
		}
		return nil
	}))
	if files < 5 {
		t.Errorf("only %d files are in %s", files, dir)
	}
}

// Ctrl-C ends only the following; cancel ends the sweep, of a living process and
// of a killed one, and the host is as it was found.
func testDetachedIsEnded(t *testing.T, bin string) {
	u := newUser(t, bin)
	h := u.startLab(fast)
	spec, port := u.practiceSpec()
	u.does(0, "apply", "profiling-v3", "--host", "lab")
	venv := filepath.Dir(filepath.Dir(h.Python))
	found := tree(t, venv)

	r := u.start(append(sixRuns(spec), "--detach")...)
	r.until("[1/3]")
	must(t, r.Process.Signal(syscall.SIGINT))
	a := r.end()
	if a.code != 130 || !strings.Contains(a.stderr, "only the following has ended") || strings.Contains(a.stderr, "undoing") {
		t.Errorf("Ctrl-C: %s", a)
	}
	id := u.newestSweep()
	if a := u.run("resume", id, "--here", "--store", "results.db"); a.code != 2 || !strings.Contains(a.stderr, "specrun cancel "+id) {
		t.Errorf("resume --here of what goes on: %s", a)
	}
	a = u.does(0, "cancel", id, "--store", "results.db")
	if !strings.Contains(a.stderr, "specrun resume "+id) {
		t.Errorf("want how to go on: %s", a)
	}
	if !portIsFree(port) {
		t.Error("the server was left running")
	}
	sameTree(t, found, tree(t, venv))

	// It goes on there again, is killed, and is ended nevertheless.
	r = u.start("resume", id, "--detach", "--store", "results.db")
	r.until("[2/")
	u.killOnHost(filepath.Join(h.StateDir, "detached", id))
	r.end()
	u.does(0, "cancel", id, "--store", "results.db")
	if !portIsFree(port) {
		t.Error("the server was left running")
	}
	sameTree(t, found, tree(t, venv))

	// What is missing is measured from here, now that it is a sweep like any other.
	u.does(0, "resume", id, "--store", "results.db")
	u.hasSixRuns()
	if a := u.run("cancel", id, "--store", "results.db"); a.code != 2 || !strings.Contains(a.stderr, "has ended") {
		t.Errorf("cancel of what is done: %s", a)
	}
	sameTree(t, found, tree(t, venv))
	u.does(0, "rollback", "--host", "lab")
	u.leftAlone(h, port)
}

func testDetachedCannotBegin(t *testing.T, bin string) {
	u := newUser(t, bin)
	h := u.startLab(fast)
	spec, _ := u.practiceSpec()
	for _, c := range []struct {
		name, want string
		code       int
		args       []string
	}{
		{"no build for the host", "no specrun for linux/", 1, []string{"--worker-binary", u.write("no-program", "#!/bin/sh\n")}},
		{"wrong plan", "nosuch", 2, []string{"nosuch=1"}},
	} {
		a := u.run(append(append(sixRuns(spec), "--detach"), c.args...)...)
		if a.code != c.code || !strings.Contains(a.stderr, c.want) || !strings.Contains(a.stderr, "hint: ") {
			t.Errorf("%s: want exit %d and %q: %s", c.name, c.code, c.want, a)
		}
	}
	if rows := u.does(0, "list", "--json", "--store", "results.db").lines(t, "sweep"); len(rows) > 0 {
		t.Errorf("a sweep was begun: %v", rows)
	}
	if dirs := u.detached(h); len(dirs) > 0 {
		t.Errorf("something was sent: %v", dirs)
	}
}

// On the GPU host itself --host local is the same, with --detach and without.
func testDetachedHere(t *testing.T, bin string) {
	u := newUser(t, bin)
	h := u.startLab(fast)
	for _, name := range sortedKeys(h.Env) {
		u.env = append(u.env, name+"="+h.Env[name])
	}
	spec, port := u.practiceSpec("  engine: sglang\n", fmt.Sprintf("  engine: sglang\n  python: %q\n  cwd: %q\n", h.Python, h.Cwd))
	for _, how := range [][]string{{}, {"--detach"}} {
		u.does(0, append([]string{"run", "-f", spec, "steps=1", "--repeats", "1", "--rounds", "1", "--host", "local", "--store", "results.db"}, how...)...)
	}
	for _, r := range u.does(0, "list", "--runs", "--json", "--store", "results.db").lines(t, "run") {
		if r["host"] != "local" || r["state"] != "done" {
			t.Errorf("%v", r)
		}
	}
	s, err := store.Open(context.Background(), filepath.Join(u.dir, "results.db"), store.MustExist())
	must(t, err)
	defer s.Close()
	rows, err := s.ListRuns(context.Background(), store.RunFilter{})
	must(t, err)
	if len(rows) != 2 || rows[0].Cell.Key != rows[1].Cell.Key {
		t.Errorf("%d runs, of cells with another key", len(rows))
	}
	if !portIsFree(port) {
		t.Error("the server was left running")
	}
}

// The disk of the host's state fills up: the sweep ends and says why, what it had
// measured comes home without a free byte there, and with room again it goes on.
func testDetachedFullDisk(t *testing.T, bin string) {
	u := newUser(t, bin)
	h := u.startLab(fast)
	disk := filepath.Join(u.dir, "disk")
	must(t, os.Mkdir(disk, 0o755))
	if err := syscall.Mount("none", disk, "tmpfs", 0, "size=192m"); err != nil {
		t.Fatalf("a small file system needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	h.StateDir = filepath.Join(disk, "state")
	u.hostsFile("gpu", h, h.Port)
	spec, port := u.practiceSpec()
	sweep := sixRuns(spec)
	sweep[slices.Index(sweep, "lab")] = "gpu"
	r := u.start(append(sweep, "--detach")...)
	r.until("[2/3]")
	fill, err := os.Create(filepath.Join(disk, "fill"))
	must(t, err)
	defer fill.Close()
	for chunk := make([]byte, 64<<10); err == nil; {
		_, err = fill.Write(chunk)
	}
	full := r.end()
	if full.code == 0 || !strings.Contains(full.stderr, "disk full") && !strings.Contains(full.stderr, "no space left") {
		t.Errorf("want that the disk is full: %s", full)
	}
	id := u.newestSweep()
	if a := u.does(0, "list", "--host", "gpu", "--store", "other.db"); len(u.detached(h)) > 0 && !strings.Contains(a.stderr, "fetched sweep "+id) {
		t.Errorf("nothing came from a full disk: %s", a)
	}
	must(t, fill.Truncate(0))
	// A lease whose maker could not write who it is counts for a minute, and a run
	// whose report found no room has failed.
	leases, err := filepath.Glob(filepath.Join(h.StateDir, "locks", "*", "lock.*"))
	must(t, err)
	for _, l := range leases {
		past := time.Now().Add(-3 * time.Minute)
		must(t, os.Chtimes(l, past, past))
	}
	u.does(0, "resume", id, "--retry-failed", "--store", "results.db")
	u.hasSixRuns()
	u.leftAlone(h, port)
	if dirs := u.detached(h); len(dirs) > 0 {
		t.Errorf("left on the host: %v", dirs)
	}
}

// hostsFile writes a hosts.yaml with the practice host under a name of its own,
// behind a port.
func (u *user) hostsFile(name string, h lab.Host, port int) {
	u.t.Helper()
	known, err := os.ReadFile(h.KnownHosts)
	must(u.t, err)
	keys := u.write("known_hosts", strings.ReplaceAll(string(known), ":"+strconv.Itoa(h.Port)+" ", ":"+strconv.Itoa(port)+" "))
	text := fmt.Sprintf("hosts:\n  %s:\n    address: %q\n    user: %q\n    port: %d\n    identity_file: %q\n    known_hosts: %q\n    python: %q\n    state_dir: %q\n    cwd: %q\n",
		name, h.Address, h.User, port, h.IdentityFile, keys, h.Python, h.StateDir, h.Cwd)
	if len(h.Env) > 0 {
		text += "    env:\n"
	}
	for _, k := range sortedKeys(h.Env) {
		text += fmt.Sprintf("      %s: %q\n", k, h.Env[k])
	}
	u.write("hosts.yaml", text)
}

// line is a connection to a host that can be cut.
type line struct {
	l    net.Listener
	mu   sync.Mutex
	open []net.Conn
}

func newLine(t *testing.T, to string) *line {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	n := &line{l: l}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				near.Close()
				continue
			}
			n.mu.Lock()
			n.open = append(n.open, near, far)
			n.mu.Unlock()
			for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
				all.Go(func() {
					io.Copy(pair[0], pair[1])
					near.Close()
					far.Close()
				})
			}
		}
	})
	t.Cleanup(func() {
		l.Close()
		n.cut()
		all.Wait()
	})
	return n
}

func (n *line) port() int { return n.l.Addr().(*net.TCPAddr).Port }

// cut ends every connection that is open now.
func (n *line) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.open {
		c.Close()
	}
	n.open = nil
}
