package bench

import (
	"math"
	"strings"
	"testing"
)

// evenly is a request from start to end (us) that had its first token at first,
// and then one more each millisecond.
func evenly(start, first, end int64) Request {
	q := Request{StartUs: start, FirstTokenUs: first, EndUs: end, OutputTokens: 1 + int((end-first)/1000)}
	for at := first; at <= end; at += 1000 {
		q.ChunkUs = append(q.ChunkUs, at-start)
	}
	q.place(&tracker{blind: true})
	return q
}

func TestSteady_BetweenRampAndDrain(t *testing.T) {
	// Four at once of unequal length; the fourth waits in the queue at first. Six
	// in all: the fifth starts when the first ends, the last when the second does.
	r := Report{Job: Job{Concurrency: 4}, Requests: []Request{
		evenly(0, 1000, 101_000), evenly(0, 2000, 202_000), evenly(0, 3000, 603_000), evenly(0, 50_000, 450_000),
		evenly(101_000, 105_000, 505_000), evenly(202_000, 210_000, 410_000),
	}}
	r.steady()
	if r.SteadyStartUs != 50_000 || r.SteadyEndUs != 410_000 {
		t.Fatalf("steady from %d to %d (%s): want from the fourth first token to the first end with none left to send", r.SteadyStartUs, r.SteadyEndUs, r.SteadyRule)
	}
	if !strings.Contains(r.SteadyRule, "4 requests") {
		t.Errorf("rule %q", r.SteadyRule)
	}
	// Tokens a millisecond while they decode: 51, 152, 360, 360, 305 and 200 ms.
	v, n := r.steadyThroughput()
	if want := (51. + 152 + 360 + 360 + 305 + 200) / 0.360; n != 6 || math.Abs(v-want) > 1 {
		t.Errorf("%v tok/s of %d requests, want %v of 6", v, n, want)
	}
	found := false
	for _, m := range r.Metrics() {
		found = found || m.Name == "steady_throughput" && m.Value == v && m.Source == "client" && m.Unit == "tok/s"
	}
	if !found {
		t.Error("no metric steady_throughput")
	}
}

func TestSteady_OneAtATime(t *testing.T) {
	r := Report{Job: Job{Concurrency: 1}, Requests: []Request{evenly(0, 500_000, 600_000), {Index: 1, Error: "HTTP 500", StartUs: 600_000, EndUs: 900_000}, evenly(900_000, 1_400_000, 1_500_000)}}
	r.steady()
	if r.SteadyStartUs != 500_000 || r.SteadyEndUs != 1_500_000 || r.SteadyRule == "" {
		t.Errorf("%d to %d, %q", r.SteadyStartUs, r.SteadyEndUs, r.SteadyRule)
	}
	if v, n := r.steadyThroughput(); n != 2 || math.Abs(v-1000) > 1e-6 {
		t.Errorf("%v tok/s of %d requests: one token each millisecond, the time to the first left out", v, n)
	}
}

func TestSteady_None(t *testing.T) {
	for name, c := range map[string]struct {
		r    Report
		want string
	}{
		"one has ended before the other began": {Report{Job: Job{Concurrency: 2}, Requests: []Request{evenly(0, 1000, 5000), evenly(0, 9000, 20_000)}}, "ended before"},
		"most failed":                          {Report{Job: Job{Concurrency: 2}, Requests: []Request{evenly(0, 1000, 5000), {StartUs: 1, EndUs: 2, Error: "x"}}}, "fewer than 2"},
		"nothing sent":                         {Report{Job: Job{Concurrency: 2}}, "fewer than 2"},
	} {
		c.r.steady()
		if c.r.SteadyStartUs != 0 || c.r.SteadyEndUs != 0 || !strings.Contains(c.r.SteadyRule, "none: ") || !strings.Contains(c.r.SteadyRule, c.want) {
			t.Errorf("%s: %d to %d, %q", name, c.r.SteadyStartUs, c.r.SteadyEndUs, c.r.SteadyRule)
		}
		if v, n := c.r.steadyThroughput(); n != 0 {
			t.Errorf("%s: %v tok/s", name, v)
		}
	}
}

// Requests that all start at once and of which none is left: no ramp, and the
// drain begins with the first end.
func TestSteady_AsManyAsAtOnce(t *testing.T) {
	r := Report{Job: Job{Concurrency: 8}, Requests: []Request{evenly(0, 1000, 301_000), evenly(0, 1000, 201_000), evenly(0, 2000, 402_000)}}
	r.steady()
	if r.SteadyStartUs != 2000 || r.SteadyEndUs != 201_000 {
		t.Errorf("%d to %d", r.SteadyStartUs, r.SteadyEndUs)
	}
}

func TestMetrics_AnAnswerInOneChunkHasNoTimePerToken(t *testing.T) {
	r := Report{Job: Job{Concurrency: 1}, Requests: []Request{{StartUs: 0, FirstTokenUs: 1000, EndUs: 1000, OutputTokens: 50, ChunkUs: []int64{1000}}}}
	for _, m := range r.Metrics() {
		if strings.HasPrefix(m.Name, "tpot") || m.Name == "steady_throughput" {
			t.Errorf("%s = %v", m.Name, m.Value)
		}
	}
}
