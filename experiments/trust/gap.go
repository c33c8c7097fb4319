package trust

import (
	"fmt"
	"math"
	"strings"

	"specrun/experiments/record"
)

// Claim is what a profiler says of the speed, by its own definitions. NaN or 0
// is what it does not say; of tok/s, accept length and cycle any one may be
// missing, since it follows from the other two.
type Claim struct {
	TokS      float64
	AcceptLen float64
	CycleMs   float64
	Batch     float64 // requests per cycle; 0 is 1
}

// Truth is what a benchmark and the server say of the same, the bonus token
// counted.
type Truth struct {
	TokS      float64
	AcceptLen float64
	CycleMs   float64
	From      string // where the numbers come from, in words
}

// Gap splits the ratio of a measured to a claimed speed into factors:
//
//	Ratio = Acceptance x Cycle x Probe x Rest
//
// Acceptance is the accept length measured over the one claimed, two ways of
// counting the same cycles. Cycle is the claimed cycle over the measured one of
// the same run. Probe is the cycle with the patch over the one without, 1 when
// there is no run without it. Rest is what the others leave: a claim that
// contradicts itself, or another batch.
type Gap struct {
	Claimed, Measured                     float64 // tok/s
	Ratio, Acceptance, Cycle, Probe, Rest float64
	Explanation                           string // one line
}

// SplitGap splits the gap within one run. ok is false when the claim does not
// say enough, or no benchmark contradicts it.
func SplitGap(c Claim, t Truth) (g Gap, ok bool) {
	c, okClaim := c.whole()
	if !okClaim || !t.whole() {
		return Gap{}, false
	}
	g = Gap{Claimed: c.TokS, Measured: t.TokS, Ratio: t.TokS / c.TokS, Acceptance: t.AcceptLen / c.AcceptLen, Cycle: c.CycleMs / t.CycleMs, Probe: 1}
	g.Rest = g.Ratio / (g.Acceptance * g.Cycle)
	g.explain(c, t, nil)
	return g, true
}

// SplitGapAcross splits the gap between the claim of a run with a patch and the
// speed of a run without it. Acceptance and cycle are those of the run with the
// patch, so that Probe is the patch's cost alone; that one of the two runs
// accepted more is part of Rest.
func SplitGapAcross(c Claim, with, without Truth) (g Gap, ok bool) {
	c, okClaim := c.whole()
	if !okClaim || !with.whole() || !without.whole() {
		return Gap{}, false
	}
	g = Gap{Claimed: c.TokS, Measured: without.TokS, Ratio: without.TokS / c.TokS,
		Acceptance: with.AcceptLen / c.AcceptLen, Cycle: c.CycleMs / with.CycleMs, Probe: with.CycleMs / without.CycleMs}
	g.Rest = g.Ratio / (g.Acceptance * g.Cycle * g.Probe)
	g.explain(c, with, &without)
	return g, true
}

// ClaimOf reads the claim among a run's metrics; ok is false when its profiler
// states neither tok/s nor an accept length.
func ClaimOf(ms []record.Metric) (c Claim, ok bool) {
	c.TokS, _ = value(ms, "claimed_throughput", "profiler")
	c.AcceptLen, _ = value(ms, "claimed_accept_len", "profiler")
	c.CycleMs, _ = value(ms, "cycle_total", "profiler")
	c.Batch, _ = value(ms, "batch_mean", "profiler")
	return c, positive(c.TokS) || positive(c.AcceptLen)
}

// TruthOf reads what the client and the server say among a run's metrics. A
// cycle is the time per token of a request times its accept length, whatever the
// batch; with several requests at once it is taken while none of them was being
// prefilled, since a profiler counts no such cycle either. ok is false where that
// is not known. The server's own accept length goes first; that of the profiler's
// sums does where the server has none. Without a client, as in an old log, the
// server log's rate is what was measured.
func TruthOf(ms []record.Metric) (t Truth, ok bool) {
	var source string
	t.AcceptLen, source = acceptOf(ms)
	tpot, okTPOT := value(ms, "tpot", "client")
	if !okTPOT {
		tpot, okTPOT = value(ms, "tpot_mean", "client")
	}
	batch, known := value(ms, "batch_mean", "profiler")
	if rate, found := value(ms, "gen_throughput", "server_log"); found && !okTPOT {
		if !known {
			batch = 1
		}
		t.From, t.TokS, t.CycleMs = source, rate, 1000*batch*t.AcceptLen/rate
		return t, source == "server log" && t.whole()
	}
	if c, several := value(ms, "max_concurrency", "client"); !several || c <= 1 {
		batch = 1
	} else {
		tpot, okTPOT = value(ms, "tpot_undisturbed", "client")
		if !known {
			batch = c
		}
	}
	t.From = "client and " + source
	t.TokS, t.CycleMs = 1000*batch/tpot, tpot*t.AcceptLen
	return t, okTPOT && t.whole()
}

// acceptOf is the accept length by the most exact source that is not the
// profiler, else by the profiler's sums; NaN unknown.
func acceptOf(ms []record.Metric) (accept float64, source string) {
	for _, s := range acceptSources {
		if v, found := value(ms, "accept_len", s.name); found && s.name != "profiler" {
			return v, s.words
		}
	}
	accept, _ = value(ms, "accept_len", "profiler")
	return accept, "the profiler's sums"
}

// Metrics are the gap as it is stored with a run.
func (g Gap) Metrics() []record.Metric {
	var out []record.Metric
	for _, m := range []struct {
		name  string
		value float64
	}{{"gap_ratio", g.Ratio}, {"gap_acceptance", g.Acceptance}, {"gap_cycle", g.Cycle}, {"gap_rest", g.Rest}} {
		out = append(out, record.Metric{Name: m.name, Unit: "x", Value: m.value, N: 1, Source: "derived"})
	}
	return out
}

// GapMetrics is the split of a claim that the benchmark contradicts, as stored
// with a run: gap_ratio, gap_acceptance, gap_cycle, gap_rest; none otherwise, and
// none where the client did not keep up: what it timed was itself.
func GapMetrics(in Input) []record.Metric {
	c, gap := claimed(in)
	if c.Outcome != record.Fail || gap == (Gap{}) || checkKeptUp(in).Outcome == record.Fail {
		return nil
	}
	return gap.Metrics()
}

// whole fills in what follows from the rest.
func (c Claim) whole() (Claim, bool) {
	batch := c.Batch
	if !positive(batch) {
		batch = 1
	}
	switch {
	case !positive(c.TokS):
		c.TokS = 1000 * batch * c.AcceptLen / c.CycleMs
	case !positive(c.AcceptLen):
		c.AcceptLen = c.TokS * c.CycleMs / 1000 / batch
	case !positive(c.CycleMs):
		c.CycleMs = 1000 * batch * c.AcceptLen / c.TokS
	}
	return c, positive(c.TokS) && positive(c.AcceptLen) && positive(c.CycleMs)
}

func (t Truth) whole() bool {
	return positive(t.TokS) && positive(t.AcceptLen) && positive(t.CycleMs)
}

func positive(v float64) bool { return v > 0 && !math.IsInf(v, 0) }

// equalFactor is how far from 1 a factor may be and still explain nothing.
const equalFactor = 0.01

// explain writes the product; factors of 1 are left out.
func (g *Gap) explain(c Claim, with Truth, without *Truth) {
	var factors []string
	add := func(factor float64, format string, args ...any) {
		if math.Abs(factor-1) > equalFactor {
			factors = append(factors, fmt.Sprintf("x%.2f (", factor)+fmt.Sprintf(format, args...)+")")
		}
	}
	if lacksBonus(c.AcceptLen, with.AcceptLen) {
		add(g.Acceptance, "accept length %.3f does not count the bonus token: %.3f", c.AcceptLen, with.AcceptLen)
	} else {
		add(g.Acceptance, "accept length %.3f, by the %s %.3f", c.AcceptLen, strings.TrimPrefix(with.From, "client and "), with.AcceptLen)
	}
	add(g.Cycle, "cycle %.1f ms by the profiler, %.1f by the benchmark", c.CycleMs, with.CycleMs)
	if without != nil {
		add(g.Probe, "cycle %.1f ms with the patch, %.1f without", with.CycleMs, without.CycleMs)
	}
	add(g.Rest, "not explained")
	if len(factors) == 0 {
		factors = []string{"x1.00"}
	}
	g.Explanation = fmt.Sprintf("%.1f -> %.1f tok/s: x%.2f = %s", g.Claimed, g.Measured, g.Ratio, strings.Join(factors, " "))
}

// bonusDistance: two accept lengths that are one apart, within this, disagree
// about the bonus token, as in the story of 0.98 against 2.1.
const bonusDistance = 0.15

func lacksBonus(claimed, measured float64) bool {
	return math.Abs(measured-claimed-1) < bonusDistance
}
