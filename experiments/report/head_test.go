package report

import (
	"testing"

	"specrun/experiments/record"
)

func TestHead_NamesWhatIsPinned(t *testing.T) {
	v := record.SweepView{
		Sweep: record.Sweep{ID: "jn3he5nls6", Name: "practice", Kind: "sweep", CreatedUs: 1_795_953_600_000_000},
		Cells: []record.Cell{
			{ID: "b", Baseline: true},
			{ID: "c2", Params: record.Params{"env.NCCL_PROTO": "Simple", "steps": int64(2), "topk": int64(1)}},
			{ID: "c3", Params: record.Params{"env.NCCL_PROTO": "Simple", "steps": int64(3), "topk": int64(2)}},
		},
		Launches: []record.Launch{{Host: "lab"}, {Host: "lab"}},
	}
	want := "jn3he5nls6 (after): practice, sweep, on lab, begun 2026-11-29T12:00:00Z, env.NCCL_PROTO=Simple"
	if got := Head(v, []string{"after"}); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for id, want := range map[string]string{"b": "jn3he5nls6/baseline", "c2": "jn3he5nls6/steps=2,topk=1", "none": ""} {
		got := CellRef(v, id)
		if got != want {
			t.Errorf("cell %s: %q, want %q", id, got, want)
		}
		if got == "" {
			continue
		}
		if c, err := FindCell(v, got[len("jn3he5nls6/"):]); err != nil || c.ID != id {
			t.Errorf("%s leads to %q, %v", got, c.ID, err)
		}
	}
	// The cells of an A/A sweep differ by their arm only.
	v.Cells = []record.Cell{{ID: "a", Params: record.Params{"arm": "a", "steps": int64(2)}}, {ID: "b", Params: record.Params{"arm": "b", "steps": int64(2)}}}
	if got := pinnedParams(v.Cells); len(got) != 1 || got["steps"] != int64(2) {
		t.Errorf("pinned %v", got)
	}
}

// What was counted is exact; what was measured has an interval.
func TestCells_CountsHaveNoInterval(t *testing.T) {
	v := newBuilder(2, 3, "interleave").rounds(3).v
	for id, d := range v.Data {
		d.Metrics = append(d.Metrics, record.Metric{Name: "completed", Unit: "requests", Value: 16, N: 1, Source: "client"})
		v.Data[id] = d
	}
	for _, row := range Summarize(v, Options{}).Cells {
		if m := row.Metrics["completed"]; m.N != 3 || m.Median != 16 || m.Lo != nil || m.Hi != nil || m.Interval != nil {
			t.Errorf("%s: completed %+v", row.name, m)
		}
		if m := row.Metrics["output_throughput"]; m.Lo == nil {
			t.Errorf("%s: output_throughput has no interval", row.name)
		}
	}
}
