package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"specrun/experiments/record"
	"specrun/experiments/stats"
)

// SlopeJSON is how TOTAL rises with the context.
type SlopeJSON struct {
	At0         *float64 `json:"at_0"`         // ms
	PerThousand *float64 `json:"per_thousand"` // ms per 1,000 tokens
	Lo          *float64 `json:"lo"`
	Hi          *float64 `json:"hi"`
	Rows        int      `json:"rows"`
}

// BatchJSON is what the cycles with one number of requests gave.
type BatchJSON struct {
	Batch      int      `json:"batch"`
	Cycles     int      `json:"cycles"`
	Total      *float64 `json:"cycle_total"`       // ms
	AcceptLen  *float64 `json:"accept_len"`        // tokens a step
	Throughput *float64 `json:"output_throughput"` // tok/s within these cycles
}

// contextSlope is nil where the rows do not show it.
func contextSlope(samples []record.Sample) *SlopeJSON {
	s, ok := stats.ContextSlope(samples)
	if !ok {
		return nil
	}
	return &SlopeJSON{finite(s.At0), finite(s.PerThousand), finite(s.Lo), finite(s.Hi), s.Rows}
}

func byBatch(samples []record.Sample) []BatchJSON {
	out := []BatchJSON{}
	for _, b := range stats.ByBatch(samples) {
		out = append(out, BatchJSON{b.Batch, b.Cycles, finite(b.Total), finite(b.AcceptLen), finite(b.Throughput)})
	}
	return out
}

// text says what a cycle costs by context.
func (s *SlopeJSON) text() string {
	if s == nil || s.At0 == nil || s.PerThousand == nil {
		return ""
	}
	sign, by := "+", *s.PerThousand
	if by < 0 {
		sign, by = "-", -by
	}
	text := fmt.Sprintf("%s ms %s %s", number(*s.At0, "ms"), sign, number(by, "ms"))
	if s.Lo != nil && s.Hi != nil {
		text += fmt.Sprintf(" (%s..%s)", number(*s.Lo, "ms"), number(*s.Hi, "ms"))
	}
	text += fmt.Sprintf(" per 1,000 tokens of context, %s", plural(s.Rows, "row"))
	if s.Lo != nil && s.Hi != nil && *s.Lo <= 0 && *s.Hi >= 0 {
		text += ": no rise found"
	}
	return text
}

// gapText splits what a profiler claims that the benchmark contradicts; "" when
// nothing is contradicted.
func gapText(ms []record.Metric) string {
	v := map[string]float64{}
	for _, m := range ms {
		if strings.HasPrefix(m.Name, "gap_") {
			v[m.Name] = m.Value
		}
	}
	ratio, ok := v["gap_ratio"]
	if !ok {
		return ""
	}
	return fmt.Sprintf("measured %.2f times what the profiler claims = %.2f counting of accepted tokens x %.2f cycle x %.2f rest",
		ratio, v["gap_acceptance"], v["gap_cycle"], v["gap_rest"])
}

// windowFacts are the facts that say how the measured part of a run was found.
var windowFacts = []struct{ key, name string }{{"warmup_outcome", "warm-up"}, {"warmup_rule", "its rule"}, {"steady_window", "window"}, {"note", "note"}}

// measuredSection says how a run was measured, and what its rows show beyond the
// metrics.
func measuredSection(d record.RunData) grid {
	var g grid
	for _, f := range windowFacts {
		for _, fact := range d.Provenance {
			if fact.Group == "workload" && fact.Key == f.key && fact.Value != "" {
				g.add("  "+f.name, plain(fact.Value))
			}
		}
	}
	if text := contextSlope(d.Samples).text(); text != "" {
		g.add("  TOTAL", text)
	}
	if text := gapText(d.Metrics); text != "" {
		g.add("  gap", text)
	}
	return g
}

// batchSection is worth its lines only where the batch changed.
func batchSection(d record.RunData) grid {
	lines := stats.ByBatch(d.Samples)
	if len(lines) < 2 {
		return grid{}
	}
	g := grid{right: []bool{true, true, true, true, true}}
	g.add("  requests", "cycles", "TOTAL ms/cyc", "accept len", "tok/s")
	text := func(v float64, unit string) string {
		if finite(v) == nil {
			return "-"
		}
		return number(v, unit)
	}
	for _, l := range lines {
		g.add(fmt.Sprint(l.Batch), fmt.Sprint(l.Cycles), text(l.Total, "ms/cyc"), text(l.AcceptLen, "tokens/step"), text(l.Throughput, "tok/s"))
	}
	return g
}

// costs says of the patches of a run what they cost on its host, as far as that
// is known of its engine and model.
func costs(v record.RunView, o Options) (lines []string, probes map[string]*ProbeLine) {
	if o.Probe == nil {
		return nil, nil
	}
	probes = map[string]*ProbeLine{}
	for _, f := range v.Data.Provenance {
		if f.Group != "patches" {
			continue
		}
		words := strings.Fields(f.Value)
		if len(words) == 0 {
			continue
		}
		if l := o.Probe(words[len(words)-1], v.Run.Host); l != nil && l.unlike([]record.RunData{v.Data}) == "" {
			probes[f.Key] = l
		}
	}
	for _, name := range slices.Sorted(maps.Keys(probes)) {
		lines = append(lines, probes[name].Cost())
	}
	return lines, probes
}
