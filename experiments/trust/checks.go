package trust

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"specrun/experiments/record"
)

// Names of the checks.
const (
	CheckTPOT          = "tpot-against-cycle"
	CheckThroughput    = "profiler-against-server-throughput"
	CheckAcceptSources = "accept-len-sources"
	CheckAcceptRange   = "accept-len-range"
	CheckPhases        = "phases-against-total"
	CheckTokens        = "client-against-server-tokens"
	CheckRequests      = "requests-completed"
	CheckCycles        = "enough-cycles"
	CheckCache         = "cache-hits"
	CheckConfig        = "effective-configuration"
	CheckPatch         = "patch-live"
	CheckAlive         = "server-alive"
	CheckPrompts       = "same-prompts"
	CheckOutputs       = "same-output"
)

// Tolerances, as fractions of the right number.
const (
	tpotTolerance       = 0.03
	throughputTolerance = 0.05 // the server prints per interval, the profiler per cycle
	acceptTolerance     = 0.05 // the log's rows are not cut where the profiler's are
	phasesTolerance     = 0.02 // phases above TOTAL
	tokensTolerance     = 0.01
	// Two sources that are one apart disagree about the bonus token, as in the
	// story of 0.98 against 2.1: say so instead of leaving a riddle.
	bonusDistance = 0.15
)

// speculating is the reason why checks on cycles do not apply to a baseline.
const speculating = "no speculation"

func notCheckable(name, why string) record.TrustCheck {
	return record.TrustCheck{Name: name, Outcome: record.NotCheckable, Left: math.NaN(), Right: math.NaN(), Explanation: why}
}

func outcome(ok bool) record.Outcome {
	if ok {
		return record.Pass
	}
	return record.Fail
}

// closeEnough compares two numbers that should be equal. The format takes left
// and right; how far they are apart is added.
func closeEnough(name string, left, right, tolerance float64, format string) record.TrustCheck {
	if right == 0 {
		return notCheckable(name, "the number to compare with is 0")
	}
	apart := math.Abs(left-right) / math.Abs(right)
	return record.TrustCheck{Name: name, Outcome: outcome(apart <= tolerance), Left: left, Right: right,
		Explanation: fmt.Sprintf(format, left, right) + fmt.Sprintf(": %s apart, limit %s", percent(apart), percent(tolerance))}
}

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
	case in.Steps == 0:
		return notCheckable(CheckTPOT, speculating)
	case in.Concurrency != 1:
		return notCheckable(CheckTPOT, "only with one request at a time")
	case in.Cycles != nil && in.Cycles.MeanBatch > 1.05:
		return notCheckable(CheckTPOT, fmt.Sprintf("the measured batch was %.2f, not 1", in.Cycles.MeanBatch))
	case !okTotal || !okAccept || !okTPOT || accept <= 0:
		return notCheckable(CheckTPOT, missing(map[string]bool{"cycle_total": okTotal, "accept_len": okAccept, "tpot": okTPOT}))
	}
	return closeEnough(CheckTPOT, tpot, total/accept, tpotTolerance, "client's mean TPOT %.2f ms, TOTAL / accept length %.2f ms")
}

// checkThroughput holds for any batch.
func checkThroughput(in Input) record.TrustCheck {
	total, okTotal := value(in.Metrics, "cycle_total")
	accept, okAccept := value(in.Metrics, "accept_len", "profiler")
	server, okServer := value(in.Metrics, "gen_throughput", "server_log")
	switch {
	case in.Steps == 0:
		return notCheckable(CheckThroughput, speculating)
	case in.Cycles == nil || in.Cycles.MeanBatch <= 0:
		return notCheckable(CheckThroughput, "the measured batch is unknown")
	case !okTotal || !okAccept || !okServer || total <= 0:
		return notCheckable(CheckThroughput, missing(map[string]bool{"cycle_total": okTotal, "accept_len of the profiler": okAccept, "gen_throughput": okServer}))
	}
	return closeEnough(CheckThroughput, 1000*in.Cycles.MeanBatch*accept/total, server, throughputTolerance,
		"profiler %.1f tok/s, server log %.1f tok/s")
}

func checkAcceptSources(in Input) record.TrustCheck {
	if in.Steps == 0 {
		return notCheckable(CheckAcceptSources, speculating)
	}
	profiler, okProfiler := value(in.Metrics, "accept_len", "profiler")
	other, source, okOther := math.NaN(), "", false
	for _, s := range []struct{ source, words string }{{"server_log", "server log"}, {"per_request", "requests"}} {
		if v, ok := value(in.Metrics, "accept_len", s.source); ok {
			other, source, okOther = v, s.words, true
			break
		}
	}
	if !okProfiler || !okOther {
		return notCheckable(CheckAcceptSources, missing(map[string]bool{"accept_len of the profiler": okProfiler, "accept_len of another source": okOther}))
	}
	c := closeEnough(CheckAcceptSources, profiler, other, acceptTolerance, "profiler %.2f, "+source+" %.2f")
	if c.Outcome == record.Fail && math.Abs(math.Abs(profiler-other)-1) < bonusDistance {
		c.Explanation += "; one apart: one of them does not count the bonus token"
	}
	return c
}

func checkAcceptRange(in Input) record.TrustCheck {
	if in.Steps == 0 {
		return notCheckable(CheckAcceptRange, speculating)
	}
	v, ok := value(in.Metrics, "accept_len", "profiler", "per_request", "server_log")
	if !ok {
		return notCheckable(CheckAcceptRange, "no accept_len")
	}
	most := float64(in.Steps + 1)
	const rounding = 0.005 // logs print two decimals
	c := record.TrustCheck{Name: CheckAcceptRange, Outcome: outcome(v >= 1-rounding && v <= most+rounding), Left: v, Right: most,
		Explanation: fmt.Sprintf("accept length %.2f, possible is 1 to %.0f", v, most)}
	if v < 1-rounding {
		c.Explanation += "; the bonus token is not counted"
	}
	return c
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
	if in.ClientTokens <= 0 || in.ServerTokens <= 0 {
		return notCheckable(CheckTokens, missing(map[string]bool{"tokens of the client": in.ClientTokens > 0, "tokens of the server": in.ServerTokens > 0}))
	}
	return closeEnough(CheckTokens, float64(in.ClientTokens), float64(in.ServerTokens), tokensTolerance, "client %.0f tokens, server %.0f tokens")
}

func checkRequests(in Input) record.TrustCheck {
	failed, sent := requestFailures(in)
	switch {
	case failed < 0, failed == 0 && sent < 0:
		return notCheckable(CheckRequests, "the number of requests is unknown")
	case sent < 0:
		return decided(CheckRequests, false, fmt.Sprintf("%.0f requests failed", failed))
	}
	return record.TrustCheck{Name: CheckRequests, Outcome: outcome(failed == 0), Left: sent - failed, Right: sent,
		Explanation: fmt.Sprintf("%.0f of %.0f requests completed", sent-failed, sent)}
}

func checkCycles(in Input) record.TrustCheck {
	if in.Cycles == nil {
		return notCheckable(CheckCycles, "no profiler")
	}
	return record.TrustCheck{Name: CheckCycles, Outcome: outcome(in.Cycles.Counted >= minCycles), Left: float64(in.Cycles.Counted), Right: minCycles,
		Explanation: fmt.Sprintf("%d decode cycles counted, %d wanted", in.Cycles.Counted, minCycles)}
}

func checkCache(in Input) record.TrustCheck {
	cached, prompt := cachedTokens(in.Requests)
	if prompt == 0 {
		return notCheckable(CheckCache, "the server does not tell cached tokens")
	}
	return record.TrustCheck{Name: CheckCache, Outcome: outcome(float64(cached) <= cachedFraction*float64(prompt)), Left: float64(cached), Right: float64(prompt),
		Explanation: fmt.Sprintf("%d of %d prompt tokens came from the cache", cached, prompt)}
}

func checkConfig(in Input) record.TrustCheck {
	if !in.ConfigRead {
		return notCheckable(CheckConfig, "the server does not tell its configuration")
	}
	if len(in.Mismatches) > 0 {
		return decided(CheckConfig, false, mismatches(in.Mismatches))
	}
	return decided(CheckConfig, true, "the server runs with the flags asked for")
}

func checkPatch(in Input) record.TrustCheck {
	set := strings.Join(in.Patches, ", ")
	switch {
	case len(in.Patches) == 0:
		return notCheckable(CheckPatch, "no patches")
	case in.PatchLive == Unknown:
		return notCheckable(CheckPatch, "nothing tells whether the server loaded "+set)
	case in.PatchLive == No:
		return decided(CheckPatch, false, "the server runs without "+set)
	}
	return decided(CheckPatch, true, "the server loaded "+set)
}

func checkAlive(in Input) record.TrustCheck {
	switch in.ServerAlive {
	case Unknown:
		return notCheckable(CheckAlive, "the server's process is unknown")
	case No:
		return decided(CheckAlive, false, "the server ended during the benchmark")
	}
	return decided(CheckAlive, true, "the same process served to the end")
}

func checkPrompts(in Input) record.TrustCheck {
	if in.PromptsSHA == "" || in.SweepPromptsSHA == "" {
		return notCheckable(CheckPrompts, "nothing to compare with")
	}
	return decided(CheckPrompts, in.PromptsSHA == in.SweepPromptsSHA, hashes("prompts", in.PromptsSHA, in.SweepPromptsSHA))
}

func checkOutputs(in Input) record.TrustCheck {
	switch {
	case in.SimulatedBecause != "":
		return notCheckable(CheckOutputs, "acceptance is simulated")
	case in.OutputsSHA == "" || in.ShapeOutputsSHA == "":
		return notCheckable(CheckOutputs, "nothing to compare with")
	}
	return decided(CheckOutputs, in.OutputsSHA == in.ShapeOutputsSHA, hashes("greedy outputs", in.OutputsSHA, in.ShapeOutputsSHA))
}

// decided is a check of facts, not of numbers.
func decided(name string, ok bool, explanation string) record.TrustCheck {
	return record.TrustCheck{Name: name, Outcome: outcome(ok), Left: math.NaN(), Right: math.NaN(), Explanation: explanation}
}

func hashes(what, a, b string) string {
	if a == b {
		return fmt.Sprintf("the same %s as the first such run (%.12s)", what, a)
	}
	return fmt.Sprintf("other %s than the first such run (%.12s, not %.12s)", what, a, b)
}

// missing names what was not there, in a fixed order.
func missing(have map[string]bool) string {
	var out []string
	for what, ok := range have {
		if !ok {
			out = append(out, what)
		}
	}
	slices.Sort(out)
	return "no " + strings.Join(out, ", no ")
}
