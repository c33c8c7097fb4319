package bench_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"specrun/experiments/bench"
	"specrun/remote"
)

// Each build is pushed once and is some 20 MB. With a push go those that were not
// used for a month, but for one that a sweep on the host by itself runs with.
func TestEnsureWorker_ForgetsOldBuilds(t *testing.T) {
	onLinux(t)
	for _, shell := range [][]string{{"dash"}, {"bash"}, {"busybox", "sh"}} {
		path, err := exec.LookPath(shell[0])
		if err != nil {
			continue
		}
		t.Run(shell[0], func(t *testing.T) {
			t.Parallel()
			h := remote.Local(remote.LocalConfig{Name: "here", Dir: t.TempDir(), Shell: append([]string{path}, shell[1:]...)})
			t.Cleanup(func() { h.Close() })
			state := filepath.Join(t.TempDir(), "the state")
			push := func(n int) string {
				t.Helper()
				build := filepath.Join(t.TempDir(), "specrun")
				if err := os.WriteFile(build, fmt.Appendf(nil, "#!/bin/sh\necho %d\n", n), 0o700); err != nil {
					t.Fatal(err)
				}
				worker, err := bench.EnsureWorker(t.Context(), h, state, func(string, string) (string, error) { return build, nil })
				if err != nil {
					t.Fatal(err)
				}
				return worker
			}
			age := func(path string, days int) {
				t.Helper()
				at := time.Now().Add(-time.Duration(days)*24*time.Hour - time.Hour)
				if err := os.Chtimes(path, at, at); err != nil {
					t.Fatal(err)
				}
			}
			unused, goesOn, young := push(1), push(2), push(3)
			folder := filepath.Join(state, "detached", "k3v7")
			if err := os.MkdirAll(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			theirs, half := filepath.Join(filepath.Dir(unused), "README"), filepath.Join(filepath.Dir(unused), ".0123456789ab.X.new")
			for path, text := range map[string]string{filepath.Join(folder, "worker"): goesOn, theirs: "theirs", half: "half"} {
				if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			age(unused, 30)
			age(goesOn, 90)
			age(young, 29)
			age(theirs, 90)
			age(half, 1)
			last := push(4)
			for path, want := range map[string]bool{unused: false, goesOn: true, young: true, last: true, theirs: true, half: false} {
				if _, err := os.Stat(path); (err == nil) != want {
					t.Errorf("%s: %v, want it there: %v", strings.TrimPrefix(path, state), err, want)
				}
			}
			// What is used is young again.
			age(young, 60)
			if err := bench.Start(t.Context(), h, young, filepath.Join(state, "runs", "r"), job(newFake(t, five))); err == nil {
				t.Error("a program that is no worker began")
			}
			push(5)
			if _, err := os.Stat(young); err != nil {
				t.Errorf("a build that was just used: %v", err)
			}
		})
	}
}
