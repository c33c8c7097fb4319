package report

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"specrun/experiments/record"
	"specrun/experiments/stats"
)

// moved is a sweep whose host gets slower by a tenth after some rounds.
func moved(cells, rounds, after int) *builder {
	b := newBuilder(cells, rounds, "interleave")
	noise := [...]float64{0, 0.001, 0.0003, 0.0008, 0.0005, 0.0002, 0.0009}
	for round := range rounds {
		slower := 1.0
		if round >= after {
			slower = 1.1
		}
		for cell := range cells {
			b.run(cell, round, slower*(1+noise[(cell*2+round*3)%len(noise)]))
		}
	}
	return b
}

func TestSummarize_DriftNamesItsRounds(t *testing.T) {
	s := Summarize(moved(3, 6, 4).v, options())
	got := joined(table(t, s))
	if !strings.Contains(got, "drift: tok/s of the baseline moved by -9.") || !strings.Contains(got, "between rounds 4 and 5") || !strings.Contains(got, "specrun show swp1 --normalise") || strings.Contains(got, "is off") || strings.Contains(got, "far from") {
		t.Errorf("%s", got)
	}
	// A cell that was measured before it only is not concerned.
	b := moved(3, 6, 4)
	b.v.Runs = slices.DeleteFunc(b.v.Runs, func(r record.Run) bool { return r.SlotID == "s2-3" || r.SlotID == "s2-4" || r.SlotID == "s2-5" })
	s = Summarize(b.v, options())
	if slices.Contains(s.Cells[2].Labels, "drift") || !slices.Contains(s.Cells[1].Labels, "drift") {
		t.Errorf("labels %v, %v", s.Cells[1].Labels, s.Cells[2].Labels)
	}
	// Three rounds show it with memory only.
	for _, o := range []Options{options(), remembering(stats.Noise{SD: 0.002, DF: 30, Basis: "36 launches of 6 cells"})} {
		s := Summarize(moved(2, 3, 2).v, o)
		if got := slices.Contains(s.Cells[1].Labels, "drift"); got != (o.Noise != nil) {
			t.Errorf("with memory %v: %v", o.Noise != nil, s.Cells[1].Labels)
		}
	}
}

func TestSummarize_Normalised(t *testing.T) {
	o := options()
	o.Normalise = true
	s := Summarize(moved(3, 6, 3).v, o)
	for _, row := range s.Cells {
		raw, n := row.Metrics["output_throughput"], row.Normalised["output_throughput"]
		if spread := *n.Hi / *n.Lo - 1; spread > 0.005 || row.Outliers != nil || *raw.Hi / *raw.Lo - 1 < 0.08 || n.N != 6 {
			t.Errorf("%s: %v to %v, raw %v to %v", row.name, *n.Lo, *n.Hi, *raw.Lo, *raw.Hi)
		}
		if _, ok := row.Normalised["cycle_total"]; ok {
			t.Errorf("%s: a baseline has no cycle to divide by", row.name)
		}
	}
	// The ratio stays what it was, round by round.
	ratio := s.Cells[2].Normalised["output_throughput"].Median / s.Cells[0].Normalised["output_throughput"].Median
	if math.Abs(ratio/s.Cells[2].VsBaseline["output_throughput"]-1) > 0.002 {
		t.Errorf("ratio %v of normalised values, %v of pairs", ratio, s.Cells[2].VsBaseline["output_throughput"])
	}
	golden(t, "normalised.txt", []byte(table(t, s)))
	line, err := json.Marshal(s.Cells[2])
	if err != nil || !strings.Contains(string(line), `"normalised":{"output_throughput":{"unit":"tok/s","median":`) {
		t.Errorf("%s, %v", line, err)
	}
	gap := moved(2, 4, 2)
	gap.v.Runs = slices.DeleteFunc(gap.v.Runs, func(r record.Run) bool { return r.SlotID == "s0-1" })
	if got := joined(table(t, Summarize(gap.v, o))); !strings.Contains(got, "normalised: without round 2, where the baseline has no result") {
		t.Error(got)
	}
	for why, b := range map[string]*builder{"did not run in each of several rounds": newBuilder(3, 3, "grid").rounds(3), "no baseline": onlyCells(3)} {
		if got := joined(table(t, Summarize(b.v, o))); !strings.Contains(got, "nothing to normalise by: ") || !strings.Contains(got, why) {
			t.Errorf("%s: %s", why, got)
		}
	}
}

// onlyCells is a sweep without baseline.
func onlyCells(rounds int) *builder {
	b := newBuilder(3, rounds, "interleave").rounds(rounds)
	b.v.Cells = b.v.Cells[1:]
	return b
}

func TestSummarize_AWildLaunchIsNamedAndKept(t *testing.T) {
	b := newBuilder(3, 6, "interleave")
	for round := range 6 {
		for cell := range 3 {
			f := 1 + 0.002*float64((cell+2*round)%3)
			if cell == 2 && round == 2 {
				f = 1 / 0.88
			}
			b.run(cell, round, f)
		}
	}
	s := Summarize(b.v, options())
	o := s.Cells[2].Outliers
	if len(o) != 1 || o[0].Metric != "output_throughput" || o[0].Round != 3 || math.Abs(o[0].Off+0.12) > 0.005 || len(s.Cells[1].Outliers) != 0 {
		t.Errorf("outliers %+v, %+v", o, s.Cells[1].Outliers)
	}
	if n := s.Cells[2].Metrics["output_throughput"].N; n != 6 {
		t.Errorf("%d launches, 6 were measured", n)
	}
	if got := joined(table(t, s)); !strings.Contains(got, "launch 3 of steps=2 is off: tok/s 11.8 % below that of the others; kept") {
		t.Error(got)
	}
}

func TestSummarize_LevelsOfNoise(t *testing.T) {
	b := newBuilder(2, 3, "interleave").rounds(3)
	for round := range 3 {
		id := fmt.Sprint("again", round)
		b.v.Slots = append(b.v.Slots, record.Slot{ID: id, CellID: "c1", Round: round, Repeat: 1})
		b.v.Runs = append(b.v.Runs, record.Run{ID: id, SlotID: id, LaunchID: fmt.Sprint("l1-", round), Host: "lab", State: record.RunDone})
		d := b.v.Data[fmt.Sprint("r1-", round)]
		d.Metrics = slices.Clone(d.Metrics)
		for i := range d.Metrics {
			d.Metrics[i].Value *= 1.001
		}
		b.v.Data[id] = d
	}
	o := options()
	if got := table(t, Summarize(b.v, o)); strings.Contains(got, "standard deviation") {
		t.Errorf("only with -v:\n%s", got)
	}
	o.All = true
	s := Summarize(b.v, o)
	l := s.Cells[1].Noise["output_throughput"]
	if l.Within == nil || math.Abs(*l.Within-0.0007) > 0.0002 || l.Launch == nil || *l.Launch < 0.01 || l.Launches != 3 || l.Runs != 6 {
		t.Errorf("%+v", l)
	}
	if base := s.Cells[0].Noise["output_throughput"]; base.Within != nil || base.Between == nil {
		t.Errorf("one run in each launch: %+v", base)
	}
	if got := joined(table(t, s)); !strings.Contains(got, "standard deviation of tok/s between launches: baseline ") || !strings.Contains(got, "(0.07 % within a launch)") {
		t.Error(got)
	}
}

// rising gives a run rows of a profiler whose TOTAL rises with the context, and
// changes its batch half way.
func rising(d record.RunData, total, perThousand float64, batches ...int) record.RunData {
	for n := range 8 {
		context := 100 + 125*float64(n)
		batch := batches[n*len(batches)/8]
		labels := map[string]string{"row": fmt.Sprint(n + 1)}
		for name, v := range map[string]float64{"cycle_total": total + perThousand*context/1000 + 0.01*float64(n%2), "cycles": 25, "context": context,
			"batch_min": float64(batch), "batch_max": float64(batch), "tokens": 50 * float64(batch), "request_cycles": 25 * float64(batch)} {
			d.Samples = append(d.Samples, record.Sample{Name: name, Value: v, Source: "profiler", Labels: labels})
		}
	}
	return d
}

func TestTable_TOTALByContext(t *testing.T) {
	sweep := func(slopes ...float64) string {
		b := newBuilder(3, 3, "interleave").rounds(3)
		for cell, slope := range slopes {
			for round := range 3 {
				id := fmt.Sprint("r", cell+1, "-", round)
				b.v.Data[id] = rising(b.v.Data[id], totals[cell+1], slope, 1)
			}
		}
		return joined(table(t, Summarize(b.v, options())))
	}
	if got := sweep(1, 1.3); !strings.Contains(got, "TOTAL rises by 1.00 to 1.30 ms per 1,000 tokens of context") {
		t.Error(got)
	}
	if got := sweep(1, 1); !strings.Contains(got, "TOTAL rises by 1.00 ms per 1,000 tokens of context") {
		t.Error(got)
	}
	for _, slope := range []float64{0, 0.05, -2} {
		if got := sweep(slope, slope); strings.Contains(got, "TOTAL rises") {
			t.Errorf("slope %v: %s", slope, got)
		}
	}
}
