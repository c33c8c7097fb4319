package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"specrun/experiments/record"
	"specrun/experiments/stats"
)

// SweepLine is the JSON line of type sweep.
type SweepLine struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	State   string `json:"state"`
	Created string `json:"created"`         // RFC 3339
	Ended   string `json:"ended,omitempty"` // RFC 3339
	Cells   int    `json:"cells"`
	Runs    int    `json:"runs"` // planned
	Done    int    `json:"done"`
	Failed  int    `json:"failed"`
	// Launches is 0 of a sweep that was refused, or ended, before it had begun.
	Launches int      `json:"launches"`
	Hosts    []string `json:"hosts"`
}

// SweepLines gives the lines of a list of sweeps.
func SweepLines(rows []record.SweepRow) []SweepLine {
	out := make([]SweepLine, len(rows))
	for i, r := range rows {
		out[i] = SweepLine{ID: r.Sweep.ID, Name: r.Sweep.Name, Kind: r.Sweep.Kind, State: string(r.Sweep.State),
			Created: stamp(r.Sweep.CreatedUs), Cells: r.Cells, Runs: r.Slots, Done: r.Done, Failed: r.Failed, Launches: r.Launches, Hosts: r.Hosts}
		if r.Sweep.EndedUs != 0 {
			out[i].Ended = stamp(r.Sweep.EndedUs)
		}
		if r.Hosts == nil {
			out[i].Hosts = []string{}
		}
	}
	return out
}

// WriteSweeps writes a list of sweeps.
func WriteSweeps(w io.Writer, rows []record.SweepRow) error {
	g := grid{right: []bool{false, false, false, false, false, true, true, true}}
	g.add("sweep", "begun", "experiment", "kind", "state", "cells", "done", "failed", "hosts")
	for _, l := range SweepLines(rows) {
		g.add(plain(l.ID), l.Created, plain(l.Name), l.Kind, l.begun(), fmt.Sprint(l.Cells), fmt.Sprintf("%d/%d", l.Done, l.Runs),
			fmt.Sprint(l.Failed), plain(strings.Join(l.Hosts, ", ")))
	}
	return g.write(w)
}

// begun is the state, but for a sweep of which nothing was ever done.
func (l SweepLine) begun() string {
	if l.State == string(record.SweepInterrupted) && l.Launches == 0 {
		return "not begun"
	}
	return l.State
}

// RunLine is the JSON line of type run of a list.
type RunLine struct {
	RunHead
	Metrics map[string]*float64 `json:"metrics"` // null: printed as NaN or Inf
	Labels  []string            `json:"labels"`
}

// RunLines gives the lines of a list of runs.
func RunLines(rows []record.RunRow) []RunLine {
	out := make([]RunLine, len(rows))
	for i, r := range rows {
		out[i] = RunLine{headOf(r.Run, r.Cell, r.Slot, r.SweepID, r.SweepName, r.Kind), map[string]*float64{}, labelsOf(r.Labels)}
		for name, m := range preferred(r.Metrics) {
			out[i].Metrics[name] = finite(m.Value)
		}
	}
	return out
}

// labelsOf gives the names of labels, [] for none.
func labelsOf(ls []record.Label) []string {
	out := []string{}
	for _, l := range ls {
		out = append(out, l.Name)
	}
	return out
}

// WriteRuns writes a list of runs.
func WriteRuns(w io.Writer, rows []record.RunRow) error {
	g := grid{right: []bool{false, false, false, true, false, true, true, true}}
	g.add("run", "experiment", "cell", "round", "state", "TOTAL ms/cyc", "accept len", "tok/s", "host", "labels")
	for _, r := range rows {
		ms := preferred(r.Metrics)
		g.add(plain(r.Run.ID), plain(r.SweepName), allParams(r.Cell), fmt.Sprint(r.Slot.Round+1), stateText(r.Run, " "),
			metricText(ms, "cycle_total"), metricText(ms, "accept_len"), metricText(ms, "output_throughput"),
			plain(r.Run.Host), strings.Join(labelsOf(r.Labels), ", "))
	}
	return g.write(w)
}

// preferred picks for each metric the source nearest to what it measures.
func preferred(ms []record.Metric) map[string]record.Metric {
	out := map[string]record.Metric{}
	for _, m := range ms {
		was, ok := out[m.Name]
		better := stats.NearerSource(m.Source, was.Source) < 0
		if !ok || better && finite(m.Value) != nil || finite(was.Value) == nil && finite(m.Value) != nil {
			out[m.Name] = m
		}
	}
	return out
}

func metricText(ms map[string]record.Metric, name string) string {
	m, ok := ms[name]
	if !ok || math.IsNaN(m.Value) {
		return "-"
	}
	return number(m.Value, m.Unit)
}

// allParams names a cell outside its sweep, where nothing can be left out.
func allParams(c record.Cell) string {
	var names []string
	for name := range c.Params {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(names) == 0 && !c.Baseline {
		return "-"
	}
	return CellName(c, names)
}
