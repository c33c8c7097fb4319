//go:build integration || soak

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// testTwoAtOnce: whatever two controllers do at once, one of them or both
// succeed, and who does not is told who is in the way.
func testTwoAtOnce(t *testing.T, bin string) {
	u := newUser(t, bin)
	h := u.startLab(fast)
	spec, port := u.practiceSpec()
	pristine := tree(t, filepath.Dir(filepath.Dir(h.Python)))

	t.Run("apply", func(t *testing.T) {
		for range 3 {
			one, two := u.start("apply", "profiling-v4", "--host", "lab"), u.start("apply", "profiling-v3", "--host", "lab")
			var want []string
			for _, a := range []answer{one.end(), two.end()} {
				switch a.code {
				case 0:
					want = append(want, a.args[1])
				case 4, 6:
					if !strings.Contains(a.stderr, "eagle_worker") && !strings.Contains(a.stderr, "speculative") || !strings.Contains(a.stderr, "hint: ") {
						t.Errorf("what is in the way, and what next? %s", a)
					}
				default:
					t.Errorf("want exit 0, 4 or 6: %s", a)
				}
			}
			files := u.does(0, "status", "--host", "lab", "--json").lines(t, "file")
			if len(files) != 1 || files[0]["verdict"] != "patched" || !sameSet(files[0]["patches"], want) || len(want) == 0 {
				t.Errorf("after applying %v: %v", want, files)
			}
			u.does(0, "rollback", "--host", "lab")
			sameTree(t, pristine, tree(t, filepath.Dir(filepath.Dir(h.Python))))
		}
	})

	t.Run("sweep", func(t *testing.T) {
		sweep := func(store string) *running {
			return u.start("sweep", "-f", spec, "steps=1..2", "--rounds", "1", "--host", "lab", "--store", store)
		}
		both := []*running{sweep("one.db"), sweep("two.db")}
		finished := 0
		for i, r := range both {
			a := r.end()
			if a.code == 0 {
				finished++
				continue
			}
			holder := fmt.Sprintf("pid %d on ", both[1-i].Process.Pid)
			if a.code != 6 || !strings.Contains(a.stderr, holder) || !strings.Contains(a.stderr, "hint: ") {
				t.Errorf("want exit 6 and the holder (%s): %s", holder, a)
			}
		}
		if finished == 0 {
			t.Error("neither has finished")
		}
		for _, store := range []string{"one.db", "two.db"} {
			for _, run := range u.does(0, "list", "--runs", "--json", "--store", store).lines(t, "run") {
				if run["state"] == "failed" {
					t.Errorf("%s: the other sweep is no result: %v", store, run["reason"])
				}
			}
		}
		u.leftAlone(h, port)
	})

	t.Run("resume", func(t *testing.T) {
		r := u.start(sixRuns(spec)...)
		r.until("[1/")
		must(t, r.Process.Signal(syscall.SIGKILL))
		r.end()
		one, two := u.start("resume", "--store", "results.db"), u.start("resume", "--store", "results.db")
		codes := []int{}
		for _, a := range []answer{one.end(), two.end()} {
			codes = append(codes, a.code)
			if a.code == 6 && (!strings.Contains(a.stderr, "is worked on by pid ") || !strings.Contains(a.stderr, "hint: ")) {
				t.Errorf("who works on it, and what next? %s", a)
			}
		}
		if slices.Sort(codes); !slices.Equal(codes, []int{0, 6}) {
			t.Errorf("two resumes end with %v, want one 0 and one 6", codes)
		}
		u.hasSixRuns()
		u.leftAlone(h, port)
	})
}

func sameSet(list any, want []string) bool {
	all, _ := list.([]any)
	var got []string
	for _, v := range all {
		got = append(got, fmt.Sprint(v))
	}
	slices.Sort(got)
	slices.Sort(want)
	return slices.Equal(got, want)
}
