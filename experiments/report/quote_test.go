package report

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"specrun/experiments/record"
)

func TestSummarize_AQuoteIsShownAndNotRanked(t *testing.T) {
	v := aaView([2][]float64{{88, 88.1, 88.2}, {87, 87.1, 87.2}})
	for i := range v.Cells {
		v.Cells[i].Baseline, v.Cells[i].Params = false, record.Params{"steps": int64(i + 1)}
	}
	v.Cells = append(v.Cells, record.Cell{ID: "c3", Ord: 3, Params: record.Params{"steps": int64(1), "patches": "none"}})
	for round := 3; round < 6; round++ {
		id := fmt.Sprint("q", round)
		v.Slots = append(v.Slots, record.Slot{ID: id, CellID: "c3", Round: round})
		v.Runs = append(v.Runs, record.Run{ID: id, SlotID: id, LaunchID: id, State: record.RunDone})
		v.Data[id] = record.RunData{Metrics: []record.Metric{{Name: "output_throughput", Unit: "tok/s", Value: 94.2, Source: "client"}},
			Labels: []record.Label{{Name: "simulated"}}}
	}
	v.Sweep.Kind = "sweep"
	v.Sweep.Plan = json.RawMessage(`{"order":"interleave","rounds":3,"objective":"output_throughput","quotes":[{"of":1,"cell":{"ord":2}},{"of":0,"cell":{"ord":3}}]}`)
	s := Summarize(v, Options{})
	if s.Best != 0 || !s.Cells[2].Quotable || s.Cells[2].Best || s.Cells[1].Quotable {
		t.Errorf("best is %d, %+v", s.Best, s.Cells[2])
	}
	if got := fmt.Sprint(s.Cells[2].Labels); got != "[simulated]" {
		t.Errorf("labels %s", got)
	}
	var b strings.Builder
	if err := s.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "\npatches=none steps=1 ") || !strings.HasSuffix(b.String(), "\nquotable: 94.2 ±0.1% tok/s of 3 launches without profiling patches (steps=1)\n") {
		t.Error(b.String())
	}
	// Only the best cell's quote is one; closed slots of another's are not missing.
	v.Cells = append(v.Cells, record.Cell{ID: "c2", Ord: 2, Params: record.Params{"steps": int64(2), "patches": "none"}})
	v.Slots = append(v.Slots, record.Slot{ID: "x3", CellID: "c2", Round: 3}, record.Slot{ID: "x4", CellID: "c2", Round: 4, Closed: true})
	v.Runs = append(v.Runs, record.Run{ID: "x3", SlotID: "x3", LaunchID: "x3", State: record.RunDone})
	v.Data["x3"] = record.RunData{Metrics: []record.Metric{{Name: "output_throughput", Unit: "tok/s", Value: 91, Source: "client"}}}
	b.Reset()
	if err := Summarize(v, Options{}).WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	if strings.Count(b.String(), "quotable:") != 1 || !strings.Contains(b.String(), "\nquotable: 94.2 ±0.1% tok/s") || strings.Contains(b.String(), "no result") {
		t.Error(b.String())
	}
	delete(v.Data, "q3")
	delete(v.Data, "q4")
	delete(v.Data, "q5")
	b.Reset()
	if err := Summarize(v, Options{}).WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "\nnothing is quotable: what was measured without profiling patches (steps=2) is not the best\n") {
		t.Error(b.String())
	}
	// A best cell without profiling patches is quotable as it is.
	v.Sweep.Plan = json.RawMessage(`{"order":"interleave","rounds":3,"objective":"output_throughput","quotes":[{"of":1,"cell":{"ord":7}}]}`)
	v.Cells = v.Cells[:2]
	b.Reset()
	if err := Summarize(v, Options{}).WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(b.String(), "\nquotable: 88.1 ±0.3% tok/s of 3 launches, which has no profiling patches (steps=1)\n") {
		t.Error(b.String())
	}
}

func TestVaryingParams(t *testing.T) {
	one, two := record.Params{"steps": int64(2), "mode": "x"}, record.Params{"steps": int64(3), "mode": "x"}
	quote := record.Params{"steps": int64(2), "mode": "x", "patches": "none"}
	for want, params := range map[string][]record.Params{
		"[mode steps]":         {one},
		"[steps]":              {one, two},
		"[patches steps]":      {one, two, quote},
		"[mode patches steps]": {one, quote},
		"[]":                   {{}},
	} {
		cells := []record.Cell{{Baseline: true, Params: record.Params{"bench.requests": int64(1)}}}
		for _, p := range params {
			cells = append(cells, record.Cell{Params: p})
		}
		if got := fmt.Sprint(VaryingParams(cells)); got != want {
			t.Errorf("%v: %s, want %s", params, got, want)
		}
	}
}

// One launch is no number to quote without saying so.
func TestQuoteText_SaysWhatItRestsOn(t *testing.T) {
	lo, hi := 58.0, 59.2
	for want, m := range map[string]MetricValue{
		"58.6 tok/s of one launch, so without interval": {Unit: "tok/s", Median: 58.6, N: 1},
		"58.6 tok/s of 2 launches, so without interval": {Unit: "tok/s", Median: 58.6, N: 2},
		"58.6 ±1.0% tok/s of 3 launches":                {Unit: "tok/s", Median: 58.6, N: 3, Lo: &lo, Hi: &hi},
	} {
		if got := quoteText(m); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
