package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"specrun/experiments"
	"specrun/experiments/record"
	"specrun/experiments/report"
)

// What the executor repeats for quoting must be what the report calls best.
func TestBest_IsTheReportsBest(t *testing.T) {
	agreed := map[bool]int{}
	byPositions, otherwise := 0, 0
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 1))
		p, v, results := randomSweep(rng)
		s := report.Summarize(v, report.Options{})
		ord, ok := p.Best(results)
		if ok != (s.Best >= 0) || ok && s.Cells[s.Best].Params["n"] != int64(ord) {
			t.Fatalf("seed %d, %s: the executor says %d %v, the report %d: %s", seed, p.Objective, ord, ok, s.Best, s.Verdict)
		}
		agreed[ok]++
		if ok && s.Cells[ord].Equal != nil {
			byPositions++
			if whole(s) != ord {
				otherwise++
			}
		}
	}
	if byPositions < 40 || otherwise < 10 {
		t.Errorf("%d ranked over equal positions, of which %d have another best by whole outputs: too few to tell", byPositions, otherwise)
	}
	if agreed[true] < 100 || agreed[false] < 10 {
		t.Errorf("with and without a best cell: %v", agreed)
	}
}

// whole is the best by whole outputs.
func whole(s *report.Summary) int {
	best := -1
	for i, row := range s.Cells {
		m, ok := row.Metrics[s.Objective]
		if ok && !row.Quotable && row.Failed == 0 && (best < 0 || (m.Median > s.Cells[best].Metrics[s.Objective].Median) == (s.Objective == "output_throughput") && m.Median != s.Cells[best].Metrics[s.Objective].Median) {
			best = i
		}
	}
	return best
}

// withPositions gives a run the course of its requests: tokens of them, each later
// one slower, so that a short output is faster for that alone.
func withPositions(d *record.RunData, tokens int, speed float64) {
	elapsed := func(k int) float64 { return (10*float64(k) + 0.02*float64(k*k)) / speed }
	add := func(name string, value float64, labels map[string]string) {
		d.Samples = append(d.Samples, record.Sample{Name: name, Unit: "ms", Value: value, Source: "client", Labels: labels})
	}
	for _, request := range []string{"0", "1"} {
		add("request_ttft", 5, map[string]string{"request": request})
		for k := 32; k < tokens-1; k += 32 {
			add("decode_elapsed", elapsed(k), map[string]string{"request": request, "position": fmt.Sprint(k)})
		}
		add("decode_elapsed", elapsed(tokens-1), map[string]string{"request": request, "position": fmt.Sprint(tokens - 1), "end": "true"})
	}
	tpot := elapsed(tokens-1) / float64(tokens-1)
	for i := range d.Metrics {
		switch d.Metrics[i].Name {
		case "tpot":
			d.Metrics[i].Value = tpot
		case "output_throughput":
			d.Metrics[i].Value = 1000 / tpot
		}
	}
	d.Metrics = append(d.Metrics, record.Metric{Name: "concurrency", Value: 1, Source: "client"})
}

// randomSweep has cells that fail, repeat, tie, lack the objective or have it
// from two sources, outputs of unequal length, and one that came after the plan.
func randomSweep(rng *rand.Rand) (*experiments.Plan, record.SweepView, []record.Result) {
	p := &experiments.Plan{Objective: []string{"output_throughput", "tpot", "cycle_total", ""}[rng.IntN(4)], Order: experiments.OrderInterleave, Rounds: 1 + rng.IntN(3)}
	cells := 1 + rng.IntN(4)
	sameShape := rng.IntN(2) == 0
	unequal := rng.IntN(2) == 0
	name := "output_throughput"
	switch p.Objective {
	case "tpot":
		name = []string{"tpot", "tpot_mean"}[rng.IntN(2)]
	case "cycle_total":
		name = "cycle_total"
	}
	v := record.SweepView{Data: map[string]record.RunData{}}
	var results []record.Result
	for c := range cells + 1 { // the last is a quote
		steps := fmt.Sprint(1 + c)
		if sameShape {
			steps = "2"
		}
		cell := experiments.Cell{Ord: c, Params: record.Params{"n": int64(c)},
			Server: experiments.ServerConfig{Flags: []experiments.ServerFlag{{Name: "speculative-num-steps", Values: []string{steps}}}}}
		if c < cells {
			p.Cells = append(p.Cells, cell)
		} else {
			p.Quotes = append(p.Quotes, experiments.Quote{Of: 0, Cell: cell})
		}
		rc := record.Cell{ID: fmt.Sprint("c", c), Ord: c, Params: cell.Params}
		v.Cells = append(v.Cells, rc)
		has := rng.IntN(6) > 0
		tokens := []int{64, 100, 256, 512}[rng.IntN(4)]
		for round := range p.Rounds {
			for repeat := range 1 + rng.IntN(2) {
				slot := record.Slot{ID: fmt.Sprintf("c%d.r%d.p%d", c, round, repeat), CellID: rc.ID, Round: round, Repeat: repeat}
				run := record.Run{ID: "run " + slot.ID, SlotID: slot.ID, LaunchID: fmt.Sprintf("l%d.%d", c, round), State: record.RunDone}
				if rng.IntN(20) == 0 {
					run.State = record.RunFailed
				}
				value := float64(90 + rng.IntN(4)) // ties
				if c == cells {
					value = 1000 * float64(rng.IntN(2)) // best or worst, if it counted
				}
				d := record.RunData{Provenance: []record.Fact{{Group: "flags", Key: "asked speculative-num-steps", Value: steps}}}
				if has && run.State == record.RunDone {
					if rng.IntN(12) == 0 {
						value = math.NaN()
					}
					d.Metrics = append(d.Metrics, record.Metric{Name: name, Value: value, Source: "client"})
					if rng.IntN(2) == 0 {
						d.Metrics = append(d.Metrics, record.Metric{Name: name, Value: value + 3, Source: "server_log"})
					}
					if unequal && rng.IntN(40) > 0 { // else an older run, without positions
						withPositions(&d, tokens, value/90)
					}
				}
				v.Slots, v.Runs, v.Data[run.ID] = append(v.Slots, slot), append(v.Runs, run), d
				results = append(results, record.Result{Run: run, Cell: rc, Slot: slot, Data: d})
			}
		}
	}
	text, _, err := p.Encode()
	if err != nil {
		panic(err)
	}
	v.Sweep = record.Sweep{ID: "s", Kind: experiments.KindSweep, Plan: json.RawMessage(text)}
	return p, v, results
}
