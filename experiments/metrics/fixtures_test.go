package metrics_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"specrun/experiments/metrics"
	"specrun/experiments/metrics/metricstest"
)

// TestFixtures compares the JSON of each sample's report with its expectation.
func TestFixtures(t *testing.T) {
	for _, want := range metricstest.Expectations(t, "testdata") {
		t.Run(want.File, func(t *testing.T) {
			want.Compare(t, asJSON(t, parseFile(t, want.File)))
		})
	}
}

func parseFile(t *testing.T, name string) *metrics.Report {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	rep, err := metrics.Parse(bytes.NewReader(src), name)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// asJSON sends a report through its JSON form, which is what users see.
func asJSON(t *testing.T, rep *metrics.Report) map[string]any {
	t.Helper()
	b, err := json.Marshal(rep)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return m
}
