package experiments

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"specrun/deploy"
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
	}
	if report.LogStart < 0 || report.LogEnd < 0 {
		// No cursors: no row of the log can be said to be of this run.
		window.LogStart, window.LogEnd = math.MaxInt64, math.MaxInt64
	}
	s := metrics.Summarise(f.Rows(), f.Decode(), window)
	data := record.RunData{Metrics: append(report.Metrics(), s.Metrics...), Samples: s.Samples}
	data.Labels, data.Checks = trust.Assess(trustInput(w, report, s, data.Metrics))
	for _, note := range report.Notes {
		data.Provenance = append(data.Provenance, record.Fact{Group: "workload", Key: "note", Value: note})
	}
	return data, nil
}

func trustInput(w Window, r bench.Report, s metrics.Summary, ms []record.Metric) trust.Input {
	asked := w.Cell.Server.Patches
	strangers := strangersIn(asked, s.Rows)
	in := trust.Input{
		Concurrency: w.Cell.Bench.Concurrency, Steps: steps(w.Cell), Metrics: ms,
		PatchLive: patchLive(w.Patches.Patches, s.Rows), Probe: strongest(slices.Concat(asked, strangers)),
		ConfigRead: len(w.Checked.Effective) > 0, ServerAlive: trust.No,
		PromptsSHA: r.PromptsSHA, SweepPromptsSHA: firstOf(w.PromptsSHA, r.PromptsSHA),
		OnController: w.Cell.Bench.Where == "controller", SimulatedBecause: w.Checked.Simulated,
	}
	if w.Alive {
		in.ServerAlive = trust.Yes
	}
	if w.Cell.Bench.Temperature == 0 {
		in.OutputsSHA, in.ShapeOutputsSHA = r.OutputsSHA, firstOf(w.OutputsSHA, r.OutputsSHA)
	}
	for _, p := range asked {
		in.Patches = append(in.Patches, p.Name)
	}
	for _, p := range strangers {
		in.Strangers = append(in.Strangers, p.Name)
		in.Mismatches = append(in.Mismatches, trust.Mismatch{Name: "patches", Asked: namesOf(asked), Effective: "also " + patchContent(p)})
	}
	for _, m := range w.Checked.Mismatches {
		in.Mismatches = append(in.Mismatches, trust.Mismatch{Name: m.Flag, Asked: m.Asked, Effective: m.Effective})
	}
	for _, f := range w.Patches.Files {
		// What it was before is the question: once patched, its verdict is patched.
		if f.Verdict == string(deploy.PreEdited) || f.PristineVerdict == string(deploy.PreEdited) {
			in.PreEdited = append(in.PreEdited, f.Path)
		}
	}
	for _, q := range r.Requests {
		in.Requests = append(in.Requests, trustRequest(q))
		if q.Error == "" && q.OutputTokens > 0 {
			in.ClientTokens += int64(q.OutputTokens)
		}
	}
	if len(s.Rows) > 0 {
		in.Cycles = cycles(s)
	}
	return in
}

func trustRequest(q bench.Request) trust.Request {
	out := trust.Request{MsPerToken: math.NaN(), PromptTokens: q.PromptTokens, CachedTokens: q.CachedTokens, Failed: q.Error != ""}
	if q.Error == "" && q.OutputTokens > 1 {
		out.MsPerToken = float64(q.EndUs-q.FirstTokenUs) / 1000 / float64(q.OutputTokens-1)
	}
	return out
}

func cycles(s metrics.Summary) *trust.Cycles {
	c := &trust.Cycles{Counted: s.Cycles}
	sum, of := 0, 0
	for _, r := range s.Rows {
		if r.BatchMin != r.BatchMax {
			c.Mixed += max(r.Cycles, 0)
		}
		if r.BatchSum >= 0 && r.Cycles > 0 {
			sum, of = sum+r.BatchSum, of+r.Cycles
		}
	}
	c.Mixed = min(c.Mixed, c.Counted)
	if of > 0 {
		c.MeanBatch = float64(sum) / float64(of)
	}
	return c
}

// steps is the number of speculative steps that a cell asks for, 0 for none.
func steps(c Cell) int {
	for _, f := range c.Server.Flags {
		if f.Name == stepsFlag && len(f.Values) == 1 {
			if n, err := strconv.Atoi(strings.TrimSpace(f.Values[0])); err == nil {
				return n
			}
		}
	}
	return 0
}

// patchLive says whether every profiling patch was seen at work: its rows carry
// the beginning of its hash. A patch that prints nothing leaves it unknown.
func patchLive(set []PatchRef, rows []metrics.ProfilerRow) trust.Answer {
	if len(set) == 0 {
		return trust.Unknown
	}
	for _, p := range set {
		seen := slices.ContainsFunc(rows, func(r metrics.ProfilerRow) bool { return r.Hash != "" && strings.HasPrefix(p.SHA256, r.Hash) })
		if !seen {
			return trust.Unknown
		}
	}
	return trust.Yes
}

// strangersIn are the profilers that printed in the window and were not asked
// for: somebody applied a patch by hand, and the server loaded it. A row that
// says neither hash nor name tells nothing.
func strangersIn(asked []PatchRef, rows []metrics.ProfilerRow) []PatchRef {
	var out []PatchRef
	for _, r := range rows {
		is := func(p PatchRef) bool {
			if r.Hash == "" {
				return p.Name == r.Profiler
			}
			return strings.HasPrefix(p.SHA256, r.Hash)
		}
		if r.Hash == "" && r.Profiler == "" || slices.ContainsFunc(asked, is) || slices.ContainsFunc(out, is) {
			continue
		}
		out = append(out, PatchRef{Name: firstOf(r.Profiler, "a patch"), Version: r.Version, SHA256: r.Hash, Probe: string(probeOf(r))})
	}
	return out
}

// probeOf is what a profiler says of its phases: launch and wall times wait for
// nothing.
func probeOf(r metrics.ProfilerRow) trust.Probe {
	switch r.PhaseKind {
	case "sync":
		return trust.ProbeSync
	case "events":
		return trust.ProbeEvents
	}
	return trust.ProbeLight
}

func namesOf(set []PatchRef) string {
	names := make([]string, len(set))
	for i, p := range set {
		names[i] = p.Name
	}
	return firstOf(strings.Join(names, ", "), "none")
}

// patchContent names a patch that may have the name of another one.
func patchContent(p PatchRef) string {
	if p.SHA256 == "" {
		return p.Name
	}
	return fmt.Sprintf("%s (content %.12s)", p.Name, p.SHA256)
}

// strongest is the probe that disturbs most.
func strongest(set []PatchRef) trust.Probe {
	order := []trust.Probe{trust.ProbeNone, trust.ProbeLight, trust.ProbeEvents, trust.ProbeSync}
	most := trust.ProbeNone
	for _, p := range set {
		if slices.Index(order, trust.Probe(p.Probe)) > slices.Index(order, most) {
			most = trust.Probe(p.Probe)
		}
	}
	return most
}
