//go:build integration || soak

package main

import (
	"path/filepath"
	"testing"

	"specrun/experiments/metrics/metricstest"
)

// testParse reads all log and benchmark samples in one command.
func testParse(t *testing.T, bin string) {
	samples, err := filepath.Abs("../../experiments/metrics/testdata")
	must(t, err)
	expectations := metricstest.Expectations(t, samples)
	u := newUser(t, bin)
	u.dir = samples // so that the names are as expected
	args := []string{"parse", "--json"}
	for _, e := range expectations {
		args = append(args, e.File)
	}
	a := u.does(0, args...)
	got := a.lines(t, "parse")
	if len(got) != len(expectations) {
		t.Fatalf("%d lines for %d files", len(got), len(expectations))
	}
	for i, e := range expectations {
		t.Run(e.File, func(t *testing.T) { e.Compare(t, got[i]) })
	}
	if s := a.lines(t, "summary"); len(s) != 1 || s[0]["ok"] != true {
		t.Errorf("summary %v", s)
	}
}
