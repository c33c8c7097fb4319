//go:build integration || soak

package experiments_test

import (
	"context"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"specrun/experiments"
	"specrun/experiments/lab"
	"specrun/experiments/record"
)

func TestLaunches_TenLeaveNothing(t *testing.T) { launchesLeaveNothing(t, 10) }

var generation = regexp.MustCompile(`lock\.\d+`)

var anyID = regexp.MustCompile(`[0-9a-f]{10}`)

// standing is what there is of a host and its controller, both in this process,
// when nothing is measured.
type standing struct {
	files       map[string][]string // of the host, launches' own folders aside; a lock's generations have one name
	descriptors []string            // of this process: connections on both sides, files, pipes
	goroutines  int
}

func stands(t *testing.T, l *lab.Lab) standing {
	t.Helper()
	s := standing{files: map[string][]string{}}
	runs := filepath.Join(l.Host().StateDir, "runs")
	err := filepath.WalkDir(l.Dir(), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case filepath.Dir(path) == runs, path == filepath.Join(l.Dir(), "gpu", "apps"): // the latter is how the practice host imitates a card
			return fs.SkipDir
		}
		name := generation.ReplaceAllString(strings.TrimPrefix(path, l.Dir()), "lock.N")
		s.files[name] = append(s.files[name], path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && !strings.HasPrefix(to, "/proc/") { // that of the listing is gone
			s.descriptors = append(s.descriptors, to)
		}
	}
	s.goroutines = runtime.NumGoroutine()
	return s
}

// launchesLeaveNothing makes n launches in a row and looks for processes, ports,
// descriptors and files that they left, on the host and here.
func launchesLeaveNothing(t *testing.T, n int) {
	t.Setenv("TMPDIR", t.TempDir())
	l := startLab(t, 0.02, nil)
	measure := func(rounds int) (record.SweepView, *experiments.Plan) {
		p := planFor(t, l.Host(), func(s *experiments.Spec) { s.Rounds, s.Repeats = rounds, 1 },
			"steps=2", "bench.requests=1", "bench.max_tokens=24")
		db := openStore(t, filepath.Join(t.TempDir(), "results.db"))
		sum, err := experiments.Execute(context.Background(), deps(l.Host(), db), p, nil)
		if err != nil || sum.State != record.SweepDone {
			t.Fatalf("%+v, %v", sum, err)
		}
		v := settled(t, l, db, p)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		return v, p
	}
	measure(1) // brings what stays: the benchmark's client, originals of patched files
	before := stands(t, l)
	begin := time.Now()
	v, p := measure(n / 2) // with the baseline: two launches a round
	if len(v.Launches) != n || len(v.Launches) != len(p.Launches) {
		t.Fatalf("%d launches", len(v.Launches))
	}
	t.Logf("%d launches in %v", n, time.Since(begin).Round(time.Second))

	var after standing
	same := func() bool {
		after = stands(t, l)
		return len(after.descriptors) <= len(before.descriptors) && after.goroutines <= before.goroutines && len(processes(t, l)) == 0
	}
	for end := time.Now().Add(10 * time.Second); !same() && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
	}
	if left := processes(t, l); len(left) > 0 {
		t.Errorf("left running: %q", left)
	}
	if len(after.descriptors) > len(before.descriptors) {
		t.Errorf("%d descriptors were %d: %q, before %q", len(after.descriptors), len(before.descriptors), after.descriptors, before.descriptors)
	}
	if after.goroutines > before.goroutines {
		t.Errorf("%d goroutines were %d", after.goroutines, before.goroutines)
	}
	for name, paths := range after.files {
		if more := len(paths) - len(before.files[name]); more > 0 && !strings.HasSuffix(name, "/released") {
			t.Errorf("%d left on the host: %v", more, paths)
		}
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left here in %s: %v, %v", os.TempDir(), left, err)
	}
	checkFolders(t, l, v)
}

// checkFolders: each launch has one folder with the same few files, and its port
// is free.
func checkFolders(t *testing.T, l *lab.Lab, v record.SweepView) {
	t.Helper()
	shape := func(id string) string {
		dir := filepath.Join(l.Host().StateDir, "runs", id)
		var names []string
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				names = append(names, anyID.ReplaceAllString(strings.TrimPrefix(path, dir), "ID"))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(names, " ")
	}
	first := shape(v.Launches[0].ID)
	for _, x := range v.Launches {
		if got := shape(x.ID); got != first {
			t.Errorf("launch %s has %s, the first one has %s", x.ID, got, first)
		}
		if strings.Contains(first, ".sh") || strings.Contains(first, ".new") {
			t.Errorf("launch %s left a launcher or half a file: %s", x.ID, first)
		}
		raw, err := os.ReadFile(filepath.Join(l.Host().StateDir, "runs", x.ID, "port"))
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strings.TrimSpace(string(raw))))
		if err != nil {
			t.Errorf("port of launch %s: %v", x.ID, err)
			continue
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	entries, err := os.ReadDir(filepath.Join(l.Host().StateDir, "runs"))
	if err != nil || len(entries) < len(v.Launches) {
		t.Errorf("%s folders of %d launches, %v", strconv.Itoa(len(entries)), len(v.Launches), err)
	}
}
