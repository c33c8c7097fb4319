package experiments

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"specrun/deploy"
	"specrun/experiments/bench"
	"specrun/experiments/engine"
	"specrun/experiments/metrics"
	"specrun/experiments/record"
	"specrun/experiments/trust"
)

// sights is what a window shows beside its numbers.
type sights struct {
	rows    []metrics.ProfilerRow // all inside the benchmark, ramp and drain too
	decode  []metrics.DecodeLine
	prefill []metrics.PrefillLine
	window  metrics.Window
}

// trustInput puts together what package trust judges.
func trustInput(w Window, r bench.Report, s metrics.Summary, ms []record.Metric, seen sights) trust.Input {
	asked := w.Cell.Server.Patches
	strangers := strangersIn(asked, seen.rows)
	in := trust.Input{
		Concurrency: w.Cell.Bench.Concurrency, Steps: stepsOf(w.Cell, w.Checked.Effective), Metrics: ms,
		Span: sameSpan(seen.rows, seen.decode, seen.window), Probe: strongest(slices.Concat(asked, strangers)), Profilers: profilersIn(seen.rows),
		ConfigRead: len(w.Checked.Effective) > 0 && !engine.Partial(w.Checked.Effective), ServerAlive: trust.No,
		PromptsSHA: r.PromptsSHA, SweepPromptsSHA: firstOf(w.PromptsSHA, r.PromptsSHA),
		Attached:     w.Cell.Server.Attach != nil,
		OnController: w.Cell.Bench.Where == "controller", SimulatedBecause: w.Checked.Simulated, AcceptanceSimulated: w.Checked.AcceptanceSimulated,
		GPUSamples: len(r.GPU), ThrottleReasons: r.ThrottleReasons(),
	}
	in.CyclesExpected = len(seen.rows) > 0 || slices.ContainsFunc(asked, func(p PatchRef) bool { return p.Prints })
	in.Ramp = in.Concurrency > 1 && (s.Unsteady || seen.window.SteadyEnd == 0)
	in.PatchLive, in.PatchEvidence = patchLive(w.Patches.Patches, seen.rows, w.Announced, leastCycles(r, w.Cell.Bench.Concurrency))
	in.LogInterval, _ = strconv.Atoi(w.Checked.Effective["decode_log_interval"])
	in.LogCached, in.LogPrompt = metrics.CachedTokens(seen.prefill, seen.window)
	in.ThrottledSamples, _ = r.Throttled()
	in.CompiledInWindow, in.CompileEvidence = compiledIn(w.Log, r)
	// What a server of engine command is asked for is not known, but of a baseline.
	unknown := in.Attached || w.Cell.Server.Engine == engineCommand && !w.Cell.Baseline
	if in.Steps > 0 || !asksSpeculation(w.Cell.Server) && !unknown {
		in.SpeculationSigns = speculationSigns(w.Checked.Effective, r, ms, s.Cycles)
	}
	in.Deterministic = deterministic(w)
	in.LogCut, in.DiedAfter = w.LogCut, w.DiedAfter
	if w.Alive {
		in.ServerAlive = trust.Yes
	}
	if u := w.Warmup; u != nil {
		in.Warmup = &trust.Warmup{Judged: u.Auto, Settled: u.Settled, Sent: u.Sent, Spread: u.Spread}
	}
	if w.Cell.Bench.Temperature == 0 {
		in.OutputsSHA, in.ShapeOutputsSHA = r.OutputsSHA, firstOf(w.OutputsSHA, r.OutputsSHA)
		in.Baseline = againstBaseline(r.Requests, w.BaselineRequests)
	}
	for _, p := range asked {
		in.Patches = append(in.Patches, p.Name)
	}
	for _, p := range strangers {
		if in.Attached { // nothing was asked of it: its rows tell what it has loaded
			in.Patches = append(in.Patches, p.Name)
			in.PatchLive, in.PatchEvidence = trust.Yes, "its rows are in the log"
			continue
		}
		in.Strangers = append(in.Strangers, p.Name)
		in.Mismatches = append(in.Mismatches, trust.Mismatch{Name: "patches", Asked: namesOf(asked), Effective: "also " + patchContent(p)})
	}
	if found := deployedOtherwise(asked, w.Patches); found != "" {
		in.Mismatches = append(in.Mismatches, trust.Mismatch{Name: "patches", Asked: namesOf(asked), Effective: found})
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
	if r.Restarted { // its counters went back
		in.ServerAlive = trust.No
	}
	in.NeighboursRead, in.Beside = r.UsersRead, w.Beside
	for _, p := range r.Neighbours {
		in.Neighbours = append(in.Neighbours, p.String())
	}
	in.Requests = trustRequests(r)
	for _, q := range r.Requests {
		if q.Error == "" && q.OutputTokens > 0 {
			in.ClientTokens += int64(q.OutputTokens)
		}
	}
	in.ServerTokens = int64(math.Round(r.ServerCounters["generation_tokens"]))
	clientInput(&in, w, r, seen)
	if len(s.Rows) > 0 {
		in.Cycles = cycles(s, seen.rows)
	}
	return in
}

// fewChunks is below what a time per chunk is chance.
const fewChunks = 8

// trustRequests times each request over the chunks that all have, so that a
// longer one is not slower for its later positions alone. Of several at once
// only those are timed that were sent and answered while the load was whole: in
// ramp and drain batches are smaller, and so cycles shorter. Time in which
// another request's prefill may have stood in the way counts for nothing.
func trustRequests(r bench.Report) []trust.Request {
	timed := func(q bench.Request) bool {
		return q.Error == "" && (r.Job.Concurrency <= 1 || r.SteadyEndUs > 0 && q.StartUs >= r.SteadyStartUs && q.EndUs <= r.SteadyEndUs)
	}
	common := math.MaxInt
	for _, q := range r.Requests {
		if timed(q) {
			common = min(common, len(q.ChunkUs)-1)
		}
	}
	out := make([]trust.Request, len(r.Requests))
	for i, gaps := range r.Undisturbed() {
		q := r.Requests[i]
		t := trust.Request{MsPerChunk: math.NaN(), PromptTokens: q.PromptTokens, CachedTokens: q.CachedTokens, Failed: q.Error != ""}
		all := make([]int64, len(gaps))
		sum, n := int64(0), 0
		for k, g := range gaps {
			all[k] = g.ToUs - g.FromUs
			if g.Chunk < common {
				sum, n = sum+all[k], n+1
			}
		}
		if timed(q) && n >= fewChunks {
			t.MsPerChunk = float64(sum) / 1000 / float64(n)
		}
		if n := len(all); n >= fewChunks {
			slices.Sort(all)
			t.MsSilent, t.MsUsual = float64(all[n-1])/1000, float64(all[n/2])/1000
		}
		out[i] = t
	}
	return out
}

// cycles sums what the profiler counted; whole are its rows with ramp and drain.
func cycles(s metrics.Summary, whole []metrics.ProfilerRow) *trust.Cycles {
	c := &trust.Cycles{Counted: s.Cycles}
	if mixed, of := mixedSizes(s.Rows); of > 0 { // of several ranks: the share
		c.Mixed = int(math.Round(float64(mixed) / float64(of) * float64(c.Counted)))
	}
	c.WholeMixed, c.WholeCounted = mixedSizes(whole)
	sum, of := 0, 0
	for _, r := range s.Rows {
		if r.BatchSum >= 0 && r.Cycles > 0 {
			sum, of = sum+r.BatchSum, of+r.Cycles
		}
	}
	if of > 0 {
		c.MeanBatch = float64(sum) / float64(of)
	}
	return c
}

// mixedSizes counts the cycles that had not the batch size that most have, or
// stand in rows of several sizes, of all whose size is known. Each rank has a
// batch of its own.
func mixedSizes(rows []metrics.ProfilerRow) (mixed, known int) {
	type rank struct{ dp, rank int }
	at := map[rank]map[int]int{} // cycles by batch size
	for _, r := range rows {
		if r.BatchMax < 0 || r.Cycles <= 0 {
			continue
		}
		known += r.Cycles
		if r.BatchMin != r.BatchMax {
			continue
		}
		k := rank{r.DPRank, r.Rank}
		if at[k] == nil {
			at[k] = map[int]int{}
		}
		at[k][r.BatchMax] += r.Cycles
	}
	mixed = known
	for _, sizes := range at {
		most := 0
		for _, n := range sizes {
			most = max(most, n)
		}
		mixed -= most
	}
	return mixed, known
}

// leastCycles is how many decode cycles the benchmark took at least: what the
// server counted, else one for each chunk, shared by the requests of a batch.
func leastCycles(r bench.Report, concurrency int) int {
	n := 0
	for _, q := range r.Requests {
		n += max(q.VerifyCalls, len(q.ChunkUs)-1, 0)
	}
	return n / max(concurrency, 1)
}

// Numbers of a span that make it worth more than the whole window.
const (
	spanLines  = 3
	spanCycles = 100
)

// sameSpan is the speed by profiler and by server over one part of the log: that
// which the server's lines stand for, each for the time since the line before.
// Lines of a burst, whose time holds more than decode cycles, and those in which
// the batch changed are left out with the rows beside them. It is nil when there
// is too little, and with several data-parallel ranks.
func sameSpan(rows []metrics.ProfilerRow, decode []metrics.DecodeLine, w metrics.Window) *trust.Span {
	out := &trust.Span{}
	var tokens, seconds float64 // of the server, in units of one line's cycles
	type part struct{ from, to int64 }
	var parts []part
	var before *metrics.DecodeLine
	for i := range decode {
		d := &decode[i]
		if !inWindow(*d, w) {
			continue
		}
		if before != nil && (before.Rank != d.Rank || before.Server != d.Server) {
			return nil
		}
		even := before != nil && (before.RunningReq == d.RunningReq || math.IsNaN(d.RunningReq))
		if even && !d.Burst && d.GenThroughput > 0 && d.AcceptLen > 0 {
			running := 1.0
			if d.RunningReq > 0 {
				running = d.RunningReq
			}
			tokens += running * d.AcceptLen
			seconds += running * d.AcceptLen / d.GenThroughput
			parts = append(parts, part{before.End, d.Offset})
			out.Lines++
		}
		before = d
	}
	var yielded, requestCycles int
	var wall float64
	for _, r := range rows {
		n, ok := r.Yielded()
		in := slices.ContainsFunc(parts, func(p part) bool { return r.Offset >= p.from && r.End <= p.to })
		if ok && in && r.Rank == rows[0].Rank && r.DPRank == rows[0].DPRank {
			yielded, requestCycles, wall = yielded+n, requestCycles+r.RequestCycles, wall+r.WallMs
		}
	}
	if out.Lines < spanLines || requestCycles < spanCycles || !(wall > 0) {
		return nil
	}
	out.Server = tokens / seconds
	out.Profiler = float64(yielded) / wall * 1000
	out.AcceptLen = float64(yielded) / float64(requestCycles)
	out.RequestCycles = requestCycles
	return out
}

// againstBaseline is where greedy outputs part from a baseline's; nil without
// one.
func againstBaseline(ours, baseline []bench.Request) *trust.Difference {
	if len(baseline) == 0 {
		return nil
	}
	request, at, differ := bench.FirstDifference(ours, baseline)
	return &trust.Difference{Same: !differ, Request: request, At: at}
}

// deterministicFlag makes a server's kernels give the same for a request whatever
// else is in the batch.
const deterministicFlag = "enable-deterministic-inference"

// deterministic says whether the server runs with it; the server's own word goes
// before what was asked.
func deterministic(w Window) bool {
	if v, ok := w.Checked.Effective[strings.ReplaceAll(deterministicFlag, "-", "_")]; ok {
		return strings.EqualFold(v, "true")
	}
	return slices.ContainsFunc(w.Cell.Server.Flags, func(f ServerFlag) bool { return f.Name == deterministicFlag && f.Kind != flagOmitted })
}
