package main

import (
	"fmt"
	"strings"

	"specrun/experiments"
	"specrun/experiments/record"
)

// announce prints a plan: the line every sweep begins with, and all of it for a
// dry run.
func (a *app) announce(p *experiments.Plan, full bool) {
	if a.flags.json {
		if full {
			a.line("plan", p)
		}
		return
	}
	show := a.note
	if full {
		show = func(format string, args ...any) { a.printf(format+"\n", args...) }
	}
	show("%s on %s: %s", p.Name, p.Host.Name, p.Summary())
	for _, d := range p.Dropped {
		show("  dropped %s: breaks the rule %s", d.Cell, d.Rule)
	}
	for _, m := range p.Merged {
		show("  merged %s into %s: %s", m.Cell, cellName(p.Cells[m.Into].Params, p.Cells[m.Into].Baseline), m.Why)
	}
	for _, n := range p.Notes {
		show("  note: %s", n)
	}
	if !full {
		return
	}
	for _, l := range p.Launches {
		var runs []string
		for _, r := range l.Runs {
			c := p.Cells[r.Cell]
			runs = append(runs, fmt.Sprintf("%s repeat %d", cellName(c.Params, c.Baseline), r.Repeat+1))
		}
		patches := patchNames(p.Cells[l.Runs[0].Cell].Server.Patches)
		a.printf("\nlaunch %d, round %d, patches %s: %s%s\n%s\n", l.N+1, l.Round+1, patches, strings.Join(runs, ", "), placeholder(l), l.Command)
	}
}

// patchNames shows a patch set in words.
func patchNames(refs []experiments.PatchRef) string {
	var names []string
	for _, ref := range refs {
		names = append(names, ref.Name)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, " + ")
}

// placeholder says which port of a printed command is none.
func placeholder(l experiments.PlannedLaunch) string {
	if l.Placeholder == 0 {
		return ""
	}
	return fmt.Sprintf(" (port %d stands for one that is free then)", l.Placeholder)
}

// cellName shows a cell's parameters in one word each.
func cellName(p record.Params, baseline bool) string {
	if baseline {
		return "baseline"
	}
	var parts []string
	for _, k := range sortedKeys(p) {
		parts = append(parts, fmt.Sprintf("%s=%v", k, p[k]))
	}
	if len(parts) == 0 {
		return "default"
	}
	return strings.Join(parts, " ")
}

// resultText is one run in a line.
func resultText(r *record.Result) string {
	if r.Run.State != record.RunDone {
		reason, _, _ := strings.Cut(r.Run.Reason, "\n")
		return fmt.Sprintf("%s (%s): %s", r.Run.State, r.Run.Class, reason)
	}
	var parts []string
	for _, want := range []struct{ metric, name, format string }{
		{"cycle_total", "TOTAL", "%.2f ms/cyc"}, {"accept_len", "accept length", "%.2f"}, {"output_throughput", "", "%.1f tok/s"},
	} {
		for _, m := range r.Metrics {
			if m.Name == want.metric {
				parts = append(parts, strings.TrimSpace(want.name+" "+fmt.Sprintf(want.format, m.Value)))
				break
			}
		}
	}
	return strings.Join(parts, ", ")
}
