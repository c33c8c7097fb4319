package report

import (
	"fmt"
	"math"
	"strings"
)

// What a number of a patch is worth.
const (
	worthUse     = "usable"
	worthNot     = "not usable"
	worthHint    = "indicative"
	worthUnknown = "unknown"
)

// sourceWords name a source of an accept length.
var sourceWords = map[string]string{"per_request": "the requests", "server_log": "the server's log"}

// agreement is how far two sources of one number may be apart.
const agreement = 0.05

// totalAgreement is how far TOTAL may be from what the client's time per token
// makes of a cycle; the run's own check allows as much. With several requests at
// once the batch changes, and the two are not means of the same cycles.
const totalAgreement, totalAgreementSeveral = 0.03, 0.1

// totalHolds says that the TOTAL that the patch prints is the time of a cycle: a
// patch may cost nothing and still leave a part of the cycle out.
func (l *ProbeLine) totalHolds() bool {
	limit := totalAgreement
	if l.several {
		limit = totalAgreementSeveral
	}
	return l.CycleWith != nil && l.Implied != nil && math.Abs(*l.CycleWith / *l.Implied - 1) <= limit
}

// several says that there were several requests at once.
func (s probeSide) several() bool {
	c, _, known := s.pick("max_concurrency", "client")
	return known && c > 1
}

// timePerToken is the client's, of several requests at once that of tokens that
// no prefill delayed, since a profiler counts decode cycles only.
func (s probeSide) timePerToken() (ms float64, ok bool) {
	names := []string{"tpot", "tpot_mean"}
	if s.several() {
		names = []string{"tpot_undisturbed"}
	}
	for _, name := range names {
		if ms, _, ok = s.pick(name, "client"); ok && ms > 0 {
			return ms, true
		}
	}
	return math.NaN(), false
}

// judge says which of the patch's numbers may be used, and why.
func (l *ProbeLine) judge(without, with probeSide) {
	say := func(name, worth, format string, args ...any) {
		l.Numbers[name], l.Why[name] = worth, fmt.Sprintf(format, args...)
	}
	if l.CycleWith != nil {
		implied := "TPOT x accept length"
		switch {
		case l.Implied == nil:
			say("cycle_total", worthUnknown, "it says %s ms, and nothing else says what a cycle takes", number(*l.CycleWith, "ms"))
		case !l.totalHolds():
			say("cycle_total", worthNot, "it says %s ms, %s is %s", number(*l.CycleWith, "ms"), implied, number(*l.Implied, "ms"))
		case l.Verdict == Negligible:
			say("cycle_total", worthUse, "a cycle takes as long as without the patch, within %s, and %s is %s ms", percent(probeTolerance), implied, number(*l.Implied, "ms"))
		case l.Verdict == Distorts:
			say("cycle_total", worthNot, "it contains what the patch costs: %s", percentBeyond(l.Ratio))
		default:
			say("cycle_total", worthUnknown, "what the patch costs is not known well enough: more rounds")
		}
	}
	if with.phases() {
		switch {
		case l.probe == "sync":
			say("phases", worthHint, "time of the device, but each phase alone and with its wait")
		case l.probe == "events" && l.Verdict == Negligible:
			say("phases", worthUse, "the device's own clock")
		case l.probe == "events":
			say("phases", worthHint, "the device's own clock, in cycles that the patch may have changed")
		default:
			say("phases", worthHint, "times of the host: work of the device shows where the host waits for it")
		}
	}
	l.judgeAccept(with, say)
	if claimed, _, ok := with.pick("claimed_throughput", "profiler"); ok {
		truth, known := without.decodes(with)
		switch {
		case !known:
			say("printed_throughput", worthUnknown, "no run without the patch has a speed to compare with")
		case math.Abs(claimed/truth-1) <= agreement:
			say("printed_throughput", worthUse, "it prints %s tok/s; without the patch the benchmark decodes %s", number(claimed, "tok/s"), number(truth, "tok/s"))
		default:
			say("printed_throughput", worthNot, "it prints %s tok/s; without the patch the benchmark decodes %s, %.2f times that", number(claimed, "tok/s"), number(truth, "tok/s"), truth/claimed)
		}
	}
	if _, _, ok := with.pick("output_throughput", "client"); ok {
		switch l.Verdict {
		case Negligible:
			say("output_throughput", worthUse, "the same with the patch and without")
		case Distorts:
			if l.Ratio != nil && *l.Ratio < 1 {
				say("output_throughput", worthNot, "the patch makes tokens faster, so that the server does other work with it")
				break
			}
			say("output_throughput", worthNot, "slowed as well: quote a run without the patch (bench.quotable)")
		default:
			say("output_throughput", worthUnknown, "what the patch costs is not known well enough: more rounds")
		}
	}
}

// decodes is how many tok/s the client got while nothing was prefilled, which is
// what a profiler counts; of several requests at once in the batch that the
// profiler of the other side saw.
func (s probeSide) decodes(with probeSide) (rate float64, ok bool) {
	if c, _, known := s.pick("max_concurrency", "client"); known && c > 1 {
		tpot, _, ok := s.pick("tpot_undisturbed", "client")
		batch, _, known := with.pick("batch_mean", "profiler")
		if !known {
			batch = c
		}
		return 1000 * batch / tpot, ok && tpot > 0
	}
	for _, name := range []string{"tpot", "tpot_mean"} {
		if tpot, _, ok := s.pick(name, "client"); ok && tpot > 0 {
			return 1000 / tpot, true
		}
	}
	return math.NaN(), false
}

func (l *ProbeLine) judgeAccept(with probeSide, say func(name, worth, format string, args ...any)) {
	claimed, _, ok := with.pick("claimed_accept_len", "profiler")
	if !ok {
		claimed, _, ok = with.pick("accept_len", "profiler")
	}
	if !ok {
		return
	}
	truth, source, known := with.pick("accept_len", "per_request", "server_log")
	switch {
	case !known:
		say("accept_len", worthUnknown, "it prints %s, and nothing else counts accepted tokens", number(claimed, "tokens/step"))
	case math.Abs(claimed/truth-1) <= agreement:
		say("accept_len", worthUse, "it prints %s; it is %s by %s", number(claimed, "tokens/step"), number(truth, "tokens/step"), sourceWords[source])
	case math.Abs(truth-1-claimed) <= agreement*truth:
		say("accept_len", worthNot, "it prints %s, without the bonus token; it is %s by %s", number(claimed, "tokens/step"), number(truth, "tokens/step"), sourceWords[source])
	default:
		say("accept_len", worthNot, "it prints %s; it is %s by %s", number(claimed, "tokens/step"), number(truth, "tokens/step"), sourceWords[source])
	}
}

// phases says whether the patch takes a cycle apart.
func (s probeSide) phases() bool {
	for name, by := range s.metrics {
		if strings.HasPrefix(name, "cycle_") && len(by["profiler"]) > 0 && name != "cycle_total" && name != "cycle_other" && name != "cycle_call" {
			return true
		}
	}
	return false
}
