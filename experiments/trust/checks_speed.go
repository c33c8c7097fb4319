package trust

import (
	"fmt"
	"math"

	"specrun/experiments/record"
)

// acceptSources are who states an accept length, the most exact first: the
// response's counters are of exactly these requests, the log's lines of
// intervals of cycles.
var acceptSources = []struct{ name, words string }{{"per_request", "requests"}, {"server_counters", "server's counters"}, {"server_log", "server log"}, {"profiler", "profiler"}}

// checkTPOT: with one request at a time, the time of a token is the time of a
// cycle divided by the tokens it yields.
func checkTPOT(in Input) record.TrustCheck {
	total, okTotal := value(in.Metrics, "cycle_total")
	accept, okAccept := value(in.Metrics, "accept_len", "profiler", "per_request", "server_log")
	tpot, okTPOT := value(in.Metrics, "tpot") // a ratio of sums, in which each token weighs the same, as in TOTAL
	if !okTPOT {
		tpot, okTPOT = value(in.Metrics, "tpot_mean")
	}
	switch {
	case !in.speculates():
		return notCheckable(CheckTPOT, speculating)
	case in.Concurrency == 0:
		return notCheckable(CheckTPOT, "only with one request at a time, and how many there were is unknown")
	case in.Concurrency != 1:
		return notCheckable(CheckTPOT, "only with one request at a time")
	case in.Cycles != nil && in.Cycles.MeanBatch > 1.05:
		return notCheckable(CheckTPOT, fmt.Sprintf("the measured batch was %.2f, not 1", in.Cycles.MeanBatch))
	case !okTotal || !okAccept || !okTPOT || accept <= 0:
		return notCheckable(CheckTPOT, missing(map[string]bool{"cycle_total": okTotal, "accept_len": okAccept, "tpot": okTPOT}))
	}
	return closeEnough(CheckTPOT, tpot, total/accept, tpotTolerance, "client's mean TPOT %.2f ms, TOTAL / accept length %.2f ms")
}

// profilerRate is tokens over wall time of the profiler's rows, for any batch.
func profilerRate(in Input) (rate float64, why string) {
	total, okTotal := value(in.Metrics, "cycle_total")
	accept, okAccept := value(in.Metrics, "accept_len", "profiler")
	switch {
	case !in.speculates():
		return 0, speculating
	case in.Cycles == nil:
		return 0, "no profiler"
	case in.Cycles.MeanBatch <= 0:
		return 0, "the measured batch is unknown"
	case !okTotal || !okAccept || total <= 0:
		return 0, missing(map[string]bool{"cycle_total": okTotal, "accept_len of the profiler": okAccept})
	}
	return 1000 * in.Cycles.MeanBatch * accept / total, ""
}

// checkThroughput compares profiler and server over the same part of the log
// where it can be told apart.
func checkThroughput(in Input) record.TrustCheck {
	const format = "profiler %.1f tok/s, server log %.1f tok/s"
	rate, why := profilerRate(in)
	if why != "" {
		return notCheckable(CheckThroughput, why)
	}
	if s := in.Span; s != nil {
		return closeEnough(CheckThroughput, s.Profiler, s.Server, max(throughputTolerance, sampling(in, s.AcceptLen, min(ofLines(in, s.Lines), float64(s.RequestCycles)), 0)), format)
	}
	if in.Concurrency > 1 {
		// Lines of ramp and drain are told apart by nothing.
		return notCheckable(CheckThroughput, "too little of the log has one batch size in rows and lines alike")
	}
	server, lines, ok := counted(in.Metrics, "gen_throughput", "server_log")
	if !ok {
		return notCheckable(CheckThroughput, "no gen_throughput")
	}
	accept, _ := value(in.Metrics, "accept_len", "profiler")
	return closeEnough(CheckThroughput, rate, server, max(throughputTolerance, sampling(in, accept, ofLines(in, lines), 0)), format)
}

// sampling is by how much, relatively, an accept length over n request-cycles
// may be off that of all cycles, of which there were total (0 = unknown, many),
// without either being wrong: twice the standard error. A variance is at most
// (most - mean)(mean - least).
func sampling(in Input, accept, n, total float64) float64 {
	variance := (float64(in.Steps+1) - accept) * (accept - 1)
	share := 1 / n
	if total > 0 {
		share -= 1 / total
	}
	if !(variance > 0) || !(n > 0) || !(share > 0) {
		return 0
	}
	return 2 * math.Sqrt(variance*share) / accept
}

// ofLines is how many request-cycles a number of log lines stand for.
func ofLines(in Input, lines int) float64 {
	interval := in.LogInterval
	if interval <= 0 {
		interval = usualInterval
	}
	batch := 1.0
	if in.Cycles != nil && in.Cycles.MeanBatch > 1 {
		batch = in.Cycles.MeanBatch
	}
	return float64(lines*interval) * batch
}

// usualInterval is the engine's default number of decode cycles per log line.
const usualInterval = 40

// fewLines is below what a median of the log's rates is chance.
const fewLines = 5

// checkSteady compares what the client received, without waiting for first
// tokens, ramp and drain, with the profiler; without one, and one request at a
// time, with the server log. With several at once a prefill stops the others: the
// profiler counts no cycle over it, so the client's time without prefills is
// what it is held against.
func checkSteady(in Input) record.TrustCheck {
	rate, why := profilerRate(in)
	if in.Concurrency > 1 {
		tpot, ok := value(in.Metrics, "tpot_undisturbed", "client")
		accept, _ := value(in.Metrics, "accept_len", "profiler")
		switch {
		case why != "":
			return notCheckable(CheckSteady, why)
		case in.Ramp:
			return notCheckable(CheckSteady, "the profiler's rows are of ramp and drain, too")
		case !ok || tpot <= 0:
			return notCheckable(CheckSteady, "too little of the steady part is without a prefill")
		}
		return closeEnough(CheckSteady, 1000*in.Cycles.MeanBatch/tpot, rate, max(steadyTolerance, sampling(in, accept, profiled(in), 0)),
			"client %.1f tok/s without ramp, drain and prefills, profiler %.1f tok/s")
	}
	steady, ok := value(in.Metrics, "steady_throughput", "client")
	if !ok {
		return notCheckable(CheckSteady, "no steady_throughput")
	}
	if why == "" {
		return closeEnough(CheckSteady, steady, rate, steadyTolerance, "client %.1f tok/s without TTFT, ramp and drain, profiler %.1f tok/s")
	}
	if in.Concurrency != 1 {
		return notCheckable(CheckSteady, why)
	}
	server, lines, ok := counted(in.Metrics, "gen_throughput", "server_log")
	if !ok {
		return notCheckable(CheckSteady, why+", no gen_throughput")
	}
	if lines < fewLines {
		return notCheckable(CheckSteady, fmt.Sprintf("%s, and only %d lines of the server log have a rate", why, lines))
	}
	accept, _ := value(in.Metrics, "accept_len", "server_log")
	return closeEnough(CheckSteady, steady, server, max(steadyTolerance, sampling(in, accept, ofLines(in, lines), 0)),
		"client %.1f tok/s without TTFT, server log %.1f tok/s")
}

// checkClaim holds what the profiler says in its own words against the
// benchmark, and splits a gap.
func checkClaim(in Input) record.TrustCheck {
	c, _ := claimed(in)
	return c
}

func claimed(in Input) (record.TrustCheck, Gap) {
	no := func(why string) (record.TrustCheck, Gap) { return notCheckable(CheckClaim, why), Gap{} }
	if !in.speculates() {
		return no(speculating)
	}
	claim, ok := ClaimOf(in.Metrics)
	if !ok {
		return no("the profiler states no speed")
	}
	accept, source := acceptOf(in.Metrics)
	chance := claimTolerance
	if _, n, ok := counted(in.Metrics, "accept_len", "per_request"); ok {
		chance = max(chance, sampling(in, accept, profiled(in), float64(n)))
	} else if _, lines, ok := counted(in.Metrics, "accept_len", "server_log"); ok {
		chance = max(chance, sampling(in, accept, ofLines(in, lines), 0))
	}
	truth, ok := TruthOf(in.Metrics)
	if in.Concurrency > 1 && (!ok || in.Ramp) {
		// The speeds are of other batches, or of other times. How tokens are counted
		// shows all the same.
		whole, ok := claim.whole()
		if !ok || !positive(accept) {
			return no("the benchmark's speed or accept length is unknown")
		}
		return closeEnough(CheckClaim, whole.AcceptLen, accept, chance, "accept length of the profiler %.2f, "+source+" %.2f (no speed of the same part to compare)"), Gap{}
	}
	if !ok {
		return no("the benchmark's speed or accept length is unknown")
	}
	gap, ok := SplitGap(claim, truth)
	if !ok {
		return no("the profiler's numbers do not make a speed")
	}
	c := record.TrustCheck{Name: CheckClaim, Left: gap.Claimed, Right: gap.Measured}
	// That profiler and benchmark are of other cycles moves both the accept length
	// and the speed: what is left of the speed has nothing of it.
	c.Outcome = outcome(distance(gap.Acceptance, gap.Ratio) <= claimTolerance && distance(1, gap.Acceptance) <= chance)
	if c.Outcome == record.Fail {
		c.Explanation = "from the profiler's claim to the benchmark (" + truth.From + "): " + gap.Explanation
		return c, gap
	}
	c.Explanation = fmt.Sprintf("profiler %.1f tok/s at accept length %.2f, benchmark %.1f at %.2f", gap.Claimed, truth.AcceptLen/gap.Acceptance, gap.Measured, truth.AcceptLen)
	return c, gap
}

// profiled is how many request-cycles the profiler counted.
func profiled(in Input) float64 {
	if in.Cycles == nil {
		return 0
	}
	return float64(in.Cycles.Counted) * max(in.Cycles.MeanBatch, 1)
}

// checkAcceptSources compares all pairs and shows the one that is farthest
// apart.
func checkAcceptSources(in Input) record.TrustCheck {
	if !in.speculates() {
		return notCheckable(CheckAcceptSources, speculating)
	}
	type stated struct {
		words string
		value float64
		n     float64 // request-cycles that it covers
	}
	var all []stated
	whole := 0.0                                   // request-cycles there were
	for i := len(acceptSources) - 1; i >= 0; i-- { // the most exact one is on the right
		s := acceptSources[i]
		if v, n, ok := counted(in.Metrics, "accept_len", s.name); ok {
			cycles := float64(n)
			switch s.name {
			case "profiler":
				cycles = profiled(in)
			case "server_log":
				cycles = ofLines(in, n)
			case "per_request", "server_counters":
				whole = max(whole, cycles)
			}
			all = append(all, stated{s.words, v, cycles})
		}
	}
	if len(all) < 2 {
		why := "no accept_len"
		if len(all) == 1 {
			why = "only the " + all[0].words + " states an accept length"
		}
		return notCheckable(CheckAcceptSources, why)
	}
	var worst record.TrustCheck
	excess := math.Inf(-1)
	for i, a := range all {
		for _, b := range all[i+1:] {
			tolerance := max(acceptTolerance, sampling(in, b.value, min(a.n, b.n), whole))
			if over := distance(a.value, b.value) / tolerance; over > excess {
				excess = over
				worst = closeEnough(CheckAcceptSources, a.value, b.value, tolerance, a.words+" %.2f, "+b.words+" %.2f")
			}
		}
	}
	if worst.Outcome == record.Fail && (lacksBonus(worst.Left, worst.Right) || lacksBonus(worst.Right, worst.Left)) {
		worst.Explanation += "; one apart: one of them does not count the bonus token"
	}
	return worst
}

// checkAcceptRange looks at each source; the first one that is out of range is
// shown.
func checkAcceptRange(in Input) record.TrustCheck {
	if !in.speculates() {
		return notCheckable(CheckAcceptRange, speculating)
	}
	most := math.Inf(1) // of a log that does not say its steps
	if in.Steps > 0 {
		most = float64(in.Steps + 1)
	}
	const rounding = 0.005 // logs print two decimals
	out := notCheckable(CheckAcceptRange, "no accept_len")
	for _, s := range acceptSources {
		v, ok := value(in.Metrics, "accept_len", s.name)
		if !ok {
			continue
		}
		c := record.TrustCheck{Name: CheckAcceptRange, Outcome: outcome(v >= 1-rounding && v <= most+rounding), Left: v, Right: most,
			Explanation: fmt.Sprintf("accept length %.2f of the %s, possible is 1 to %.0f", v, s.words, most)}
		if in.Steps == 0 {
			c.Right, c.Explanation = 1, fmt.Sprintf("accept length %.2f of the %s, possible is 1 and more", v, s.words)
		}
		if v < 1-rounding {
			c.Explanation += "; the bonus token is not counted"
		}
		if c.Outcome == record.Fail {
			return c
		}
		if out.Outcome == record.NotCheckable {
			out = c
		}
	}
	return out
}

func checkPhases(in Input) record.TrustCheck {
	total, ok := value(in.Metrics, "cycle_total")
	ps := phases(in.Metrics)
	if !ok || len(ps) == 0 {
		return notCheckable(CheckPhases, missing(map[string]bool{"cycle_total": ok, "phases": len(ps) > 0}))
	}
	var sum float64
	for _, v := range ps {
		sum += v
	}
	return record.TrustCheck{Name: CheckPhases, Outcome: outcome(sum <= total*(1+phasesTolerance)), Left: sum, Right: total,
		Explanation: fmt.Sprintf("phases %.2f ms of TOTAL %.2f ms: %.0f %%", sum, total, 100*sum/total)}
}

func checkTokens(in Input) record.TrustCheck {
	switch failed, _ := requestFailures(in); {
	case in.ClientTokens <= 0 || in.ServerTokens <= 0:
		return notCheckable(CheckTokens, missing(map[string]bool{"tokens of the client": in.ClientTokens > 0, "tokens of the server": in.ServerTokens > 0}))
	case failed > 0:
		return notCheckable(CheckTokens, "the server counts the tokens of failed requests, the client does not")
	}
	return closeEnough(CheckTokens, float64(in.ClientTokens), float64(in.ServerTokens), tokensTolerance, "client %.0f tokens, server %.0f tokens")
}
