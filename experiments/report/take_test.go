package report

import (
	"fmt"
	"testing"

	"specrun/experiments/record"
)

func TestDecision(t *testing.T) {
	summary := func(factors ...float64) *Summary { // tok/s by cell, the baseline first
		b := newBuilder(len(factors), 1, "grid")
		for i, tps := range factors {
			if tps > 0 {
				b.run(i, 0, 1)
				b.v.Data[fmt.Sprint("r", i, "-0")] = record.RunData{Metrics: []record.Metric{{Name: "output_throughput", Unit: "tok/s", Value: tps, Source: "client"}}}
			}
		}
		return Summarize(b.v, options())
	}
	for want, s := range map[string]*Summary{
		"steps=2 best; none within 1 %: take steps=2":             summary(88, 87, 94, 90),
		"steps=3 best; steps=2 within 1 %: take steps=2":          summary(88, 87, 94, 94.5),
		"steps=2 best; steps=3 within 1 %: take steps=2":          summary(88, 87, 94.5, 94),
		"steps=3 best; steps=1..2 within 1 %: take steps=1":       summary(88, 94, 94, 94.5),
		"steps=1 best; baseline within 1 %: take baseline":        summary(94, 94.5, 60),
		"baseline best; none within 1 %: take baseline":           summary(94, 80, 60),
		"steps=3 best; steps=2, steps=4 within 1 %: take steps=2": summary(60, 60, 94, 94.5, 94),
		"": summary(94),
	} {
		if got := Decision(s); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
