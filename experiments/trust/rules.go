package trust

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"specrun/experiments/record"
)

// assign goes through the rules of the table.
func assign(in Input, checks []record.TrustCheck) []record.Label {
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
	if why := noise(in); why != "" {
		add(true, Noisy, "%s", why)
	}
	if c := in.Cycles; c != nil && c.Counted > 0 {
		add(c.Counted < minCycles, Short, "%d cycles counted", c.Counted)
		mixed := float64(c.Mixed) / float64(c.Counted)
		whole := float64(c.WholeMixed) / float64(max(c.WholeCounted, 1))
		switch {
		case mixed > mixedFraction:
			add(true, MixedBatch, "%s of %d cycles had another batch size than most", percent(mixed), c.Counted)
		case whole > rampFraction:
			add(true, MixedBatch, "%s of the benchmark's %d cycles, in ramp or drain, had another batch size than most", percent(whole), c.WholeCounted)
		}
	}
	if failed, sent := requestFailures(in); failed > 0 {
		add(true, Partial, "%s of %s requests failed", count(failed), count(sent))
	}
	if cached, prompt, from := cachedTokens(in); prompt > 0 {
		add(float64(cached) > cachedFraction*float64(prompt), CacheWarm, "%d of %d prompt tokens cached, by the %s", cached, prompt, from)
	}
	add(in.CompiledInWindow == Yes, JIT, "%s", in.CompileEvidence)
	if wrong := misconfigured(in); wrong != "" {
		add(true, ConfigMismatch, "%s", wrong)
	}
	add(len(in.Patches) > 0 && in.PatchLive != Yes, PatchUnverified, "no sign of %s in the server", set)
	add(failedOf(checks, CheckOutputs), OutputChanged, "other greedy outputs than the first run of these speculative flags")
	if failed := failures(checks); failed != "" {
		add(true, Disagree, "%s", failed)
	}
	add(in.LogCut != "", LogCut, "%s", in.LogCut)
	add(in.DiedAfter != "", DiedAfter, "%s", in.DiedAfter)
	if in.GPUSamples > 0 {
		share := float64(in.ThrottledSamples) / float64(in.GPUSamples)
		why := ""
		if in.ThrottleReasons != "" {
			why = ": " + in.ThrottleReasons
		}
		add(share > throttledShare, Throttled, "in %d of %d readings%s", in.ThrottledSamples, in.GPUSamples, why)
	}
	add(in.OnController, Tunnel, "the benchmark ran on the controller")
	neighbours := slices.Clone(in.Neighbours)
	for _, l := range in.Beside {
		neighbours = append(neighbours, l+" on the same host")
	}
	if c := checkNobody(in); c.Outcome == record.Fail {
		neighbours = append(neighbours, c.Explanation)
	}
	add(in.Attached, Attached, "specrun neither started nor configured the server")
	add(len(neighbours) > 0, SharedHost, "%s", strings.Join(neighbours, ", "))
	_, measured := value(in.Metrics, "cycle_total")
	switch {
	case in.TotalUnstated != "" && measured:
		add(true, TotalUnknown, "%s", in.TotalUnstated)
	case in.CyclesExpected && in.speculates() && !measured:
		add(true, TotalUnknown, "a profiler was to count cycles, and no counted one is in the window")
	}
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

// noise says why a launch's requests are not to be trusted together; "" when
// nothing speaks against them.
func noise(in Input) string {
	var why []string
	if spread, n := requestSpread(in.Requests); spread > noisySpread {
		text := "%s between the slowest and the fastest request"
		if n > spreadOf {
			text = "%s between the slowest and the fastest of three requests, on average"
		}
		why = append(why, fmt.Sprintf(text, percent(spread)))
	}
	for i, r := range in.Requests {
		if !r.Failed && r.MsSilent > silentLeast && r.MsSilent > silentTimes*r.MsUsual {
			why = append(why, fmt.Sprintf("request %d got nothing for %.1f s", i, r.MsSilent/1000))
			break // one says enough
		}
	}
	if c := checkKeptUp(in); c.Outcome == record.Fail {
		why = append(why, c.Explanation)
	}
	if w := in.Warmup; w != nil && w.Judged && !w.Settled {
		text := fmt.Sprintf("the warm-up did not settle in %d requests", w.Sent)
		if w.Spread >= 0 {
			text += fmt.Sprintf(": the last two are %s apart", percent(w.Spread))
		}
		why = append(why, text)
	}
	return strings.Join(why, "; ")
}

// misconfigured names settings that are not as asked; also that a baseline
// speculates, whatever its configuration says.
func misconfigured(in Input) string {
	text := mismatches(in.Mismatches)
	if in.Steps == 0 && len(in.SpeculationSigns) > 0 {
		more := "the baseline speculates: " + strings.Join(in.SpeculationSigns, "; ")
		if text == "" {
			return more
		}
		return text + "; " + more
	}
	return text
}

func failedOf(checks []record.TrustCheck, name string) bool {
	return slices.ContainsFunc(checks, func(c record.TrustCheck) bool { return c.Name == name && c.Outcome == record.Fail })
}

// failures names the cross-checks that failed; what they compared stands with
// them.
func failures(checks []record.TrustCheck) string {
	var out []string
	for _, c := range checks {
		if c.Outcome == record.Fail && slices.Contains(crossChecks, c.Name) {
			out = append(out, c.Name)
		}
	}
	return strings.Join(out, ", ")
}

// spreadOf requests are those whose spread is judged.
const spreadOf = 3

// rangeOfThree is the mean distance of the greatest from the least of three
// values of a normal distribution, in standard deviations: 3/sqrt(pi).
const rangeOfThree = 1.6926

// requestSpread is the distance of the slowest from the fastest of n requests
// over their median; of more than three what three of them have on average, so
// that it does not grow with their number. NaN for fewer than two.
func requestSpread(rs []Request) (spread float64, n int) {
	var v []float64
	for _, r := range rs {
		if !r.Failed && r.MsPerChunk > 0 {
			v = append(v, r.MsPerChunk)
		}
	}
	n = len(v)
	if n < 2 {
		return math.NaN(), n
	}
	slices.Sort(v)
	median := (v[n/2] + v[(n-1)/2]) / 2
	if n <= spreadOf {
		return (v[n-1] - v[0]) / median, n
	}
	mean, ss := 0.0, 0.0
	for _, x := range v {
		mean += x / float64(n)
	}
	for _, x := range v {
		ss += (x - mean) * (x - mean)
	}
	return rangeOfThree * math.Sqrt(ss/float64(n-1)) / median, n
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

// cachedTokens counts over the requests that tell, else by the server log;
// prompt is 0 when neither does.
func cachedTokens(in Input) (cached, prompt int, from string) {
	for _, r := range in.Requests {
		if !r.Failed && r.CachedTokens >= 0 {
			cached, prompt = cached+r.CachedTokens, prompt+r.PromptTokens
		}
	}
	if prompt > 0 {
		return cached, prompt, "responses"
	}
	return in.LogCached, in.LogPrompt, "server log"
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
