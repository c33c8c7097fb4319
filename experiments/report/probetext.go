package report

import (
	"fmt"
	"io"
	"strings"

	"specrun/experiments/record"
)

// numberNames are the numbers of a patch as people know them, in their order.
var numberNames = []struct{ key, name string }{{"cycle_total", "TOTAL"}, {"phases", "phases"}, {"accept_len", "accept length"},
	{"printed_throughput", "tok/s it prints"}, {"output_throughput", "tok/s measured"}}

// Write writes a probe for people.
func (l ProbeLine) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "what %s costs on %s%s, %s of launches\n\n", plain(l.Patch), plain(l.Host), l.cell(), plural(l.Pairs, "pair"))
	g := grid{right: []bool{false, true, true}}
	g.add("", "without", "with")
	text := func(v *float64, unit string) string {
		if v == nil {
			return "-"
		}
		return number(*v, unit)
	}
	g.add("TPOT ms", text(l.TPOTWithout, "ms"), text(l.TPOTWith, "ms"))
	var implied *float64
	if l.AcceptLen != nil && l.TPOTWithout != nil {
		implied = finite(*l.TPOTWithout * *l.AcceptLen)
	}
	if implied != nil || l.CycleWith != nil {
		g.add("cycle ms", text(implied, "ms"), text(l.CycleWith, "ms"))
	}
	if err := g.write(&b); err != nil {
		return err
	}
	b.WriteString("\n" + l.sentence() + "\n")
	if l.MsPerCycle != nil {
		fmt.Fprintf(&b, "%s ms a cycle%s, from TPOT x accept length %s", number(*l.MsPerCycle, "ms"), span(l.MsLo, l.MsHi, func(v float64) string { return number(v, "ms") }), number(*l.AcceptLen, "tokens/step"))
		if l.ByTotal != nil {
			fmt.Fprintf(&b, "; %s ms by its own TOTAL", number(*l.ByTotal, "ms"))
		}
		b.WriteString("\n")
	}
	if len(l.Numbers) > 0 {
		b.WriteString("\nwhat its numbers are worth\n")
		worth := grid{}
		for _, n := range numberNames {
			if l.Numbers[n.key] != "" {
				worth.add("  "+n.name, l.Numbers[n.key], l.Why[n.key])
			}
		}
		if err := worth.write(&b); err != nil {
			return err
		}
	}
	notes := []string{}
	if l.Note != "" {
		notes = append(notes, l.Note)
	}
	if l.Failed > 0 {
		notes = append(notes, fmt.Sprintf("%s failed: specrun list %s has the reasons", plural(l.Failed, "run"), l.Sweep))
	}
	if len(l.Labels) > 0 {
		notes = append(notes, "labels: "+strings.Join(l.Labels, ", "))
	}
	for i, n := range notes {
		if i == 0 {
			b.WriteString("\n")
		}
		for _, line := range Wrap(n, noteWidth, "  ") {
			b.WriteString(line + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// sentence is the verdict with its numbers.
func (l ProbeLine) sentence() string {
	if l.Ratio == nil {
		return "unclear: no pair of launches has a time per token on both sides"
	}
	change := fmt.Sprintf("a token takes %s longer", percent(*l.Ratio-1))
	if *l.Ratio < 1 {
		change = fmt.Sprintf("a token takes %s less time", percent(1-*l.Ratio))
	}
	text := fmt.Sprintf("%s: %s with it%s", l.Verdict, change, span(l.Lo, l.Hi, func(v float64) string { return signedPercent(v - 1) }))
	if l.Verdict == Unclear {
		if l.MinEffect != nil {
			return text + fmt.Sprintf("; so few launches find no less than %s: --rounds %d", percent(*l.MinEffect), 2*l.Pairs)
		}
		if l.Pairs > 1 {
			return text + "; the launches agree to the last digit, so the noise between them is not known"
		}
		return text + "; with one pair the noise between launches is not known: --rounds 3"
	}
	return text
}

func span(lo, hi *float64, text func(float64) string) string {
	if lo == nil || hi == nil {
		return ""
	}
	return fmt.Sprintf(" (%s to %s)", text(*lo), text(*hi))
}

// cell names the values that the cell was given.
func (l ProbeLine) cell() string {
	if len(l.Params) == 0 {
		return ""
	}
	return ", " + allParams(record.Cell{Params: l.Params})
}

func percentBeyond(ratio *float64) string {
	if ratio == nil {
		return "?"
	}
	return signedPercent(*ratio - 1)
}

func signedPercent(v float64) string {
	if v > 0 {
		return "+" + percent(v)
	}
	return percent(v)
}
