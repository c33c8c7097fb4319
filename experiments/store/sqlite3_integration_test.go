//go:build integration

package store

import (
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"

	"specrun/experiments/record"
)

// People look into the file with the sqlite3 program while specrun has it open.
func TestSQLite3ProgramReadsTheResults(t *testing.T) {
	program, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Fatal("the sqlite3 program is needed: apt-get install sqlite3")
	}
	s := fresh(t)
	j := begin(t, s, "sw")
	d := data()
	j.must(record.Change{Run: j.run("r1", "sw-two-a", 1, record.RunDone), Data: &d})
	for query, want := range map[string]string{
		`SELECT json_extract(params, '$.steps'), metric, printf('%.2f', value), unit FROM result WHERE metric = 'cycle_total'`: "2|cycle_total|20.14|ms/cyc\n",
		`SELECT name, value IS NULL, value_special FROM metric WHERE value_special <> ''`:                                      "accept_len|1|NaN\nrequest_rate|1|Inf\n",
		`SELECT run.state, label.name FROM run JOIN label ON label.run_id = run.id ORDER BY label.name`:                        "done|short\ndone|simulated\n",
		`SELECT datetime(created_us / 1000000, 'unixepoch') FROM sweep`:                                                        "2026-11-29 12:00:00\n",
		`PRAGMA integrity_check`: "ok\n",
	} {
		out, err := exec.Command(program, "-readonly", s.Path(), query).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", query, err, out)
			continue
		}
		if diff := cmp.Diff(want, string(out)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
}
