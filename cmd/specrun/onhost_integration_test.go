//go:build integration || soak

package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"specrun/experiments/lab"
)

// tree is all of the folders: names, modes, owners, and the content's hash of
// each file. What a starting interpreter caches by itself is left out. A folder
// that is not there is empty.
func tree(t *testing.T, roots ...string) string {
	t.Helper()
	var b strings.Builder
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) && path == root {
				return nil
			}
			if err != nil {
				return err
			}
			if d.IsDir() && d.Name() == "__pycache__" {
				return fs.SkipDir
			}
			sum := ""
			if d.Type().IsRegular() {
				content, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				sum = fmt.Sprintf("%x", sha256.Sum256(content))
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%s %v %s %s\n", path, info.Mode(), ownerOf(info), sum)
			return nil
		})
		must(t, err)
	}
	return b.String()
}

func ownerOf(info fs.FileInfo) string {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "unknown"
	}
	return fmt.Sprintf("%d:%d", s.Uid, s.Gid)
}

// sameTree fails with the lines that differ.
func sameTree(t *testing.T, before, after string) {
	t.Helper()
	if before == after {
		return
	}
	lines := map[string]int{}
	for l := range strings.Lines(before) {
		lines[l]--
	}
	for l := range strings.Lines(after) {
		lines[l]++
	}
	for _, l := range sortedKeys(lines) {
		if n := lines[l]; n != 0 {
			t.Errorf("%+d %s", n, strings.TrimSpace(l))
		}
	}
}

// launched lists the processes that came from launches on the user's practice host.
func (u *user) launched() []string {
	u.t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	must(u.t, err)
	var out []string
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil || !strings.Contains("\x00"+string(raw), "\x00SPECRUN_RUN_ID=") || !strings.Contains(string(raw), u.labDir()) {
			continue // ended meanwhile, or somebody else's
		}
		if argv := argvOf(filepath.Dir(f)); len(argv) > 0 {
			out = append(out, filepath.Base(filepath.Dir(f))+" "+strings.Join(argv, " "))
		}
	}
	return out
}

// argvOf reads the argument list of /proc/PID; nil of one that has ended.
func argvOf(proc string) []string {
	raw, err := os.ReadFile(filepath.Join(proc, "cmdline"))
	if err != nil || len(raw) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00")
}

// leftAlone checks that nothing of the practice host's launches runs, that it
// holds neither lock nor lease, that the port is free and the files pristine.
func (u *user) leftAlone(h lab.Host, port int) {
	u.t.Helper()
	// Stop proves its end; a keeper that watched it may need a moment more.
	var left []string
	gone := eventually(func() bool {
		left = u.launched()
		return len(left) == 0
	})
	if !gone {
		u.t.Errorf("left running: %s", strings.Join(left, "\n"))
	}
	// A lock whose script is dead is free; a lease has to be given back.
	for _, l := range u.does(0, "lock", "status", "--host", "lab", "--json").lines(u.t, "lock") {
		if l["held"] != false {
			u.t.Errorf("still held: %v", l)
		}
	}
	leases, err := filepath.Glob(filepath.Join(h.StateDir, "locks", "*", "lock.*", "expires"))
	must(u.t, err)
	for _, l := range leases {
		if _, err := os.Stat(filepath.Join(filepath.Dir(l), "released")); err != nil {
			u.t.Errorf("still held: %s", filepath.Dir(l))
		}
	}
	if !portIsFree(port) {
		u.t.Errorf("port %d is taken", port)
	}
	for _, f := range u.does(0, "status", "--host", "lab", "--json").lines(u.t, "file") {
		if f["verdict"] != "pristine" {
			u.t.Errorf("%v is %v", f["path"], f["verdict"])
		}
	}
}

// freePort is below the range of outgoing connections, so that none of them
// takes it.
func freePort(t *testing.T) int {
	t.Helper()
	for range 100 {
		port := 20000 + rand.IntN(9000)
		if portIsFree(port) {
			return port
		}
	}
	t.Fatal("no free port from 20000 to 29000")
	return 0
}

func portIsFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
