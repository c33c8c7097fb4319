package metrics

import (
	"cmp"
	"math"
	"slices"

	"specrun/experiments/record"
)

// Window is the part of a server log that belongs to one benchmark: byte
// cursors taken right before its first request and after its last response, and
// the host's clock at those moments. A zero LogEnd or TStart/TEnd does not limit
// (a controller's clock says nothing about the host's).
type Window struct {
	LogStart, LogEnd int64
	TStart, TEnd     float64 // unix seconds, host clock
	// SteadyStart and SteadyEnd are the window without ramp and drain, on the same
	// clock; both zero do not limit.
	SteadyStart, SteadyEnd float64
}

// clockSlack is how far behind TEnd a row may end, in seconds: the last response
// reaches the client a little before or after the cycle that made it has ended.
const clockSlack = 2

// Inside says whether a summary lies wholly inside the window: no cycle that it
// counts began before, and its lines were written within the cursors.
func (w Window) Inside(row ProfilerRow) bool {
	if !w.holds(row.Offset, row.End) {
		return false
	}
	if row.Text {
		return true
	}
	return (w.TStart == 0 || row.TStart >= w.TStart) && (w.TEnd == 0 || row.TEnd <= w.TEnd+clockSlack)
}

// steady says whether a summary lies wholly between ramp and drain. A text block
// has no times: it is taken for steady.
func (w Window) steady(row ProfilerRow) bool {
	return w.SteadyEnd == 0 || row.Text || row.TStart >= w.SteadyStart && row.TEnd <= w.SteadyEnd
}

func (w Window) holds(start, end int64) bool {
	return start >= w.LogStart && (w.LogEnd == 0 || end <= w.LogEnd)
}

// Summary is what a benchmark's part of the server log says.
type Summary struct {
	Metrics []record.Metric
	Samples []record.Sample
	Rows    []ProfilerRow // the profiler's rows wholly inside
	Cycles  int           // counted cycles of those rows
	// Unsteady says that no row lay wholly between ramp and drain, so that Rows are
	// all those of the benchmark.
	Unsteady bool
}

// Summarise turns the profiler rows and decode lines of a launch into the
// metrics of one benchmark. Both may hold more than the window; only what lies
// wholly inside counts.
//
// Profiler metrics (source "profiler") are ratios of sums, never means of means:
// cycle_total is the wall time of all counted cycles over their number. When
// several ranks print, the group's cycle is that of its slowest rank.
//
// Server log metrics (source "server_log"): a decode line stands for the time
// since the one before it, so the first one of each rank in a window that opens
// within the log is left out, and lines after a prefill or idling are no rates.
// gen_throughput is the median of the rest, each with the rates that other
// data-parallel ranks had at that time; accept_len is weighted by
// the running requests, since lines are equally many cycles apart. What cannot
// be had is absent.
func Summarise(rows []ProfilerRow, decode []DecodeLine, w Window) Summary {
	var s Summary
	for _, r := range rows {
		if w.Inside(r) {
			s.Rows = append(s.Rows, r)
		}
	}
	if w.LogStart > 0 {
		s.Rows = dropUnprovenFirst(s.Rows)
	}
	var steady []ProfilerRow
	for _, r := range s.Rows {
		if w.steady(r) {
			steady = append(steady, r)
		}
	}
	if s.Unsteady = len(steady) == 0 && len(s.Rows) > 0; !s.Unsteady {
		s.Rows = steady
	}
	s.profiler()
	s.serverLog(decode, w)
	for i := range s.Samples {
		s.Samples[i].Seq = i + 1
	}
	return s
}

// dropUnprovenFirst leaves out the first text block of each rank when others
// follow: without times nothing says that its cycles began inside a window that
// opens within the log.
func dropUnprovenFirst(rows []ProfilerRow) []ProfilerRow {
	count := map[string]int{}
	for _, r := range rows {
		if r.Text {
			count[r.Stream["rank"]]++
		}
	}
	seen := map[string]bool{}
	var out []ProfilerRow
	for _, r := range rows {
		rank := r.Stream["rank"]
		if r.Text && !seen[rank] && count[rank] > 1 {
			seen[rank] = true
			continue
		}
		out = append(out, r)
	}
	return out
}

// sums over the rows of one rank.
type sums struct {
	rank                  string
	rows, cycles          int
	wall, call            float64
	callCycles            int
	phases                map[string]float64
	tokens, requestCycles int
	accept                float64 // of text blocks: accept length x cycles
	acceptCycles          int
	batch, batchCycles    int
	context               float64
	contextCycles         int
	claims                claims
}

func (s *Summary) profiler() {
	byRank := map[string]*sums{}
	var order []*sums
	for i, r := range s.Rows {
		key := r.Stream["rank"]
		if !r.Text && key == "" {
			key = itoa(r.Rank)
		}
		g := byRank[key]
		if g == nil {
			g = &sums{rank: key, phases: map[string]float64{}}
			byRank[key] = g
			order = append(order, g)
		}
		g.add(r)
		s.sample(r, i+1)
	}
	var slowest *sums
	for _, g := range order {
		if g.cycles > 0 && (slowest == nil || g.wall/float64(g.cycles) > slowest.wall/float64(slowest.cycles)) {
			slowest = g
		}
	}
	if slowest != nil {
		s.Cycles = slowest.cycles
		s.Metrics = append(s.Metrics, slowest.metrics()...)
	}
}

func (g *sums) add(r ProfilerRow) {
	n := max(r.Cycles, 0)
	if r.Text {
		n = max(n, 1)
	}
	if n == 0 || math.IsNaN(r.WallMs) {
		return
	}
	g.rows++
	g.cycles += n
	g.wall += r.WallMs
	if !math.IsNaN(r.CallMs) {
		g.call += r.CallMs
		g.callCycles += n
	}
	for k, v := range r.Phases {
		g.phases[phaseMetric(k)] += v
	}
	g.claims.add(r, n)
	if tokens, ok := r.Yielded(); ok {
		g.tokens += tokens
		g.requestCycles += r.RequestCycles
	} else if !math.IsNaN(r.AcceptLen) {
		g.accept += r.AcceptLen * float64(n)
		g.acceptCycles += n
	}
	if r.BatchSum >= 0 {
		g.batch += r.BatchSum
		g.batchCycles += n
	}
	if !math.IsNaN(r.Context) {
		g.context += r.Context * float64(n)
		g.contextCycles += n
	}
}

func (g *sums) metrics() []record.Metric {
	n := float64(g.cycles)
	var out []record.Metric
	put := func(name, unit string, v float64) {
		out = append(out, record.Metric{Name: name, Unit: unit, Value: v, N: g.cycles, Source: sourceProfiler})
	}
	put(total, "ms/cyc", g.wall/n)
	rest := g.wall
	names := make([]string, 0, len(g.phases))
	for k := range g.phases {
		names = append(names, k)
	}
	slices.Sort(names)
	for _, k := range names {
		put(k, "ms/cyc", g.phases[k]/n)
		rest -= g.phases[k]
	}
	if len(names) > 0 {
		put("cycle_other", "ms/cyc", rest/n)
	}
	if g.callCycles > 0 {
		put("cycle_call", "ms/cyc", g.call/float64(g.callCycles))
	}
	switch {
	case g.requestCycles > 0:
		put("accept_len", "tokens/step", float64(g.tokens)/float64(g.requestCycles))
	case g.acceptCycles > 0:
		put("accept_len", "tokens/step", g.accept/float64(g.acceptCycles))
	}
	if g.requestCycles > 0 && g.wall > 0 {
		put("profiler_throughput", "tok/s", float64(g.tokens)/g.wall*1000)
	}
	if g.batchCycles > 0 {
		put("batch_mean", "requests", float64(g.batch)/float64(g.batchCycles))
	}
	if g.contextCycles > 0 {
		put("context_mean", "tokens", g.context/float64(g.contextCycles))
	}
	return append(out, g.claims.metrics()...)
}

// sample keeps a row's numbers as raw readings. They share the row's number, by
// which they can be put together again.
func (s *Summary) sample(r ProfilerRow, row int) {
	at := int64(math.Round(r.TEnd * 1e6))
	labels := map[string]string{"rank": itoa(r.Rank), "row": itoa(row)}
	if rank := r.Stream["rank"]; rank != "" {
		labels["rank"] = rank
	}
	put := func(name, unit string, v float64) {
		s.Samples = append(s.Samples, record.Sample{AtUs: at, Name: name, Unit: unit, Value: v, Source: sourceProfiler, Labels: labels})
	}
	for _, m := range r.perCycle() {
		put(m.name, "ms/cyc", m.value)
	}
	if tokens, ok := r.Yielded(); ok {
		put("accept_len", "tokens/step", float64(tokens)/float64(r.RequestCycles))
		put("tokens", "tokens", float64(tokens))
		put("request_cycles", "cycles", float64(r.RequestCycles))
	} else if !math.IsNaN(r.AcceptLen) {
		put("accept_len", "tokens/step", r.AcceptLen)
	}
	if r.Cycles > 0 {
		put("cycles", "cycles", float64(r.Cycles))
	}
	if !math.IsNaN(r.Context) {
		put("context", "tokens", r.Context)
	}
	if r.BatchMin >= 0 {
		put("batch_min", "requests", float64(r.BatchMin))
		put("batch_max", "requests", float64(r.BatchMax))
	}
}

// decodeRate is a rank's tokens per second over a part of the log.
type decodeRate struct {
	from, to int64
	rate     float64
}

// during is the rate of the last part that has some of d's time in it, or ends
// line by line with it, as ranks that print together do; 0 for a
// rank that was idle then. all is in the order of the log.
func during(all []decodeRate, d decodeRate) float64 {
	i, _ := slices.BinarySearchFunc(all, d.to+1, func(o decodeRate, to int64) int { return cmp.Compare(o.from, to) })
	if i > 0 && all[i-1].to >= d.from {
		return all[i-1].rate
	}
	return 0
}

// together gives each rate of each rank with those that the other ranks had at
// that time: when requests come one at a time, all but one are idle.
func together(ranks [][]decodeRate) []float64 {
	var out []float64
	for i, ours := range ranks {
		for _, d := range ours {
			sum := d.rate
			for k, others := range ranks {
				if k != i {
					sum += during(others, d)
				}
			}
			out = append(out, sum)
		}
	}
	return out
}

// serverLog adds what the decode lines say.
func (s *Summary) serverLog(decode []DecodeLine, w Window) {
	type name struct {
		server Server
		rank   string
	}
	type rank struct {
		rates        []decodeRate
		accept, load float64
		lines        int
		first        bool
	}
	ranks := map[name]*rank{}
	var order []*rank
	for _, d := range decode {
		if !w.holds(d.Offset, d.End) {
			continue
		}
		key := name{d.Server, d.Rank}
		g := ranks[key]
		if g == nil {
			g = &rank{first: w.LogStart > 0}
			ranks[key] = g
			order = append(order, g)
		}
		s.decodeSample(d)
		if g.first {
			g.first = false
			continue
		}
		if !d.Burst && !math.IsNaN(d.GenThroughput) {
			g.rates = append(g.rates, decodeRate{d.Since, d.Offset, d.GenThroughput})
		}
		if !math.IsNaN(d.AcceptLen) {
			weight := d.RunningReq
			if !(weight > 0) { // the line of a request's end says 0
				weight = 1
			}
			g.accept += d.AcceptLen * weight
			g.load += weight
			g.lines++
		}
	}
	rates := make([][]decodeRate, len(order))
	accept, load, lines := 0.0, 0.0, 0
	for i, g := range order {
		rates[i] = g.rates
		accept, load, lines = accept+g.accept, load+g.load, lines+g.lines
	}
	if all := together(rates); len(all) > 0 {
		s.Metrics = append(s.Metrics, record.Metric{Name: "gen_throughput", Unit: "tok/s", Value: median(all), N: len(all), Source: sourceServer})
	}
	if lines > 0 {
		s.Metrics = append(s.Metrics, record.Metric{Name: "accept_len", Unit: "tokens/step", Value: accept / load, N: lines, Source: sourceServer})
	}
}

func (s *Summary) decodeSample(d DecodeLine) {
	labels := map[string]string{}
	if d.Rank != "" {
		labels["rank"] = d.Rank
	}
	if d.Burst {
		labels["burst"] = "true"
	}
	for _, m := range []struct {
		name, unit string
		v          float64
	}{{"gen_throughput", "tok/s", d.GenThroughput}, {"accept_len", "tokens/step", d.AcceptLen}, {"running_req", "requests", d.RunningReq}} {
		if !math.IsNaN(m.v) {
			s.Samples = append(s.Samples, record.Sample{AtUs: int64(math.Round(d.At * 1e6)), Name: m.name, Unit: m.unit, Value: m.v, Source: sourceServer, Labels: labels})
		}
	}
}

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	n := len(v)
	if n%2 == 1 {
		return v[n/2]
	}
	return (v[n/2-1] + v[n/2]) / 2
}
