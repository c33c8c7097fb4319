package report

import (
	"slices"

	"specrun/experiments/record"
	"specrun/experiments/stats"
)

// fill counts the runs of a row and reduces its launches to numbers.
func (row *CellRow) fill(runs []record.Run, slotOf map[string]record.Slot, data map[string]record.RunData) {
	launches := map[string]bool{}
	for _, r := range runs {
		switch r.State {
		case record.RunFailed:
			row.Failed++
		case record.RunDone:
			row.Runs++
			launches[r.LaunchID] = true
		}
	}
	row.Launches = len(launches)
	row.Metrics = map[string]MetricValue{}
	row.launches = map[string][]stats.Launch{}
	row.nests = map[string][]stats.Nest{}
	row.sources = map[string]string{}
	for name, m := range stats.CellMetrics(doneRuns(runs, slotOf, data)) {
		row.nests[name], row.launches[name], row.sources[name] = m.Nests, m.Launches(), m.Source
		summary := stats.Summarize(valuesOf(row.launches[name]))
		if slices.Contains(exact[:], name) {
			summary.Interval, summary.Rank = nil, nil
		}
		row.Metrics[name] = metricValue(m.Unit, summary)
	}
}

// exact are the metrics that were counted, not measured: an interval would doubt
// what is exact.
var exact = [...]string{"completed", "failed", "total_input_tokens", "total_output_tokens"}

// doneRuns are the runs that have numbers.
func doneRuns(runs []record.Run, slotOf map[string]record.Slot, data map[string]record.RunData) []stats.CellRun {
	var out []stats.CellRun
	for _, r := range runs {
		if r.State == record.RunDone {
			out = append(out, stats.CellRun{Launch: r.LaunchID, Round: slotOf[r.SlotID].Round, Data: data[r.ID]})
		}
	}
	return out
}

func valuesOf(ls []stats.Launch) []float64 {
	out := make([]float64, len(ls))
	for i, l := range ls {
		out[i] = l.Value
	}
	return out
}

func metricValue(unit string, s stats.Summary) MetricValue {
	m := MetricValue{Unit: unit, Median: s.Median, N: s.N}
	if s.Interval != nil {
		m.Lo, m.Hi, m.Interval = &s.Interval.Lo, &s.Interval.Hi, &s.Interval.Kind
	}
	if s.Rank != nil {
		m.RankLo, m.RankHi = &s.Rank.Lo, &s.Rank.Hi
	}
	return m
}
