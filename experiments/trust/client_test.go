package trust

import (
	"math"
	"slices"
	"strings"
	"testing"

	"specrun/experiments/record"
)

// chunked gives each request a time between its chunks.
func chunked(in *Input, ms float64) {
	for i := range in.Requests {
		in.Requests[i].MsPerChunk, in.Requests[i].Chunks = ms, 100
	}
}

func TestAssess_ClientAndOthers(t *testing.T) {
	nan := math.NaN()
	for _, tc := range []struct {
		check, name string
		change      func(*Input)
		want        record.Outcome
		part        string
		label       string // given with a failure
	}{
		{CheckKeptUp, "run all the time", func(in *Input) { chunked(in, 20) }, record.Pass, "run all the time", ""},
		{CheckKeptUp, "one percent", func(in *Input) { in.ClientStalledMs = 300 }, record.Pass, "0.3 s of 30.0 s", ""},
		{CheckKeptUp, "more", func(in *Input) { in.ClientStalledMs = 301 }, record.Fail, "the client stood still for 0.3 s", Noisy},
		{CheckKeptUp, "did not look", func(in *Input) { in.ClientWatched = false }, record.NotCheckable, "did not watch", ""},
		{CheckKeptUp, "did not look, but got the answer in one go", func(in *Input) {
			in.ClientWatched = false
			*in = with(with(baseline(*in), "steady_throughput", "client", 45930), "gen_throughput", "server_log", 93)
		}, record.Fail, "received 45930.0 tok/s, the server made 93.0", Noisy},
		{CheckKeptUp, "one go, and no word of the server", func(in *Input) {
			*in = with(baseline(*in), "gen_throughput", "server_log", nan)
			chunked(in, 0.0218)
		}, record.Fail, "every 0.022 ms", Noisy},
		{CheckKeptUp, "a chunk for each token of a cycle", func(in *Input) { chunked(in, 20.1/3) }, record.Pass, "", ""},
		{CheckKeptUp, "more chunks than tokens in a cycle", func(in *Input) { chunked(in, 4) }, record.Fail, "of cycles of 20.10 ms", Noisy},
		{CheckKeptUp, "a profiler that counts half the tokens is no fault of the client", func(in *Input) {
			chunked(in, 20)
			*in = with(*in, "accept_len", "profiler", 0.874)
		}, record.Pass, "", ""},
		{CheckKeptUp, "the beginning in one go", func(in *Input) {
			in.Requests[1].Chunks, in.Requests[1].HeadChunks, in.Requests[1].MsHead = 100, 11, 220
		}, record.Fail, "11 of the 100 chunks of request 1", Noisy},
		{CheckKeptUp, "a tenth in one go", func(in *Input) {
			in.Requests[1].Chunks, in.Requests[1].HeadChunks, in.Requests[1].MsHead = 100, 10, 220
		}, record.Pass, "", ""},

		{CheckNobody, "alone", func(*Input) {}, record.Pass, "no more requests", ""},
		{CheckNobody, "two at once", func(in *Input) { in.RunningMost = 2 }, record.Fail, "the server had 2 at once, the client sent 1", SharedHost},
		{CheckNobody, "two of two", func(in *Input) { in.RunningMost, in.Concurrency = 2, 2 }, record.Pass, "", ""},
		{CheckNobody, "another prompt in the log", func(in *Input) { in.LoggedPrompt = 320 }, record.Fail, "320 prompt tokens by the server log, the client's were 300", SharedHost},
		{CheckNobody, "health checks in the log", func(in *Input) { in.LoggedPrompt = 319 }, record.Pass, "", ""},
		{CheckNobody, "another prompt by the counter", func(in *Input) { in.ServerPrompt = 320 }, record.Fail, "counter", SharedHost},
		{CheckNobody, "other output", func(in *Input) { in.ServerTokens = 1027 }, record.Fail, "1027 output tokens", SharedHost},
		{CheckNobody, "fewer than were sent", func(in *Input) { in.RunningMost, in.LoggedPrompt, in.ServerTokens = 0, 200, 800 }, record.NotCheckable, "", ""},
		{CheckNobody, "after a failure", func(in *Input) { in.RunningMost = 2; *in = with(*in, "failed", "client", 1) }, record.NotCheckable, "failed requests", ""},
		{CheckNobody, "of an old log", func(in *Input) { in.RunningMost, in.Imported = 2, true }, record.NotCheckable, "unknown", ""},
	} {
		in := good()
		tc.change(&in)
		labels, checks := Assess(in)
		c := checks[slices.IndexFunc(checks, func(c record.TrustCheck) bool { return c.Name == tc.check })]
		if c.Outcome != tc.want || !strings.Contains(c.Explanation, tc.part) {
			t.Errorf("%s, %s: %s: %q; want %s with %q", tc.check, tc.name, c.Outcome, c.Explanation, tc.want, tc.part)
		}
		if tc.label != "" && !slices.ContainsFunc(labels, func(l record.Label) bool { return l.Name == tc.label && strings.Contains(l.Reason, c.Explanation) }) {
			t.Errorf("%s, %s: no %s with the explanation: %+v", tc.check, tc.name, tc.label, labels)
		}
		if failed := slices.Contains(names(labels), Disagree); tc.check == CheckKeptUp && failed != (tc.want == record.Fail) && !strings.Contains(tc.name, "profiler that") {
			t.Errorf("%s, %s: labels %+v", tc.check, tc.name, labels)
		}
	}
}

// What spoilt a comparison with the client is said with it, and its gap is not
// put down to the profiler.
func TestAssess_AStandstillIsNoFaultOfTheProfiler(t *testing.T) {
	in := with(good(), "tpot_mean", "client", 18)
	if GapMetrics(in) == nil {
		t.Fatal("no gap to explain")
	}
	in.ClientStalledMs = 3000
	_, checks := Assess(in)
	for _, c := range checks {
		if (c.Name == CheckTPOT || c.Name == CheckClaim) && (c.Outcome != record.Fail || !strings.Contains(c.Explanation, "did not keep up")) {
			t.Errorf("%s: %s: %s", c.Name, c.Outcome, c.Explanation)
		}
	}
	if got := GapMetrics(in); got != nil {
		t.Errorf("gap metrics: %+v", got)
	}
	if strings.HasPrefix(Advice(Disagree), "believe the client") {
		t.Errorf("advice: %s", Advice(Disagree))
	}
}

func TestAssess_NumbersThatCannotBe(t *testing.T) {
	file := func(more ...record.Metric) Input {
		return Input{Imported: true, Metrics: append([]record.Metric{metric("completed", "client", 100), metric("duration", "client", 10), metric("total_output_tokens", "client", 1000)}, more...)}
	}
	ms := func(name string, v float64) record.Metric {
		return record.Metric{Name: name, Unit: "ms", Source: "client", Value: v}
	}
	for _, tc := range []struct {
		in   Input
		want record.Outcome
		part string
	}{
		{file(metric("output_throughput", "client", 100), ms("tpot_mean", 5), metric("accept_len", "client", 3)), record.Pass, "possible"},
		{file(metric("output_throughput", "client", math.NaN()), ms("tpot_mean", 0)), record.Pass, ""},
		{file(ms("tpot_mean", 1e300)), record.Fail, "tpot_mean by the client is 1e+300 ms: not possible"},
		{file(metric("output_throughput", "client", -5)), record.Fail, "output_throughput by the client is -5"},
		{file(metric("output_throughput", "client", math.Inf(1))), record.Fail, "+Inf"},
		{file(metric("output_throughput", "client", 0)), record.Fail, "100 requests completed"},
		{file(metric("accept_len", "client", 99)), record.Fail, "accept_len by the client is 99"},
		{file(metric("output_throughput", "client", 120)), record.Fail, "total_output_tokens / duration 100"},
		{file(), record.NotCheckable, "no speed"},
	} {
		if c := checkPossible(tc.in); c.Outcome != tc.want || !strings.Contains(c.Explanation, tc.part) {
			t.Errorf("%s: %q; want %s with %q", c.Outcome, c.Explanation, tc.want, tc.part)
		}
	}
}
