//go:build integration || soak

package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"specrun/experiments/lab"
)

// testSweepFindsTheBest measures without scale. That another program takes the
// cores for a while must not show, hence the long behind_ms.
func testSweepFindsTheBest(t *testing.T, bin string) {
	newUser(t, bin).sweepAsTheModelSays(2, func(s *lab.Settings) { s.Behind = 1000 })
}

// testSweepFindsAnother: drafts that cost little and are believed, so the more steps
// the better.
func testSweepFindsAnother(t *testing.T, bin string) {
	newUser(t, bin).sweepAsTheModelSays(4, func(s *lab.Settings) {
		s.Behind = 1000
		s.DraftStep, s.VerifyToken, s.Acceptance = 0.4, 0.5, []float64{0.9, 0.85, 0.8, 0.8}
	})
}

// sweepAsTheModelSays sweeps steps=1..4, compares each cell with the model of
// the settings, and reads the results in all the ways there are.
func (u *user) sweepAsTheModelSays(best int, edit func(*lab.Settings)) {
	t := u.t
	t.Helper()
	var model lab.Settings
	u.startLab(func(s *lab.Settings) { edit(s); model = *s })
	modelRate := func(steps int) float64 { return 1000 * model.AcceptLength(steps) / model.Cycle(steps, true, 0) }
	for steps := range 5 { // what a measurement may be off must not make another cell the best
		if steps != best && modelRate(steps) > 0.95*modelRate(best) {
			t.Fatalf("the settings make %d steps nearly as good as %d", steps, best)
		}
	}
	var want map[string]float64 // TOTAL by steps, as sqlite3 shows them
	measured(t, func(m *claims) {
		u.removeStore("results.db")
		u.does(0, "sweep", "steps=1..4", "--host", "lab", "--rounds", "1", "--store", "results.db")
		want = map[string]float64{}
		cells := u.does(0, "show", "last", "--json", "--store", "results.db").lines(t, "cell")
		if len(cells) != 5 {
			t.Fatalf("%d cells, want 4 and the baseline", len(cells))
		}
		for _, c := range cells {
			steps, speculates := number(c["params"], "steps")
			if c["baseline"] == speculates {
				t.Errorf("the baseline has no steps, the others have: %v", c["params"])
			}
			if isBest := int(steps) == best; c["best"] != isBest {
				m.errorf("steps=%v: best is %v", steps, c["best"])
			}
			rate := u.median(c, "output_throughput")
			t.Logf("steps=%v: %.1f tok/s (model %.1f)", steps, rate, modelRate(int(steps)))
			if !speculates {
				m.within("tok/s of the baseline", rate, modelRate(0), 0.03)
				if _, ok := c["metrics"].(map[string]any)["cycle_total"]; ok {
					t.Error("the baseline has a cycle_total")
				}
				continue
			}
			total := u.median(c, "cycle_total")
			m.within(fmt.Sprintf("TOTAL of steps=%v", steps), total, model.Cycle(int(steps), true, 0), 0.03)
			want[fmt.Sprint(steps)] = total
		}
	})
	u.readWithSQLite3(want)
	u.readLogs()
}

func number(object any, key string) (float64, bool) {
	m, _ := object.(map[string]any)
	v, ok := m[key].(float64)
	return v, ok
}

func (u *user) medianOr(cell map[string]any, metric string) float64 {
	m, _ := cell["metrics"].(map[string]any)
	v, _ := number(m[metric], "median")
	return v
}

func (u *user) median(cell map[string]any, metric string) float64 {
	u.t.Helper()
	v := u.medianOr(cell, metric)
	if v == 0 {
		u.t.Errorf("cell %v has no %s", cell["params"], metric)
	}
	return v
}

// readWithSQLite3 reads what a person would ask of the file.
func (u *user) readWithSQLite3(want map[string]float64) {
	t := u.t
	t.Helper()
	program, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Fatal("the sqlite3 program is needed: apt-get install sqlite3")
	}
	out, err := exec.Command(program, "-readonly", "-json", filepath.Join(u.dir, "results.db"),
		`SELECT json_extract(params, '$.steps') AS steps, value FROM result WHERE metric = 'cycle_total' AND source = 'profiler'`).CombinedOutput()
	if err != nil {
		t.Fatalf("sqlite3: %v\n%s", err, out)
	}
	var rows []struct{ Steps, Value float64 }
	must(t, json.Unmarshal(out, &rows))
	if len(rows) != len(want) {
		t.Errorf("sqlite3 finds %d rows, want %d: %s", len(rows), len(want), out)
	}
	for _, r := range rows {
		if w := want[fmt.Sprint(r.Steps)]; r.Value != w {
			t.Errorf("sqlite3 finds TOTAL %v at steps=%v, show says %v", r.Value, r.Steps, w)
		}
	}
}

// readLogs looks for the log of each launch; only patched servers print blocks.
func (u *user) readLogs() {
	t := u.t
	t.Helper()
	runs := u.does(0, "list", "--runs", "--json", "--store", "results.db").lines(t, "run")
	if len(runs) != 5 {
		t.Errorf("%d runs, want 5", len(runs))
	}
	for _, r := range runs {
		id := r["id"].(string)
		log := u.does(0, "logs", id, "--store", "results.db").stdout
		if !strings.Contains(log, "fired up and ready to roll") {
			t.Errorf("log of run %s is not the server's:\n%s", id, log)
		}
		if r["baseline"] == strings.Contains(log, "TOTAL:") {
			t.Errorf("run %s: baseline %v, and its log does not fit:\n%s", id, r["baseline"], log)
		}
		kept := u.does(0, "logs", id, "--json", "--store", "results.db").lines(t, "log")
		if len(kept) != 1 || kept[0]["bytes"] != float64(len(log)) {
			t.Errorf("log of run %s: %d bytes, described as %v", id, len(log), kept)
		}
	}
}
