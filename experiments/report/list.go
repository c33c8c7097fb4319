package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"specrun/experiments/record"
)

// SweepLine is the JSON line of type sweep.
type SweepLine struct {
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	Kind    string   `json:"kind"`
	State   string   `json:"state"`
	Created string   `json:"created"`         // RFC 3339
	Ended   string   `json:"ended,omitempty"` // RFC 3339
	Cells   int      `json:"cells"`
	Runs    int      `json:"runs"` // planned
	Done    int      `json:"done"`
	Failed  int      `json:"failed"`
	Hosts   []string `json:"hosts"`
}

// SweepLines gives the lines of a list of sweeps.
func SweepLines(rows []record.SweepRow) []SweepLine {
	out := make([]SweepLine, len(rows))
	for i, r := range rows {
		out[i] = SweepLine{ID: r.Sweep.ID, Name: r.Sweep.Name, Kind: r.Sweep.Kind, State: string(r.Sweep.State),
			Created: stamp(r.Sweep.CreatedUs), Cells: r.Cells, Runs: r.Slots, Done: r.Done, Failed: r.Failed, Hosts: r.Hosts}
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
		g.add(plain(l.ID), l.Created, plain(l.Name), l.Kind, l.State, fmt.Sprint(l.Cells), fmt.Sprintf("%d/%d", l.Done, l.Runs),
			fmt.Sprint(l.Failed), plain(strings.Join(l.Hosts, ", ")))
	}
	return g.write(w)
}

// RunLine is the JSON line of type run of a list.
type RunLine struct {
	ID       string              `json:"id"`
	Sweep    string              `json:"sweep"`
	Name     string              `json:"name"`
	Kind     string              `json:"kind"`
	Host     string              `json:"host"`
	Params   record.Params       `json:"params"`
	Baseline bool                `json:"baseline"`
	Round    int                 `json:"round"`  // from 1
	Repeat   int                 `json:"repeat"` // from 1
	Attempt  int                 `json:"attempt"`
	State    string              `json:"state"`
	Class    string              `json:"class,omitempty"`
	Reason   string              `json:"reason,omitempty"`
	Start    string              `json:"start,omitempty"` // RFC 3339
	End      string              `json:"end,omitempty"`   // RFC 3339
	Metrics  map[string]*float64 `json:"metrics"`         // null: printed as NaN or Inf
	Labels   []string            `json:"labels"`
}

// RunLines gives the lines of a list of runs.
func RunLines(rows []record.RunRow) []RunLine {
	out := make([]RunLine, len(rows))
	for i, r := range rows {
		out[i] = RunLine{ID: r.Run.ID, Sweep: r.SweepID, Name: r.SweepName, Kind: r.Kind, Host: r.Run.Host, Params: r.Cell.Params,
			Baseline: r.Cell.Baseline, Round: r.Slot.Round + 1, Repeat: r.Slot.Repeat + 1, Attempt: r.Run.Attempt,
			State: string(r.Run.State), Class: string(r.Run.Class), Reason: r.Run.Reason, Metrics: map[string]*float64{}, Labels: []string{}}
		out[i].Start, out[i].End = times(r.Run)
		if out[i].Params == nil {
			out[i].Params = record.Params{}
		}
		for name, m := range preferred(r.Metrics) {
			out[i].Metrics[name] = finite(m.Value)
		}
		for _, l := range r.Labels {
			out[i].Labels = append(out[i].Labels, l.Name)
		}
	}
	return out
}

// WriteRuns writes a list of runs.
func WriteRuns(w io.Writer, rows []record.RunRow) error {
	g := grid{right: []bool{false, false, false, true, false, true, true, true}}
	g.add("run", "experiment", "cell", "round", "state", "TOTAL ms/cyc", "accept len", "tok/s", "host", "labels")
	for _, r := range rows {
		ms := preferred(r.Metrics)
		state := string(r.Run.State)
		if r.Run.Class != record.ClassNone {
			state += " " + string(r.Run.Class)
		}
		var labels []string
		for _, l := range r.Labels {
			labels = append(labels, l.Name)
		}
		g.add(plain(r.Run.ID), plain(r.SweepName), allParams(r.Cell), fmt.Sprint(r.Slot.Round+1), state,
			metricText(ms, "cycle_total"), metricText(ms, "accept_len"), metricText(ms, "output_throughput"),
			plain(r.Run.Host), strings.Join(labels, ", "))
	}
	return g.write(w)
}

// preferred picks for each metric the source nearest to what it measures.
func preferred(ms []record.Metric) map[string]record.Metric {
	out := map[string]record.Metric{}
	for _, m := range ms {
		was, ok := out[m.Name]
		better := sourceRank(m.Source) < sourceRank(was.Source)
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

func times(r record.Run) (start, end string) {
	if r.StartUs != 0 {
		start = stamp(r.StartUs)
	}
	if r.EndUs != 0 {
		end = stamp(r.EndUs)
	}
	return start, end
}
