package trust

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"specrun/experiments/record"
)

// Probe is how a patch set measures, and so disturbs.
type Probe string

// Probes of patches, from harmless to harmful.
const (
	ProbeNone   Probe = "none"
	ProbeLight  Probe = "light"  // wall clock, no synchronize
	ProbeEvents Probe = "events" // device events read later
	ProbeSync   Probe = "sync"   // waits for the device
)

// Mismatch is a setting that the server runs with, but not as asked.
type Mismatch struct{ Name, Asked, Effective string }

// Request is what one measured request tells.
type Request struct {
	MsPerToken   float64 // its median; NaN when it failed or had a single token
	PromptTokens int
	CachedTokens int // -1 unknown
	Failed       bool
}

// Cycles is what the profiler counted in the benchmark window.
type Cycles struct {
	Counted   int     // decode cycles whose interval was counted
	Mixed     int     // of those, all in rows whose least and greatest batch differ
	MeanBatch float64 // requests per cycle; 0 unknown
}

// Answer is what could be found out.
type Answer int

// Answers.
const (
	Unknown Answer = iota
	Yes
	No
)

// Input is all that is known of a run. Metrics have the names and sources of the
// metric table: cycle_total, cycle_draft, accept_len, tpot_mean, ... Zero fields
// mean unknown, and what rests on them is not checkable.
type Input struct {
	Concurrency int // asked for
	Steps       int // speculative steps; 0 = no speculation
	Metrics     []record.Metric
	Cycles      *Cycles // nil: no profiler
	Requests    []Request

	Patches   []string // names of the patches that the server should have loaded
	PatchLive Answer   // whether a sign of them was seen in the running server
	Strangers []string // profilers seen in the running server beside them
	Probe     Probe    // the strongest of all these

	ConfigRead bool // whether the effective configuration could be read
	Mismatches []Mismatch

	ServerAlive      Answer // the same process at the end of the benchmark
	CompiledInWindow Answer // kernels were compiled during the benchmark
	PromptsSHA       string // of the prompts sent
	SweepPromptsSHA  string // of the sweep's first run
	OutputsSHA       string // of the greedy outputs; "" when not greedy
	ShapeOutputsSHA  string // of the first run of the same speculative shape
	ClientTokens     int64  // output tokens that the client counted
	ServerTokens     int64  // and the server; 0 unknown
	GPUSamples       int
	ThrottledSamples int
	Neighbours       []string // processes not ours on the GPUs
	PreEdited        []string // target files with that verdict
	OnController     bool     // the benchmark ran on the controller
	Imported         bool
	SimulatedBecause string // "" = real
}

// Assess applies the rules of the label table and every check to one run.
// Labels come in the order of the table; a check is always listed, even when it
// is not checkable.
func Assess(in Input) ([]record.Label, []record.TrustCheck) {
	checks := []record.TrustCheck{
		checkTPOT(in), checkThroughput(in), checkAcceptSources(in), checkAcceptRange(in), checkPhases(in),
		checkTokens(in), checkRequests(in), checkCycles(in), checkCache(in), checkConfig(in), checkPatch(in),
		checkAlive(in), checkPrompts(in), checkOutputs(in),
	}
	return assign(in), checks
}

// AssessCell gives the labels that depend on all launches of a cell.
func AssessCell(c record.CellFacts) []record.Label {
	var out []record.Label
	switch {
	case c.Runs == 1:
		out = append(out, record.Label{Name: Single, Reason: "1 run"})
	case c.Launches >= 2 && c.Launches <= fewLaunchesMax:
		out = append(out, record.Label{Name: FewRounds, Reason: fmt.Sprintf("%d launches", c.Launches)})
	}
	if c.BaselineMoved != "" {
		out = append(out, record.Label{Name: Drift, Reason: c.BaselineMoved})
	}
	return out
}

// assign goes through the rules of the table.
func assign(in Input) []record.Label {
	var out []record.Label
	add := func(when bool, name, format string, args ...any) {
		if when {
			out = append(out, record.Label{Name: name, Reason: fmt.Sprintf(format, args...)})
		}
	}
	set := strings.Join(in.Patches, ", ")
	live := strings.Join(slices.Concat(in.Patches, in.Strangers), ", ")
	add(in.Probe == ProbeSync, SyncProbe, "patches: %s", live)
	add(in.Probe == ProbeLight && len(phases(in.Metrics)) > 0, Indicative, "patches: %s", live)
	if spread := requestSpread(in.Requests); spread > noisySpread {
		add(true, Noisy, "%s between the slowest and the fastest request", percent(spread))
	}
	if c := in.Cycles; c != nil && c.Counted > 0 {
		add(c.Counted < minCycles, Short, "%d cycles counted", c.Counted)
		mixed := float64(c.Mixed) / float64(c.Counted)
		add(mixed > mixedFraction, MixedBatch, "in rows that hold %s of %d cycles", percent(mixed), c.Counted)
	}
	if failed, sent := requestFailures(in); failed > 0 {
		add(true, Partial, "%s of %s requests failed", count(failed), count(sent))
	}
	if cached, prompt := cachedTokens(in.Requests); prompt > 0 {
		add(float64(cached) > cachedFraction*float64(prompt), CacheWarm, "%d of %d prompt tokens cached", cached, prompt)
	}
	add(in.CompiledInWindow == Yes, JIT, "kernels were compiled during the benchmark")
	add(len(in.Mismatches) > 0, ConfigMismatch, "%s", mismatches(in.Mismatches))
	add(len(in.Patches) > 0 && in.PatchLive != Yes, PatchUnverified, "no sign of %s in the server", set)
	if in.GPUSamples > 0 {
		share := float64(in.ThrottledSamples) / float64(in.GPUSamples)
		add(share > throttledShare, Throttled, "in %d of %d samples", in.ThrottledSamples, in.GPUSamples)
	}
	add(in.OnController, Tunnel, "the benchmark ran on the controller")
	add(len(in.Neighbours) > 0, SharedHost, "%s", strings.Join(in.Neighbours, ", "))
	_, measured := value(in.Metrics, "cycle_total")
	add(in.Steps > 0 && !measured, TotalUnknown, "no cycle could be counted")
	add(len(in.PreEdited) > 0, PreEdited, "%s", strings.Join(in.PreEdited, ", "))
	add(in.Imported, Imported, "read from a file")
	add(in.SimulatedBecause != "", Simulated, "%s", in.SimulatedBecause)

	at := map[string]int{}
	for i, l := range Labels() {
		at[l.Name] = i
	}
	slices.SortStableFunc(out, func(a, b record.Label) int { return cmp.Compare(at[a.Name], at[b.Name]) })
	return out
}

// value finds a metric, of the first of the sources that has a finite one, or
// of any source when none is named.
func value(ms []record.Metric, name string, sources ...string) (float64, bool) {
	find := func(source string) (float64, bool) {
		for _, m := range ms {
			if m.Name == name && (source == "" || m.Source == source) && !math.IsNaN(m.Value) && !math.IsInf(m.Value, 0) {
				return m.Value, true
			}
		}
		return math.NaN(), false
	}
	if len(sources) == 0 {
		return find("")
	}
	for _, s := range sources {
		if v, ok := find(s); ok {
			return v, true
		}
	}
	return math.NaN(), false
}

// phases gives the phase times, without what is left over.
func phases(ms []record.Metric) map[string]float64 {
	out := map[string]float64{}
	for _, name := range []string{"cycle_draft", "cycle_verify", "cycle_extend"} {
		if v, ok := value(ms, name); ok {
			out[name] = v
		}
	}
	return out
}

// requestSpread is the distance of the slowest from the fastest request over
// their median; NaN for fewer than two requests.
func requestSpread(rs []Request) float64 {
	var v []float64
	for _, r := range rs {
		if !r.Failed && r.MsPerToken > 0 {
			v = append(v, r.MsPerToken)
		}
	}
	if len(v) < 2 {
		return math.NaN()
	}
	slices.Sort(v)
	m := len(v) / 2
	return (v[len(v)-1] - v[0]) / ((v[m] + v[(len(v)-1)/2]) / 2)
}

// requestFailures counts by the client's metrics, else by the requests. A
// negative sent is unknown.
func requestFailures(in Input) (failed, sent float64) {
	f, okF := value(in.Metrics, "failed")
	c, okC := value(in.Metrics, "completed")
	switch {
	case okF && okC:
		return f, f + c
	case okF:
		return f, -1
	case len(in.Requests) == 0:
		return -1, -1
	}
	for _, r := range in.Requests {
		if r.Failed {
			failed++
		}
	}
	return failed, float64(len(in.Requests))
}

// cachedTokens counts over the requests that tell; prompt is 0 when none does.
func cachedTokens(rs []Request) (cached, prompt int) {
	for _, r := range rs {
		if !r.Failed && r.CachedTokens >= 0 {
			cached, prompt = cached+r.CachedTokens, prompt+r.PromptTokens
		}
	}
	return cached, prompt
}

func mismatches(ms []Mismatch) string {
	parts := make([]string, len(ms))
	for i, m := range ms {
		parts[i] = fmt.Sprintf("%s: asked %s, is %s", m.Name, m.Asked, m.Effective)
	}
	return strings.Join(parts, "; ")
}

func percent(fraction float64) string { return fmt.Sprintf("%.1f %%", 100*fraction) }

func count(v float64) string {
	if v < 0 {
		return "an unknown number of"
	}
	return fmt.Sprintf("%.0f", v)
}
