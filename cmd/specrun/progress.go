package main

import (
	"fmt"
	"slices"
	"strings"

	"specrun/experiments"
	"specrun/experiments/record"
	"specrun/experiments/report"
	"specrun/experiments/stats"
)

// announce prints a plan: the line every sweep begins with, and all of it for a
// dry run.
func (a *app) announce(p *experiments.Plan, full bool) {
	if a.flags.json {
		if full {
			a.line("plan", p.Shown())
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
		show("  merged %s into %s: %s", m.Cell, namesIn(p.All())(p.Cells[m.Into]), m.Why)
	}
	for _, n := range p.Notes {
		show("%s", a.noteText("  note: ", n))
	}
	if !full {
		return
	}
	a.printf("%s", launchesText(p))
}

// launchesText shows the launches of a plan: each command once, whatever the
// number of rounds.
func launchesText(p *experiments.Plan) string {
	type group struct {
		first  experiments.PlannedLaunch
		cells  []string
		rounds int
	}
	cells := p.All()
	name := namesIn(cells)
	var groups []*group
	byCommand := map[string]*group{}
	port := 0
	for _, l := range p.Launches {
		var of []string
		for _, r := range l.Runs {
			if c := name(cells[r.Cell]); !slices.Contains(of, c) {
				of = append(of, c)
			}
		}
		key := strings.Join(append(of, l.Command), "\x00")
		g := byCommand[key]
		if g == nil {
			g = &group{first: l, cells: of}
			byCommand[key], groups = g, append(groups, g)
		}
		g.rounds++
		port = max(port, l.Placeholder)
	}
	var b strings.Builder
	if port != 0 {
		fmt.Fprintf(&b, "port %d stands for one that is free then\n", port)
	}
	for _, g := range groups {
		fmt.Fprintf(&b, "\n%s, patches %s", strings.Join(g.cells, ", "), patchNames(p.Cells[g.first.Runs[0].Cell].Server.Patches))
		if runs := len(g.first.Runs); runs > 1 {
			fmt.Fprintf(&b, ", %s in each launch", counted(runs, "run"))
		}
		if g.rounds > 1 {
			fmt.Fprintf(&b, ", x %d rounds", g.rounds)
		}
		fmt.Fprintf(&b, "\n%s\n", g.first.Command)
	}
	for _, q := range p.Quotes {
		fmt.Fprintf(&b, "\nif %s is best: %s, patches %s, x %s\n%s\n", name(cells[q.Of]), name(q.Cell), patchNames(q.Cell.Server.Patches),
			counted(p.Rounds, "round"), q.Command)
	}
	return b.String()
}

// noteText is a note of several lines that the terminal need not break.
func (a *app) noteText(head, note string) string {
	width := 100
	if a.live {
		width = min(width, a.width()-1)
	}
	return strings.Join(report.Wrap(head+note, width, strings.Repeat(" ", len(head))), "\n")
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
		{"cycle_total", "TOTAL", "%.2f ms/cyc"}, {"accept_len", "accept length", "%.3f"}, {"output_throughput", "", "%.1f tok/s"},
	} {
		var found *record.Metric // of the source that the table takes
		for i, m := range r.Data.Metrics {
			if m.Name == want.metric && (found == nil || stats.NearerSource(m.Source, found.Source) < 0) {
				found = &r.Data.Metrics[i]
			}
		}
		if found != nil {
			parts = append(parts, strings.TrimSpace(want.name+" "+fmt.Sprintf(want.format, found.Value)))
		}
	}
	return strings.Join(parts, ", ")
}
