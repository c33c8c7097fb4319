package main

import (
	"fmt"
	"strings"
	"time"

	"specrun/experiments"
	"specrun/experiments/record"
	"specrun/experiments/report"
)

// watch shows one sweep while it runs: a terminal sees the step in progress,
// and every run that ends is a line. It is told of everything from one
// goroutine, as experiments.Deps says.
type watch struct {
	a        *app
	names    func(experiments.Cell) string
	host     string        // in front of every line when several hosts are at work; "" else
	estimate time.Duration // of the plan, 0 = none

	begin  time.Time
	launch int       // the one in progress
	ended  time.Time // of the launch before it
}

// newWatch watches a sweep of the plan, which is nil when it is not known yet.
func (a *app) newWatch(p *experiments.Plan, several bool) *watch {
	w := &watch{a: a, begin: a.now(), names: namesIn(nil)}
	if p != nil {
		w.names, w.estimate = namesIn(p.All()), time.Duration(p.Estimate.Seconds)*time.Second
		if several {
			w.host = p.Host.Name + ": "
		}
	}
	return w
}

// namesIn names the cells of one plan by what tells them apart, as its table
// does.
func namesIn(cells []experiments.Cell) func(experiments.Cell) string {
	stored := make([]record.Cell, len(cells))
	for i, c := range cells {
		stored[i] = record.Cell{Ord: c.Ord, Params: c.Params, Baseline: c.Baseline}
	}
	varying := report.VaryingParams(stored)
	return func(c experiments.Cell) string {
		if len(cells) == 0 {
			return cellName(c.Params, c.Baseline)
		}
		return report.CellName(record.Cell{Ord: c.Ord, Params: c.Params, Baseline: c.Baseline}, varying)
	}
}

// show is told of every step.
func (w *watch) show(p experiments.Progress) {
	a := w.a
	if p.Launch != w.launch {
		w.launch, w.ended = p.Launch, a.now()
	}
	name := p.Host
	switch {
	case p.Cell != nil:
		name = w.names(*p.Cell)
	case len(p.Cells) > 0:
		name = w.names(p.Cells[0])
	}
	head := fmt.Sprintf("%s[%d/%d] %s", w.host, p.Launch, p.Launches, name)
	if p.Launch == 0 {
		head = p.Host
	}
	if p.Step == experiments.StepWait && p.Phase == experiments.PhaseBegin { // what is waited for is another now
		a.note("%s: %s", head, p.Message)
	}
	switch p.Phase {
	case experiments.PhaseResult:
		text := resultText(p.Result)
		if p.Times > 1 {
			text += fmt.Sprintf(" (x %d)", p.Times)
		}
		a.note("%s, round %d: %s", head, p.Round+1, text)
	case experiments.PhaseFailed:
		a.note("%s: %s failed: %s", head, p.Step, p.Message)
	default:
		begin, left := w.begin, w.left(p)
		a.setLive(head+": "+stepText(p.Step, p.Message), func() string { return timesText(a.now(), begin, left) })
		if a.flags.verbose {
			a.note("%s: %s %s %s", head, p.Step, p.Phase, p.Message)
		}
	}
}

// left says when the sweep will be over, zero when nothing tells: what launches
// took so far, else the plan's estimate.
func (w *watch) left(p experiments.Progress) time.Time {
	switch made := p.Launch - 1; {
	case made > 0:
		per := w.ended.Sub(w.begin) / time.Duration(made)
		return w.ended.Add(per * time.Duration(p.Launches-made))
	case w.estimate > 0:
		return w.begin.Add(w.estimate)
	}
	return time.Time{}
}

// stepText is a step with what it says, which often begins with its own name.
func stepText(step, message string) string {
	message = strings.TrimSpace(message)
	switch {
	case message == "" || strings.HasPrefix(message, step):
		return step
	case step == "":
		return message
	}
	return step + ", " + message
}

// timesText ends the live line: how long it has taken, and how long it will.
func timesText(now, begin, over time.Time) string {
	text := " (" + now.Sub(begin).Round(time.Second).String()
	if left := over.Sub(now).Round(time.Second); !over.IsZero() && left > 0 {
		text += ", about " + left.String() + " left"
	}
	return text + ")"
}
