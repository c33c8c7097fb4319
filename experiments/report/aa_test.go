package report

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"specrun/experiments/record"
)

// aaView has the values of arm a and arm b by cell; the first is the baseline.
func aaView(cells ...[2][]float64) record.SweepView {
	v := record.SweepView{Sweep: record.Sweep{ID: "aa1", Kind: "aa", Plan: json.RawMessage(`{"order":"interleave","rounds":3,"objective":"output_throughput"}`)},
		Data: map[string]record.RunData{}}
	for i, cell := range cells {
		for arm, values := range cell {
			ord := 2*i + arm
			c := record.Cell{ID: fmt.Sprint("c", ord), Ord: ord, Baseline: i == 0, Params: record.Params{"arm": []string{"a", "b"}[arm]}}
			if i > 0 {
				c.Params["steps"] = int64(i)
			}
			v.Cells = append(v.Cells, c)
			for round, value := range values {
				id := fmt.Sprintf("c%d.r%d", ord, round)
				v.Slots = append(v.Slots, record.Slot{ID: id, CellID: c.ID, Round: round})
				v.Runs = append(v.Runs, record.Run{ID: id, SlotID: id, LaunchID: id, State: record.RunDone})
				v.Data[id] = record.RunData{Metrics: []record.Metric{{Name: "output_throughput", Unit: "tok/s", Value: value, Source: "client"}}}
			}
		}
	}
	return v
}

func TestAA_CountsWhatIsCalled(t *testing.T) {
	quiet := [2][]float64{{100, 101, 99}, {100.5, 100, 100}}
	far := [2][]float64{{100, 101, 99}, {110, 111, 109}}
	for name, c := range map[string]struct {
		view          record.SweepView
		called, of    int
		text, without string
	}{
		"quiet":      {aaView(quiet, quiet, quiet), 0, 3, "0 of 3 cells called different from itself", "more than chance"},
		"one called": {aaView(quiet, far), 1, 2, "steps=1: arm b is +10.0 % from arm a", "more than chance"},
		"all called": {aaView(far, far, far), 3, 3, "more than chance explains", "--rounds"},
		"one round":  {aaView([2][]float64{{100}, {130}}), 0, 0, "one launch of each arm", "called different from"},
	} {
		s := Summarize(c.view, Options{})
		l := s.AA()
		var b strings.Builder
		if err := s.WriteTable(&b); err != nil {
			t.Fatal(err)
		}
		if s.Best >= 0 || strings.Contains(b.String(), "best is") {
			t.Errorf("%s: one of two equal cells is best", name)
		}
		if l.Called != c.called || l.Compared != c.of || !strings.Contains(b.String(), c.text) || strings.Contains(b.String(), c.without) {
			t.Errorf("%s: %d of %d\n%s", name, l.Called, l.Compared, b.String())
		}
		if _, err := json.Marshal(l); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAA_NoiseIsOfBothArmsTogether(t *testing.T) {
	l := Summarize(aaView([2][]float64{{100, 102}, {98, 100}}), Options{}).AA()
	// Four launches of one cell: 100, 102, 98, 100.
	if l.NoiseDF != 3 || math.Abs(*l.NoiseSD-0.01633) > 1e-4 {
		t.Errorf("%v on %d", *l.NoiseSD, l.NoiseDF)
	}
}
