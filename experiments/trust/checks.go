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
	CheckSteady        = "steady-throughput"
	CheckClaim         = "profiler-against-benchmark"
	CheckAcceptSources = "accept-len-sources"
	CheckAcceptRange   = "accept-len-range"
	CheckSums          = "log-against-counters"
	CheckPhases        = "phases-against-total"
	CheckTokens        = "client-against-server-tokens"
	CheckPossible      = "numbers-possible"
	CheckKeptUp        = "client-kept-up"
	CheckNobody        = "nobody-else"
	CheckRequests      = "requests-completed"
	CheckCycles        = "enough-cycles"
	CheckCache         = "cache-hits"
	CheckConfig        = "effective-configuration"
	CheckSpeculation   = "speculation-as-asked"
	CheckPatch         = "patch-live"
	CheckOneProfiler   = "one-profiler"
	CheckAlive         = "server-alive"
	CheckClocks        = "clocks"
	CheckAlone         = "alone-on-gpus"
	CheckCompile       = "nothing-compiled"
	CheckPrompts       = "same-prompts"
	CheckOutputs       = "same-output"
	CheckBaseline      = "output-against-baseline"
)

// crossChecks compare two measurements of one thing: when one fails, one of the
// two is wrong, and a number of the run with it.
var crossChecks = []string{CheckTPOT, CheckThroughput, CheckSteady, CheckClaim, CheckAcceptSources, CheckAcceptRange, CheckPhases, CheckTokens, CheckKeptUp}

// Tolerances, as fractions of the right number.
const (
	tpotTolerance       = 0.03
	throughputTolerance = 0.05 // the server prints per interval, the profiler per cycle
	steadyTolerance     = 0.05 // the client sees chunks, whose way to it varies
	claimTolerance      = 0.05
	acceptTolerance     = 0.05 // the log's rows are not cut where the profiler's are
	phasesTolerance     = 0.02 // phases above TOTAL
	tokensTolerance     = 0.01
	ownTolerance        = 0.05 // of a benchmark against itself; some round the duration
)

// speculating is the reason why checks on cycles do not apply to a baseline.
const speculating = "no speculation"

// all makes every check, in the order in which they are listed.
func all(in Input) []record.TrustCheck {
	return qualify([]record.TrustCheck{
		checkTPOT(in), checkThroughput(in), checkSteady(in), checkClaim(in), checkAcceptSources(in), checkAcceptRange(in), checkSums(in), checkPhases(in),
		checkTokens(in), checkPossible(in), checkKeptUp(in), checkNobody(in), checkRequests(in), checkCycles(in), checkCache(in), checkConfig(in), checkSpeculation(in), checkPatch(in), checkOneProfiler(in),
		checkAlive(in), checkClocks(in), checkAlone(in), checkCompile(in), checkPrompts(in), checkOutputs(in), checkBaseline(in),
	})
}

func notCheckable(name, why string) record.TrustCheck {
	return record.TrustCheck{Name: name, Outcome: record.NotCheckable, Left: math.NaN(), Right: math.NaN(), Explanation: why}
}

// decided is a check of facts, not of numbers.
func decided(name string, ok bool, explanation string) record.TrustCheck {
	return record.TrustCheck{Name: name, Outcome: outcome(ok), Left: math.NaN(), Right: math.NaN(), Explanation: explanation}
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
	apart := distance(left, right)
	text, limit := percent(apart), percent(tolerance)
	if apart > tolerance && text == limit {
		text = "over " + text // of equal digits one would not know why it failed
	}
	return record.TrustCheck{Name: name, Outcome: outcome(apart <= tolerance), Left: left, Right: right,
		Explanation: fmt.Sprintf(format, left, right) + fmt.Sprintf(": %s apart, limit %s", text, limit)}
}

// distance of two numbers as a fraction of the right one.
func distance(left, right float64) float64 { return math.Abs(left-right) / math.Abs(right) }

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

func hashes(what, a, b string) string {
	if a == b {
		return fmt.Sprintf("the same %s as the first such run (%.12s)", what, a)
	}
	return fmt.Sprintf("other %s than the first such run (%.12s, not %.12s)", what, a, b)
}
