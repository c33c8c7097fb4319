package report

import (
	"slices"
	"strings"
	"testing"

	"specrun/experiments/record"
)

// A column counts one way: where one row lacks the nearer source, all are shown by
// the one that all have, and where there is none that is said.
func TestSummarize_AcceptLenIsOfOneSource(t *testing.T) {
	drop := func(b *builder, run, source string) {
		d := b.v.Data[run]
		d.Metrics = slices.DeleteFunc(slices.Clone(d.Metrics), func(m record.Metric) bool { return m.Name == acceptLen && m.Source == source })
		b.v.Data[run] = d
	}
	b := newBuilder(3, 1, "grid").rounds(1)
	if s := Summarize(b.v, options()); s.Cells[1].Metrics[acceptLen].Median != accepts[1] {
		t.Errorf("all have the profiler: %v", s.Cells[1].Metrics[acceptLen])
	}
	drop(b, "r2-0", "profiler")
	s := Summarize(b.v, options())
	if s.Cells[1].Metrics[acceptLen].Median != 9.99 || s.Cells[2].Metrics[acceptLen].Median != 9.99 || strings.Contains(table(t, s), "counted by") {
		t.Errorf("one has none: %v, %v", s.Cells[1].Metrics[acceptLen], s.Cells[2].Metrics[acceptLen])
	}
	if len(b.v.Data["r1-0"].Metrics) != 5 {
		t.Errorf("the stored run was changed: %v", b.v.Data["r1-0"].Metrics)
	}
	drop(b, "r1-0", "server_log")
	if got := joined(table(t, Summarize(b.v, options()))); !strings.Contains(got, "accept len: counted by the profiler (steps=1), by the server's log (steps=2), which differ for that alone") {
		t.Error(got)
	}
}
