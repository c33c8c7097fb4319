package report

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"specrun/experiments/record"
)

func TestTable_Golden(t *testing.T) {
	failed := newBuilder(4, 2, "interleave")
	for round := range 2 {
		for cell := range 4 {
			if cell == 2 && round == 1 {
				failed.fail(cell, round)
				continue
			}
			failed.run(cell, round, 1+0.001*float64(round*cell))
		}
	}
	broken := failed.v.Data["r1-0"]
	broken.Checks = []record.TrustCheck{{Name: "accept-len-sources", Outcome: record.Fail, Explanation: "profiler 0.98, server log 2.10"}, {Name: "server-alive", Outcome: record.Pass}}
	broken.Labels = append(broken.Labels, record.Label{Name: "noisy", Reason: "4.1 % between requests"})
	failed.v.Data["r1-0"] = broken

	pays := newBuilder(3, 3, "interleave")
	for round, drift := range []float64{1, 1.1, 0.95} {
		noise := [...]float64{1.001, 0.9991, 1.0003}
		pays.run(0, round, 0.8*drift*noise[round]).run(1, round, drift*noise[(round+1)%3]).run(2, round, 1.001*drift*noise[(round+2)%3])
	}
	other := newBuilder(3, 3, "interleave").rounds(3)
	other.v.Sweep.Plan = json.RawMessage(`{"objective":"itl_p99","order":"interleave","rounds":3}`)
	for id, d := range other.v.Data {
		d.Metrics = append(d.Metrics, record.Metric{Name: "itl_p99", Unit: "ms", Value: 30, Source: "client"}, record.Metric{Name: "tpot", Unit: "ms", Value: 10, Source: "client"})
		other.v.Data[id] = d
	}
	open := newBuilder(3, 2, "interleave").run(0, 0, 1).run(1, 0, 1).run(2, 0, 1)
	open.v.Runs = append(open.v.Runs, record.Run{ID: "cut", SlotID: "s0-1", Attempt: 1, LaunchID: "l0-0", State: record.RunCut})

	for name, b := range map[string]*builder{
		"three-rounds.txt":   newBuilder(5, 3, "interleave").rounds(3),
		"six-rounds.txt":     newBuilder(3, 6, "interleave").rounds(6),
		"one-launch.txt":     newBuilder(5, 1, "interleave").rounds(1),
		"failed-runs.txt":    failed,
		"baseline-best.txt":  pays,
		"interrupted.txt":    open,
		"objective.txt":      other,
		"nothing-yet.txt":    newBuilder(3, 2, "interleave"),
		"not-interleave.txt": newBuilder(3, 3, "grid").rounds(3),
	} {
		golden(t, name, text(t, Summarize(b.v, options())))
	}
}

// The shape that programs rely on, key by key.
func TestCellRow_JSONShape(t *testing.T) {
	s := Summarize(newBuilder(5, 3, "interleave").rounds(3).v, options())
	var got map[string]any
	line, err := json.Marshal(s.Cells[2])
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(line, &got); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{"params": map[string]any{"steps": 2.0, "topk": 1.0}, "baseline": false, "best": true, "separable_from_next": true,
		"runs": 3.0, "launches": 3.0, "failed": 0.0, "labels": []any{"few-rounds", "simulated"}} {
		if diff := cmp.Diff(want, got[key]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", key, diff)
		}
	}
	m := got["metrics"].(map[string]any)["cycle_total"].(map[string]any)
	if m["unit"] != "ms/cyc" || m["n"] != 3.0 || m["interval"] != "t-log" || !(m["lo"].(float64) < m["median"].(float64)) || !(m["median"].(float64) < m["hi"].(float64)) {
		t.Errorf("cycle_total = %v", m)
	}
	ratio := got["vs_baseline"].(map[string]any)["output_throughput"].(float64)
	if want := (1.874 / 20.1) / (1 / 11.3); math.Abs(ratio/want-1) > 0.005 {
		t.Errorf("vs_baseline = %v, want %v", ratio, want)
	}
	base := s.Cells[0]
	if _, ok := base.Metrics["cycle_total"]; ok || !base.Baseline || base.VsBaseline != nil {
		t.Errorf("the baseline has a cycle_total or a ratio to itself: %+v", base)
	}
	line, err = json.Marshal(base)
	if err != nil || strings.Contains(string(line), "cycle_total") {
		t.Errorf("baseline: %s, %v", line, err)
	}
}

func bestName(s *Summary) string {
	name := ""
	for i, c := range s.Cells {
		if c.Best != (i == s.Best) {
			return "the mark and the index disagree"
		}
		if c.Best {
			name += c.name
		}
	}
	return name
}

func TestSummarize_Best(t *testing.T) {
	objective := func(b *builder, name string) *builder {
		b.v.Sweep.Plan = json.RawMessage(`{"objective":"` + name + `","order":"interleave","rounds":3}`)
		return b
	}
	tie := newBuilder(3, 1, "grid").run(1, 0, 1).run(2, 0, 1)
	for _, id := range []string{"r1-0", "r2-0"} {
		tie.v.Data[id] = record.RunData{Metrics: []record.Metric{{Name: "output_throughput", Unit: "tok/s", Value: 5}}}
	}
	sameSteps := objective(newBuilder(3, 3, "interleave").rounds(3), "cycle_total")
	for id, d := range sameSteps.v.Data {
		d.Provenance = []record.Fact{{Group: "flags", Key: "--speculative-num-steps", Value: "2"}}
		sameSteps.v.Data[id] = d
	}
	for _, tc := range []struct {
		name    string
		b       *builder
		want    string
		verdict string
	}{
		{"highest tok/s", newBuilder(5, 3, "interleave").rounds(3), "steps=2", ", separable: "},
		{"lowest tpot, stored as its mean", objective(newBuilder(5, 3, "interleave").rounds(3), "tpot"), "steps=2", " ms"},
		{"cycle_total of different steps", objective(newBuilder(5, 3, "interleave").rounds(3), "cycle_total"), "", "does not rank cells of different steps"},
		{"cycle_total of equal steps", sameSteps, "steps=1", "ms/cyc"},
		{"a cell with a failed run is out", newBuilder(4, 2, "interleave").run(2, 0, 1).fail(2, 1).run(3, 0, 1).run(1, 0, 1.2), "steps=3", "not ranked for failed runs: steps=2"},
		{"a failed run that was superseded is not", superseded(), "steps=2", "best is steps=2"},
		{"a tie goes to the first", tie, "steps=1", "next is steps=2 with 5.00"},
		{"baseline", newBuilder(3, 1, "grid").run(0, 0, 0.5).run(1, 0, 1).run(2, 0, 1), "baseline", "speculation is not shown to pay: best"},
		{"baseline, surely", slowed(), "baseline", "speculation does not pay: best"},
		{"only the baseline measured", newBuilder(3, 1, "grid").run(0, 0, 1), "baseline", "best is baseline"},
		{"nothing measured", newBuilder(3, 1, "grid"), "", "no best cell"},
		{"unknown objective", objective(newBuilder(3, 1, "grid").rounds(1), "goodput"), "", "none without a failed run has goodput"},
	} {
		s := Summarize(tc.b.v, options())
		if got := bestName(s); got != tc.want {
			t.Errorf("%s: best is %q, want %q", tc.name, got, tc.want)
		}
		if !strings.Contains(s.Verdict, tc.verdict) {
			t.Errorf("%s: verdict %q does not contain %q", tc.name, s.Verdict, tc.verdict)
		}
	}
	if s := Summarize(tie.v, options()); strings.Contains(s.Verdict, "speculation does not pay") {
		t.Errorf("verdict: %s", s.Verdict)
	}
	only := Summarize(newBuilder(1, 1, "grid").run(0, 0, 1).v, options())
	if strings.Contains(only.Verdict, "does not pay") {
		t.Errorf("with nothing but a baseline: %s", only.Verdict)
	}
}

// slowed is a sweep in which speculation takes more time in each round.
func slowed() *builder {
	b := newBuilder(2, 3, "interleave")
	for round, noise := range []float64{1, 1.002, 0.999} {
		b.run(0, round, 0.5*noise).run(1, round, 1/noise)
	}
	return b
}

func superseded() *builder {
	b := newBuilder(3, 1, "grid").run(1, 0, 1).fail(2, 0)
	b.v.Runs[len(b.v.Runs)-1].State = record.RunSuperseded
	b.v.Runs[len(b.v.Runs)-1].ID = "old"
	return b.run(2, 0, 1)
}

func TestSummarize_SeparableFromNext(t *testing.T) {
	text := func(b *bool) string {
		if b == nil {
			return "unknown"
		}
		return map[bool]string{true: "yes", false: "no"}[*b]
	}
	for name, tc := range map[string]struct {
		b    *builder
		want string
	}{
		"one launch":           {newBuilder(5, 1, "interleave").rounds(1), "unknown"},
		"three rounds, paired": {newBuilder(5, 3, "interleave").rounds(3), "yes"},
		// The same numbers, but the rounds were not interleaved: the drift is noise.
		"three rounds, not paired": {newBuilder(5, 3, "grid").rounds(3), "no"},
		"one cell":                 {newBuilder(2, 3, "grid").run(1, 0, 1).run(1, 1, 1), "unknown"},
	} {
		s := Summarize(tc.b.v, options())
		if got := text(s.Cells[s.Best].SeparableFromNext); got != tc.want {
			t.Errorf("%s: %s, want %s (%s)", name, got, tc.want, s.Verdict)
		}
	}
}

// Repeats of a launch are one value; launches are what n counts.
func TestSummarize_RepeatsAreNotLaunches(t *testing.T) {
	b := newBuilder(2, 1, "grid").run(1, 0, 1)
	for i, v := range []float64{80, 100} {
		id := string(rune('x' + i))
		b.v.Slots = append(b.v.Slots, record.Slot{ID: id, CellID: "c1", Repeat: i + 1})
		b.v.Runs = append(b.v.Runs, record.Run{ID: id, SlotID: id, LaunchID: "l1-0", State: record.RunDone})
		b.v.Data[id] = record.RunData{Metrics: []record.Metric{{Name: "output_throughput", Unit: "tok/s", Value: v, Source: "client"}}}
	}
	row := Summarize(b.v, options()).Cells[1]
	m := row.Metrics["output_throughput"]
	if row.Runs != 3 || row.Launches != 1 || m.N != 1 || m.Interval != nil {
		t.Errorf("row = %+v", row)
	}
	if want := 1000 * 1.56 / 17.9; math.Abs(m.Median-want) > 1e-9 { // the middle of 80, 87.15, 100
		t.Errorf("median = %v, want %v", m.Median, want)
	}
}

func TestSummarize_SourcesAreNotMixed(t *testing.T) {
	b := newBuilder(2, 2, "grid").run(1, 0, 1).run(1, 1, 1)
	if m := Summarize(b.v, options()).Cells[1].Metrics["accept_len"]; m.Median != 1.56 {
		t.Errorf("accept_len = %v, want the profiler's 1.56", m.Median)
	}
	d := b.v.Data["r1-0"]
	d.Metrics[1].Value = math.NaN() // the profiler's, of one run: now the server log knows more
	if m := Summarize(b.v, options()).Cells[1].Metrics["accept_len"]; m.Median != 9.99 || m.N != 2 {
		t.Errorf("accept_len = %+v, want the server log's 9.99 of both launches", m)
	}
}

func TestSummarize_BaselineOfEqualLoad(t *testing.T) {
	var v record.SweepView
	v.Data = map[string]record.RunData{}
	for i, c := range []struct {
		steps, conc int64
		tps         float64
	}{{0, 1, 100}, {0, 8, 400}, {2, 1, 110}, {2, 8, 300}} {
		id := string(rune('a' + i))
		cell := record.Cell{ID: id, Ord: i, Baseline: c.steps == 0, Params: record.Params{"bench.concurrency": c.conc}}
		if c.steps > 0 {
			cell.Params["steps"] = c.steps
		}
		v.Cells = append(v.Cells, cell)
		v.Slots = append(v.Slots, record.Slot{ID: id, CellID: id})
		v.Runs = append(v.Runs, record.Run{ID: id, SlotID: id, LaunchID: id, State: record.RunDone})
		v.Data[id] = record.RunData{Metrics: []record.Metric{{Name: "output_throughput", Unit: "tok/s", Value: c.tps}}}
	}
	s := Summarize(v, options())
	if a, b := s.Cells[2].VsBaseline["output_throughput"], s.Cells[3].VsBaseline["output_throughput"]; math.Abs(a-1.1) > 1e-9 || math.Abs(b-0.75) > 1e-9 {
		t.Errorf("ratios %v and %v, want 1.1 and 0.75", a, b)
	}
	if s.Cells[0].name != "baseline bench.concurrency=1" || s.Cells[3].name != "bench.concurrency=8" {
		t.Errorf("names %q, %q", s.Cells[0].name, s.Cells[3].name)
	}
}

func TestTable_LabelsOfAllRowsAreOnlyInTheFootnotes(t *testing.T) {
	b := newBuilder(5, 1, "grid").run(0, 0, 1)
	for i := range 4 {
		b.run(i+1, 0, 1, record.Label{Name: "noisy", Reason: "4 %"}, record.Label{Name: "indicative", Reason: "light"})
	}
	var out bytes.Buffer
	if err := Summarize(b.v, options()).WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	table, notes, _ := strings.Cut(out.String(), "\n\n")
	if strings.Contains(table, "simulated") || !strings.Contains(table, "indicative, noisy\n") || strings.Contains(table, "launches") {
		t.Errorf("table:\n%s", table)
	}
	for _, line := range []string{"  indicative: light (steps=1..4)\n", "  noisy: 4 % (steps=1..4)\n", "  simulated: practice host (all cells) -> for trying specrun only\n"} {
		if !strings.Contains(notes, line) {
			t.Errorf("no %q in:\n%s", line, notes)
		}
	}
}

func TestCellsText(t *testing.T) {
	for _, c := range []struct{ names, want string }{
		{"baseline", "baseline"}, {"steps=1 steps=2 steps=3 steps=4", "steps=1..4"}, {"baseline steps=1 steps=2", "baseline, steps=1..2"},
		{"steps=1 steps=3", "steps=1, steps=3"}, {"mode=a mode=b", "mode=a, mode=b"}, {"steps=1 topk=2", "steps=1, topk=2"},
		{"steps=1 steps=3 steps=5 steps=7", "4 cells"}, {"x=0.5 x=1", "x=0.5, x=1"},
	} {
		if got := cellsText(strings.Fields(c.names)); got != c.want {
			t.Errorf("%s: %q, want %q", c.names, got, c.want)
		}
	}
}

func TestWrap(t *testing.T) {
	long := strings.Repeat("y", 30)
	for _, c := range []struct{ text, want string }{
		{"  a short one", "  a short one"},
		{"  one two three four five", "  one two three four|     five"},
		{"  one two three fou", "  one two three fou"},
		{"  one " + long + " two three", "  one|     " + long + "|     two three"},
		{"  one two three 35.7 % of", "  one two three|     35.7 % of"},
		{"  größer größer größer", "  größer größer|     größer"},
	} {
		if got := strings.Join(Wrap(c.text, 20, "     "), "|"); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

// A host that changed in the middle of a sweep concerns every cell.
func TestSummarize_ABaselineThatMovesIsALabelOfAllCells(t *testing.T) {
	for slower, want := range map[float64]bool{1: false, 1.08: true} {
		b := newBuilder(3, 4, "interleave")
		for round, noise := range []float64{1, 1.002, 0.999, 1.001} {
			if round >= 2 {
				noise *= slower
			}
			for cell := range 3 {
				b.run(cell, round, noise)
			}
		}
		s := Summarize(b.v, options())
		for _, row := range s.Cells {
			if slices.Contains(row.Labels, "drift") != want {
				t.Errorf("%s, %v times slower: labels %v", row.name, slower, row.Labels)
			}
		}
		var text bytes.Buffer
		if err := s.WriteTable(&text); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(text.String(), "drift: tok/s of the baseline moved by -7.3 % between rounds 2 and 3"); got != want {
			t.Errorf("%v times slower:\n%s", slower, text.String())
		}
	}
}
