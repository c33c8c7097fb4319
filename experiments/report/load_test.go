package report

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"specrun/experiments/record"
)

// speedsOf is a sweep with these tok/s of each cell, by round.
func speedsOf(b *builder, speeds [][]float64) {
	for i, rounds := range speeds {
		for round, speed := range rounds {
			b.run(i, round, 1)
			b.v.Data[fmt.Sprint("r", i, "-", round)] = record.RunData{Metrics: []record.Metric{{Name: "output_throughput", Unit: "tok/s", Value: speed, Source: "client"}}}
		}
	}
}

// Many requests at once give more tok/s than one whatever the steps: each load has
// a best cell of its own.
func TestSummary_EachLoadHasItsBestCell(t *testing.T) {
	b := newBuilder(5, 3, "grid")
	var cells []map[string]any
	for i := range b.v.Cells {
		c := &b.v.Cells[i]
		concurrency := int64(1 + i/3*31)
		c.Baseline = i%3 == 0
		c.Params = record.Params{"bench.concurrency": concurrency}
		if !c.Baseline {
			c.Params["steps"] = int64(i % 3)
		}
		cells = append(cells, map[string]any{"ord": i, "bench": map[string]any{"concurrency": concurrency, "requests": 64, "prompts": "builtin:chat"}})
	}
	plan, err := json.Marshal(map[string]any{"objective": "output_throughput", "order": "grid", "rounds": 3, "cells": cells})
	if err != nil {
		t.Fatal(err)
	}
	b.v.Sweep.Plan = plan
	speedsOf(b, [][]float64{{88, 88.1, 88.2}, {94, 94.1, 94.2}, {90, 90.1, 90.2}, {700, 701, 702}, {650, 651, 652}})
	s := Summarize(b.v, options())
	for i, row := range s.Cells {
		if want := i == 1 || i == 3; row.Best != want {
			t.Errorf("%s: best %v", row.name, row.Best)
		}
	}
	text := table(t, s)
	for _, want := range []string{
		"\nconcurrency=1: best is steps=1 with 94.1 tok/s; next is steps=2 with 90.1, separable",
		"\nconcurrency=32: speculation does not pay: best is baseline bench.concurrency=32 with 701.0 tok/s; next is bench.concurrency=32 steps=1 with 651.0, separable",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "\nbest is") {
		t.Errorf("different work is ranked:\n%s", text)
	}
	d := s.Decide()
	if len(d) != 2 || d[0].Load["concurrency"] != "1" || d[1].Load["concurrency"] != "32" || len(d[0].Load) != 1 || d[0].Best["steps"] != int64(1) || d[1].Best["bench.concurrency"] != int64(32) {
		t.Errorf("%+v", d)
	}
}

// A sweep over nothing but the load asks which one gives the most.
func TestSummary_LoadsAloneAreRanked(t *testing.T) {
	b := newBuilder(3, 3, "grid")
	var cells []map[string]any
	for i := range b.v.Cells {
		b.v.Cells[i].Baseline, b.v.Cells[i].Params = false, record.Params{"bench.concurrency": int64(i + 1)}
		cells = append(cells, map[string]any{"ord": i, "bench": map[string]any{"concurrency": i + 1}})
	}
	plan, err := json.Marshal(map[string]any{"objective": "output_throughput", "order": "grid", "rounds": 3, "cells": cells})
	if err != nil {
		t.Fatal(err)
	}
	b.v.Sweep.Plan = plan
	speedsOf(b, [][]float64{{88, 88.1, 88.2}, {160, 160.1, 160.2}, {220, 220.1, 220.2}})
	if s := Summarize(b.v, options()); !strings.Contains(table(t, s), "\nbest is bench.concurrency=3 with 220.1 tok/s; next is bench.concurrency=2") || len(s.Decide()) != 1 {
		t.Errorf("%s", table(t, s))
	}
}

// A sweep of one load has one decision, which names none.
func TestSummary_OneLoadIsNotNamed(t *testing.T) {
	d := ofSpeeds(3, 88, 94, 90).Decide()
	if line, err := json.Marshal(d); len(d) != 1 || err != nil || strings.Contains(string(line), "load") {
		t.Errorf("%s, %v", line, err)
	}
}

// What the table marks as perhaps noise the last line does not call separable:
// both judge all cells together.
func TestVerdict_AgreesWithTheTable(t *testing.T) {
	b := newBuilder(5, 3, "interleave")
	speedsOf(b, [][]float64{{88.7, 88.3, 88.7}, {87.0, 87.9, 86.0}, {94.1, 90.5, 93.0}, {87.9, 85.9, 87.1}, {80.4, 80.8, 79.1}})
	s := Summarize(b.v, options())
	best := s.Cells[2]
	if sep := best.Doubt["output_throughput"].Separable; !best.Best || sep == nil || *sep {
		t.Fatalf("the example shows nothing: best %v, doubt %+v", best.Best, best.Doubt["output_throughput"])
	}
	if holds(best.SeparableFromNext) || !strings.Contains(s.Verdict, "next is baseline with 88.7, not separable (~)") {
		t.Errorf("%s", s.Verdict)
	}
}

// On a narrow terminal no line of text is broken within a word, and the labels
// are below the table only. Elsewhere lines are as ever.
func TestWriteTable_FitsANarrowTerminal(t *testing.T) {
	o := options()
	b := newBuilder(4, 3, "interleave")
	b.run(2, 0, 1, record.Label{Name: "noisy", Reason: "4.8 % between the slowest and the fastest request"})
	for i, round := range []int{0, 1, 2, 0, 1, 2, 1, 2, 0, 1, 2} {
		cell := [...]int{0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 3}[i]
		b.run(cell, round, 1+float64(i%3)/1000)
	}
	wide := table(t, Summarize(b.v, o))
	if !strings.Contains(wide, "  labels\n") {
		t.Fatalf("the example has no labels:\n%s", wide)
	}
	o.Width = 90
	narrow := table(t, Summarize(b.v, o))
	if strings.Contains(narrow, "labels\n") || !strings.Contains(narrow, "noisy: 4.8 % between the slowest and the fastest request (steps=2)") {
		t.Errorf("labels:\n%s", narrow)
	}
	for line := range strings.Lines(narrow) {
		if n := len([]rune(strings.TrimSpace(line))); n > 90 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	o.Width = 84
	if text := table(t, Summarize(b.v, o)); strings.Contains(text, "  best\n") || !strings.Contains(text, "vs baseline\n") || !strings.Contains(text, "\nbest, but") {
		t.Errorf("a table of 86 columns on 84:\n%s", text)
	}
	if strings.Join(strings.Fields(wide[strings.Index(wide, "\nbest, but"):]), " ") != strings.Join(strings.Fields(narrow[strings.Index(narrow, "\nbest, but"):]), " ") {
		t.Errorf("other words:\n%s\n%s", wide, narrow)
	}
}
