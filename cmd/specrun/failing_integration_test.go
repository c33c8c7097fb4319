//go:build integration || soak

package main

import (
	"fmt"
	"strings"
	"testing"

	"specrun/experiments/lab"
)

// testFailingCells: a server that crashes, one that is never ready and a
// benchmark that stalls are results with a cause; the other cells finish, and
// when the host is well again the failed ones can be filled.
func testFailingCells(t *testing.T, bin string) {
	one, two, three := 1, 2, 3
	u := newUser(t, bin)
	h := u.startLab(func(s *lab.Settings) {
		fast(s)
		s.Failures = []lab.Failure{
			{Kind: lab.Crash, Steps: &one, Message: "out of marbles"},
			{Kind: lab.NeverReady, Steps: &two},
			{Kind: lab.Stall, Steps: &three, AfterTokens: 40},
		}
	})
	spec, port := u.practiceSpec("timeout: 20s, stall: 10s", "timeout: 3s, stall: 3s", "stall: 5s", "stall: 1s")
	a := u.does(3, "sweep", "-f", spec, "steps=1..4", "--rounds", "1", "--host", "lab", "--store", "results.db")
	for _, text := range []string{"2 runs done, 3 failed, 0 missing", "specrun resume ", "--retry-failed"} {
		if !strings.Contains(a.stderr, text) {
			t.Errorf("no %q in %s", text, a)
		}
	}
	want := map[float64]struct {
		class  string
		reason []string
		tail   string // in the end of the log
	}{
		1: {"scheduler_exception", []string{"RuntimeError: out of marbles"}, "RuntimeError: out of marbles"},
		2: {"", []string{"3s"}, "Load weight end"}, // not ready, or silent for too long
		3: {"bench_stalled", []string{"1s"}, "POST /v1/chat/completions"},
	}
	failed := 0
	table := u.does(0, "list", "--runs", "--store", "results.db").stdout
	for _, r := range u.does(0, "list", "--runs", "--json", "--store", "results.db").lines(t, "run") {
		steps, _ := number(r["params"], "steps")
		w, fails := want[steps]
		if !fails {
			if r["state"] != "done" {
				t.Errorf("steps=%v is %v: %v", steps, r["state"], r["reason"])
			}
			continue
		}
		failed++
		class, _ := r["class"].(string)
		reason, _ := r["reason"].(string)
		id, _ := r["id"].(string)
		t.Logf("steps=%v: %s: %s", steps, class, reason)
		if r["state"] != "failed" || class == "" || class == "internal" || w.class != "" && class != w.class {
			t.Errorf("steps=%v is %v %q, want failed %s", steps, r["state"], class, w.class)
		}
		if !strings.Contains(table, class) {
			t.Errorf("list does not show %s:\n%s", class, table)
		}
		for _, text := range w.reason {
			if !strings.Contains(reason, text) {
				t.Errorf("steps=%v: the reason has no %q: %s", steps, text, reason)
			}
		}
		shown := u.does(0, "show", id, "--store", "results.db").stdout
		for _, text := range []string{class, firstLine(reason), "end of the server's log"} {
			if !strings.Contains(shown, text) {
				t.Errorf("show %s has no %q:\n%s", id, text, shown)
			}
		}
		detail := u.does(0, "show", id, "--json", "--store", "results.db").lines(t, "run")[0]
		if tail := fmt.Sprint(detail["log_tail"]); !strings.Contains(tail, w.tail) {
			t.Errorf("steps=%v: the log's end has no %q: %s", steps, w.tail, tail)
		}
		if log := u.does(0, "logs", id, "--store", "results.db").stdout; !strings.Contains(log, w.tail) {
			t.Errorf("steps=%v: the log has no %q:\n%s", steps, w.tail, log)
		}
	}
	if failed != 3 {
		t.Errorf("%d failed runs, want 3", failed)
	}
	u.leftAlone(h, port)

	u.startLab(fast)
	u.does(2, "resume", "--store", "results.db") // nothing is missing
	u.does(0, "resume", "--retry-failed", "--store", "results.db")
	if done := u.slots(); len(done) != 5 {
		t.Errorf("%d slots are filled, want 5: %v", len(done), done)
	}
	u.leftAlone(h, port)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
