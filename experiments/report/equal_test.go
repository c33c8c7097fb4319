package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"specrun/experiments/record"
)

// ofLengths gives each cell of a sweep outputs of its own length, and positions. The
// time per token rises with the context, the same for all cells but for factors.
func ofLengths(rounds int, tokens []int, factors []float64) *builder {
	b := newBuilder(len(tokens), rounds, "interleave").rounds(rounds)
	for i := range tokens {
		for round := range rounds {
			id := fmt.Sprint("r", i, "-", round)
			b.v.Data[id] = positioned(record.RunData{Provenance: b.v.Data[id].Provenance}, tokens[i], factors[i]*(1+0.001*float64((i*i+2*i+5*round)%7)/6))
		}
	}
	return b
}

func table(t *testing.T, s *Summary) string {
	t.Helper()
	var b bytes.Buffer
	if err := s.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// joined is a text with its line breaks undone.
func joined(text string) string { return strings.Join(strings.Fields(text), " ") }

func TestSummarize_OutputsHalfAsLongAreNotFaster(t *testing.T) {
	s := Summarize(ofLengths(6, []int{104, 104, 104, 52}, []float64{1, 1, 0.98, 1}).v, options())
	short := s.Cells[3]
	if raw := short.Metrics["output_throughput"].Median / s.Cells[0].Metrics["output_throughput"].Median; raw < 1.02 {
		t.Fatalf("the short cell is to look faster: %v", raw)
	}
	if r := short.VsBaseline["output_throughput"]; math.Abs(r-1) > 0.002 || *short.Doubt["output_throughput"].P < 0.01 {
		t.Errorf("half as long: %v times the baseline, p %v", r, *short.Doubt["output_throughput"].P)
	}
	if r := s.Cells[2].VsBaseline["output_throughput"]; math.Abs(r-1/0.98) > 0.002 {
		t.Errorf("a pair of equal lengths: %v", r)
	}
	if _, ok := short.VsBaseline["total_throughput"]; ok {
		t.Errorf("a ratio that cannot be had over equal positions: %v", short.VsBaseline)
	}
	if bestName(s) != "steps=2" || !strings.Contains(s.Verdict, "tok/s over equal positions; next is") {
		t.Errorf("best is %q: %s", bestName(s), s.Verdict)
	}
	e := short.Equal
	if e == nil || e.Tokens != 52 || e.Of != 52 || s.Cells[1].Equal.Of != 104 || math.Abs(e.Metrics["tpot"].Median/s.Cells[1].Equal.Metrics["tpot"].Median-1) > 0.002 {
		t.Errorf("equal = %+v", e)
	}
	got := table(t, s)
	if !strings.Contains(joined(got), "outputs of steps=3 are half as long (52 of 104 tokens): compared over the first 52; the columns show whole outputs") {
		t.Errorf("the reason is not said:\n%s", got)
	}
	golden(t, "half-as-long.txt", []byte(got))
	line, err := json.Marshal(short)
	if err != nil || !strings.Contains(string(line), `"over_equal_positions":{"tokens":52,"of":52,"metrics":{`) {
		t.Errorf("%s, %v", line, err)
	}
}

func TestSummarize_EqualLengthsNeedNoWord(t *testing.T) {
	s := Summarize(ofLengths(3, []int{104, 104, 104}, []float64{1, 0.9, 0.95}).v, options())
	if got := table(t, s); strings.Contains(got, "compared over") || strings.Contains(s.Verdict, "positions") || s.Cells[1].Equal != nil {
		t.Errorf("%s", got)
	}
}

// A baseline is part of what is ranked and of what ratios rest on.
func TestSummarize_AShortBaseline(t *testing.T) {
	s := Summarize(ofLengths(3, []int{52, 104}, []float64{1, 0.99}).v, options())
	if bestName(s) != "steps=1 topk=1" || s.Cells[1].VsBaseline["output_throughput"] < 1.005 {
		t.Errorf("best is %q, ratio %v: %s", bestName(s), s.Cells[1].VsBaseline, s.Verdict)
	}
	if got := joined(table(t, s)); !strings.Contains(got, "outputs of baseline are half as long (52 of 104 tokens): compared over the first 52") {
		t.Error(got)
	}
}

// What cannot be had over equal positions is not held for a result in silence.
func TestSummarize_CaveatWherePositionsDoNotHelp(t *testing.T) {
	b := ofLengths(3, []int{104, 52}, []float64{1, 1})
	b.v.Sweep.Plan = json.RawMessage(`{"objective":"request_throughput","order":"interleave","rounds":3}`)
	for id, d := range b.v.Data {
		d.Metrics = append(d.Metrics, record.Metric{Name: "request_throughput", Unit: "req/s", Value: map[byte]float64{'0': 1, '1': 2}[id[1]], Source: "client"})
		b.v.Data[id] = d
	}
	s := Summarize(b.v, options())
	if !strings.HasPrefix(s.Verdict, "best, but outputs are not equally long: steps=1") || s.Cells[1].VsBaseline["request_throughput"] != 0 {
		t.Errorf("%s; %v", s.Verdict, s.Cells[1].VsBaseline)
	}
	if got := joined(table(t, s)); !strings.Contains(got, "request_throughput cannot be had over equal positions") {
		t.Error(got)
	}
	// Read from elsewhere: lengths, but no positions.
	unknown := ofLengths(3, []int{104, 52}, []float64{1, 1})
	for id, d := range unknown.v.Data {
		d.Samples = nil
		unknown.v.Data[id] = d
	}
	s = Summarize(unknown.v, options())
	if got := joined(table(t, s)); !strings.HasPrefix(s.Verdict, "best, but outputs are not equally long") || !strings.Contains(got, "positions are not known: shorter outputs may look faster") {
		t.Errorf("%s\n%s", s.Verdict, got)
	}
}

func TestSummarize_VariousLengths(t *testing.T) {
	for want, tokens := range map[string][]int{
		"outputs of steps=1 are half as long (64 of 128 tokens), of steps=2 are 25 % shorter": {128, 64, 96},
		"outputs of steps=1..2 are half as long (64 of 128 tokens):":                          {128, 64, 64},
		"outputs are 33 to 128 tokens long: compared over the first 33":                       {128, 64, 96, 48, 33},
		"some outputs differ in length: compared over the positions that all have":            {128, 127, 128},
	} {
		factors := []float64{1, 1, 1, 1, 1}
		got := joined(table(t, Summarize(ofLengths(2, tokens, factors[:len(tokens)]).v, options())))
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
