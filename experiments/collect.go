package experiments

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"specrun/experiments/bench"
	"specrun/experiments/metrics"
	"specrun/experiments/record"
	"specrun/experiments/trust"
)

// Collect turns what a run left behind into its numbers, with what limits their
// trust. It is the Collector of a real execution.
func Collect(w Window) (record.RunData, error) {
	var report bench.Report
	if err := json.Unmarshal(w.Report.Raw, &report); err != nil {
		return record.RunData{}, fmt.Errorf("benchmark report: %w", err)
	}
	f := metrics.NewFollowerAt(w.LogStart)
	f.Write(w.Log)
	f.Close()
	window := metrics.Window{LogStart: report.LogStart, LogEnd: report.LogEnd}
	if w.Cell.Bench.Where == "host" {
		// Only there have the client and the server the same clock.
		window.TStart, window.TEnd = float64(report.StartUs)/1e6, float64(report.EndUs)/1e6
		if w.Cell.Bench.Concurrency > 1 {
			window.SteadyStart, window.SteadyEnd = float64(report.SteadyStartUs)/1e6, float64(report.SteadyEndUs)/1e6
		}
	}
	if report.LogStart < 0 || report.LogEnd < 0 {
		// No cursors: no row of the log can be said to be of this run.
		window.LogStart, window.LogEnd = math.MaxInt64, math.MaxInt64
	}
	rows, decode := f.Rows(), f.Decode()
	s := metrics.Summarise(rows, decode, window)
	data := record.RunData{Metrics: append(report.Metrics(), s.Metrics...), Samples: joined(s.Samples, report.Samples())}
	data.Metrics = append(data.Metrics, slope(s.Samples)...)
	spec := metrics.SummariseSpeculation(f.Speculation(), window, stepsOf(w.Cell, w.Checked.Effective))
	data.Metrics = append(data.Metrics, slices.Concat(countedSpeculation(report), spec.Metrics)...)
	read, samples, err := fromLog(w.Cell.Server.Read, w.Log, w.LogStart, window.LogStart, window.LogEnd)
	if err != nil {
		return record.RunData{}, err
	}
	data.Metrics = append(data.Metrics, read...)
	data.Samples = joined(data.Samples, samples)
	seen := sights{decode: decode, prefill: f.Prefills(), window: window}
	for _, row := range rows {
		if window.Inside(row) {
			seen.rows = append(seen.rows, row)
		}
	}
	in := trustInput(w, report, s, data.Metrics, seen)
	in.Sums = acceptanceSums(report, spec)
	data.Labels, data.Checks = trust.Assess(in)
	data.Metrics = append(data.Metrics, trust.GapMetrics(in)...)
	data.Provenance = append(data.Provenance, factsOfWindow(w, report, s.Unsteady)...)
	data.Provenance = append(data.Provenance, surroundings(report.Surroundings)...)
	for _, note := range append(slices.Clone(report.Notes), spec.Notes...) {
		data.Provenance = append(data.Provenance, record.Fact{Group: "workload", Key: "note", Value: note})
	}
	return data, nil
}
