package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"specrun/experiments/record"
)

// probed is what one run of a probe measured.
type probed struct {
	tpot    float64
	metrics []record.Metric
	samples []record.Sample
	failed  bool
}

// probeView is a probe of profiling-x with one run in each round on each side.
func probeView(kind string, without, with []probed) record.SweepView {
	v := record.SweepView{Sweep: record.Sweep{ID: "p1", Kind: "probe", State: record.SweepDone,
		Plan: json.RawMessage(`{"host":{"name":"gpu-01"},"order":"interleave","cells":[{"ord":0,"server":{}},
			{"ord":1,"server":{"patches":[{"name":"profiling-x","version":"2","sha256":"abc","probe":"` + kind + `"}]}}]}`)}, Data: map[string]record.RunData{}}
	for i, name := range []string{"none", "profiling-x"} {
		v.Cells = append(v.Cells, record.Cell{ID: fmt.Sprint("c", i), Ord: i, Params: record.Params{"steps": int64(2), "patches": name}})
	}
	for i, runs := range [][]probed{without, with} {
		for round, p := range runs {
			id := fmt.Sprintf("c%d.r%d", i, round)
			v.Slots = append(v.Slots, record.Slot{ID: id, CellID: fmt.Sprint("c", i), Round: round})
			run := record.Run{ID: "run" + id, SlotID: id, LaunchID: "l" + id, State: record.RunDone}
			if p.failed {
				run.State = record.RunFailed
			}
			v.Runs = append(v.Runs, run)
			ms := append([]record.Metric{{Name: "tpot", Unit: "ms", Value: p.tpot, Source: "client"},
				{Name: "output_throughput", Unit: "tok/s", Value: 1000 / p.tpot, Source: "client"}}, p.metrics...)
			v.Data[run.ID] = record.RunData{Metrics: ms, Samples: p.samples, Labels: []record.Label{{Name: "simulated"}}}
		}
	}
	return v
}

func tpots(values ...float64) []probed {
	out := make([]probed, len(values))
	for i, v := range values {
		out[i].tpot = v
	}
	return out
}

// profiled is what a profiler prints in a cycle of total ms.
func profiled(runs []probed, total, claimed, accept float64) []probed {
	for i := range runs {
		runs[i].metrics = []record.Metric{
			{Name: "cycle_total", Unit: "ms/cyc", Value: total, Source: "profiler"}, {Name: "cycle_verify", Unit: "ms/cyc", Value: 18, Source: "profiler"},
			{Name: "accept_len", Unit: "tokens/step", Value: accept, Source: "profiler"}, {Name: "accept_len", Unit: "tokens/step", Value: accept, Source: "server_log"},
			{Name: "claimed_accept_len", Unit: "tokens/step", Value: claimed, Source: "profiler"},
		}
	}
	return runs
}

func probe(t *testing.T, v record.SweepView) ProbeLine {
	t.Helper()
	l, err := Probe(v, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestProbe_Verdicts(t *testing.T) {
	for name, c := range map[string]struct {
		without, with []float64
		want          string
	}{
		"a synchronizing one":                     {[]float64{10, 10.05, 9.97}, []float64{11.3, 11.36, 11.28}, Distorts},
		"one that makes tokens faster":            {[]float64{10, 10.05, 9.97}, []float64{9, 9.04, 8.98}, Distorts},
		"one that costs nothing":                  {[]float64{10, 10.05, 9.97}, []float64{10.02, 10.06, 9.98}, Negligible},
		"half a percent, surely":                  {[]float64{10, 10.01, 10.02}, []float64{10.05, 10.06, 10.07}, Negligible},
		"noise hides it":                          {[]float64{10, 11, 9}, []float64{10.5, 10.1, 10.4}, Unclear},
		"two pairs give no interval":              {[]float64{10, 10.01}, []float64{10, 10.01}, Unclear},
		"one pair, however far apart":             {[]float64{10}, []float64{22}, Unclear},
		"no pair":                                 {nil, nil, Unclear},
		"in all pairs alike, whatever the rounds": {[]float64{10, 20, 40}, []float64{11.3, 22.6, 45.2}, Distorts},
	} {
		l := probe(t, probeView("sync", tpots(c.without...), tpots(c.with...)))
		if l.Verdict != c.want || l.Pairs != len(c.with) {
			t.Errorf("%s: %s after %d pairs, want %s", name, l.Verdict, l.Pairs, c.want)
		}
		if _, err := json.Marshal(l); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var b strings.Builder
		if err := l.Write(&b); err != nil || !strings.Contains(b.String(), c.want) || strings.Contains(b.String(), "NaN") {
			t.Errorf("%s: %v\n%s", name, err, b.String())
		}
	}
}

func TestProbe_SaysWhatACycleCosts(t *testing.T) {
	without := tpots(10, 10.1, 9.9)
	with := profiled(tpots(11, 11.2, 10.8), 20.9, 1.9, 1.9)
	l := probe(t, probeView("sync", without, with))
	// Pairs differ by 1, 1.1 and 0.9 ms a token, so by 1.9 times that a cycle.
	if math.Abs(*l.MsPerCycle-1.9) > 1e-9 || math.Abs(*l.MsHi-*l.MsPerCycle-1.9*4.302653*0.1/math.Sqrt(3)) > 1e-4 || math.Abs(*l.MsLo+*l.MsHi-2**l.MsPerCycle) > 1e-9 {
		t.Errorf("%v (%v to %v)", *l.MsPerCycle, *l.MsLo, *l.MsHi)
	}
	if math.Abs(*l.ByTotal-1.9) > 1e-9 || *l.CycleWith != 20.9 || *l.TPOTWith != 11 || *l.TPOTWithout != 10 {
		t.Errorf("%+v", l)
	}
	if l.Patch != "profiling-x" || l.Version != "2" || l.SHA256 != "abc" || l.Host != "gpu-01" || len(l.Params) != 1 || l.Labels[0] != "simulated" {
		t.Errorf("%+v", l)
	}
}

func TestProbe_SaysWhichNumbersMayBeUsed(t *testing.T) {
	slow := func() []probed { return tpots(11.3, 11.36, 11.28) }
	same := func() []probed { return tpots(10.02, 10.06, 9.98) }
	for name, c := range map[string]struct {
		kind string
		with []probed
		want map[string]string
	}{
		"synchronizing": {"sync", profiled(slow(), 21.1, 1.87, 1.87), map[string]string{"cycle_total": "not usable", "phases": "indicative", "accept_len": "usable", "output_throughput": "not usable"}},
		"light":         {"light", profiled(same(), 18.8, 1.87, 1.87), map[string]string{"cycle_total": "usable", "phases": "indicative", "accept_len": "usable", "output_throughput": "usable"}},
		"events":        {"events", profiled(same(), 18.8, 1.87, 1.87), map[string]string{"cycle_total": "usable", "phases": "usable", "accept_len": "usable", "output_throughput": "usable"}},
		"no bonus":      {"sync", profiled(slow(), 21.1, 0.87, 1.87), map[string]string{"cycle_total": "not usable", "phases": "indicative", "accept_len": "not usable", "output_throughput": "not usable"}},
		"prints none":   {"none", same(), map[string]string{"output_throughput": "usable"}},
	} {
		l := probe(t, probeView(c.kind, tpots(10, 10.05, 9.97), c.with))
		if fmt.Sprint(l.Numbers) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v", name, l.Numbers, c.want)
		}
		for n := range l.Numbers {
			if l.Why[n] == "" {
				t.Errorf("%s: %s without a reason", name, n)
			}
		}
	}
	if l := probe(t, probeView("none", tpots(10, 10.05, 9.97), tpots(5, 5.03, 4.99))); l.Numbers["output_throughput"] != "not usable" || !strings.Contains(l.Why["output_throughput"], "other work") {
		t.Errorf("one that makes tokens faster: %s", l.Why["output_throughput"])
	}
	l := probe(t, probeView("sync", tpots(10, 10.05, 9.97), profiled(slow(), 21.1, 0.87, 1.87)))
	if !strings.Contains(l.Why["accept_len"], "bonus") {
		t.Error(l.Why["accept_len"])
	}
	with := profiled(slow(), 21.1, 0.87, 1.87)
	for i := range with {
		with[i].metrics = append(with[i].metrics, record.Metric{Name: "claimed_throughput", Unit: "tok/s", Value: 38.3, Source: "profiler"})
	}
	if l := probe(t, probeView("sync", tpots(10, 10.05, 9.97), with)); l.Numbers["printed_throughput"] != "not usable" || !strings.Contains(l.Why["printed_throughput"], "2.61 times") {
		t.Errorf("%s", l.Why["printed_throughput"])
	}
}

// A patch that costs nothing may still print a TOTAL with most of the cycle left
// out: only one that the client's time per token confirms may be used.
func TestProbe_ATotalThatIsNoCycleIsNotUsable(t *testing.T) {
	for name, c := range map[string]struct {
		with  []probed
		total float64
		want  string
		why   string
	}{
		"a part of the cycle":            {tpots(10.02, 10.06, 9.98), 3, "not usable", "it says 3.00 ms, TPOT x accept length is 18.7"},
		"the same, cost unclear":         {tpots(10.5, 9.1, 10.4), 3, "not usable", "it says 3.00 ms"},
		"slower, and its own TOTAL less": {tpots(11.3, 11.36, 11.28), 19, "not usable", "it says 19.00 ms, TPOT x accept length is 21.1"},
		"a whole cycle":                  {tpots(10.02, 10.06, 9.98), 18.8, "usable", "TPOT x accept length is 18.7"},
	} {
		l := probe(t, probeView("light", tpots(10, 10.05, 9.97), profiled(c.with, c.total, 1.87, 1.87)))
		var b strings.Builder
		if err := l.Write(&b); err != nil {
			t.Fatal(err)
		}
		if l.Numbers["cycle_total"] != c.want || !strings.Contains(l.Why["cycle_total"], c.why) || (l.ByTotal != nil) != (c.want == "usable") || strings.Contains(b.String(), "by its own TOTAL") != (c.want == "usable") {
			t.Errorf("%s: %s: %s\n%s", name, l.Numbers["cycle_total"], l.Why["cycle_total"], b.String())
		}
	}
	bare := profiled(tpots(10.02, 10.06, 9.98), 18.8, 1.87, 1.87)
	for i := range bare {
		bare[i].metrics = bare[i].metrics[:1]
	}
	if l := probe(t, probeView("light", tpots(10, 10.05, 9.97), bare)); l.Numbers["cycle_total"] != "unknown" || l.ByTotal != nil {
		t.Errorf("without an accept length: %s", l.Numbers["cycle_total"])
	}
}

// A profiler counts decode cycles; the output_throughput of a client has the time
// to first tokens in it, and a steady one the prefills of others.
func TestProbe_APrintedRateIsHeldAgainstDecoding(t *testing.T) {
	side := func(claimed, batch float64, ms ...record.Metric) (out []probed) {
		for _, p := range tpots(10, 10.05, 9.97) {
			p.metrics = append(append([]record.Metric{}, ms...), record.Metric{Name: "output_throughput", Unit: "tok/s", Value: 80, Source: "client"})
			if claimed > 0 {
				p.metrics = append(p.metrics, record.Metric{Name: "claimed_throughput", Unit: "tok/s", Value: claimed, Source: "profiler"},
					record.Metric{Name: "batch_mean", Unit: "requests", Value: batch, Source: "profiler"})
			}
			out = append(out, p)
		}
		return out
	}
	several := []record.Metric{{Name: "max_concurrency", Unit: "requests", Value: 8, Source: "client"}, {Name: "tpot_undisturbed", Unit: "ms", Value: 9, Source: "client"}}
	for _, c := range []struct {
		name          string
		without, with []probed
		want, why     string
	}{
		{"one at a time", side(0, 0), side(99, 1), "usable", "decodes 100"},
		{"one at a time, wrong", side(0, 0), side(80, 1), "not usable", "1.25 times"},
		{"several", side(0, 0, several...), side(860, 7.8, several...), "usable", "decodes 866.7"},
		{"several, never without a prefill", side(0, 0, several[0]), side(860, 7.8, several...), "unknown", "no run without the patch"},
	} {
		l := probe(t, probeView("light", c.without, c.with))
		if l.Numbers["printed_throughput"] != c.want || !strings.Contains(l.Why["printed_throughput"], c.why) {
			t.Errorf("%s: %s: %s", c.name, l.Numbers["printed_throughput"], l.Why["printed_throughput"])
		}
	}
}

// Outputs that are longer on one side end at contexts where a token takes longer.
func TestProbe_ComparesEqualPositions(t *testing.T) {
	positions := func(tokens int) (samples []record.Sample) {
		for k := 32; k <= tokens; k += 32 {
			labels := map[string]string{"request": "0", "position": fmt.Sprint(k)}
			if k == tokens {
				labels["end"] = "true"
			}
			at := 10 * float64(k) * (1 + float64(k)/1000) // ms, a slope
			samples = append(samples, record.Sample{Seq: k, Name: "decode_elapsed", Unit: "ms", Value: at, Source: "client", Labels: labels})
		}
		return samples
	}
	side := func(tokens int) (out []probed) {
		for i := range 3 {
			out = append(out, probed{tpot: (10 + float64(i)/100) * (1 + float64(tokens)/1000), samples: positions(tokens)})
		}
		return out
	}
	l := probe(t, probeView("light", side(320), side(640)))
	if l.Verdict != Negligible || math.Abs(*l.Ratio-1) > 1e-6 || !strings.Contains(l.Note, "equally long") {
		t.Errorf("%v, %s, %s", *l.Ratio, l.Verdict, l.Note)
	}
}

func TestProbe_FailedRunsLeaveTheirPairOut(t *testing.T) {
	with := tpots(11.3, 11.36, 11.28)
	with[1].failed = true
	l := probe(t, probeView("sync", tpots(10, 10.05, 9.97), with))
	var b strings.Builder
	if err := l.Write(&b); err != nil || l.Pairs != 2 || l.Failed != 1 || !strings.Contains(b.String(), "1 run failed") {
		t.Errorf("%d pairs, %d failed, %v\n%s", l.Pairs, l.Failed, err, b.String())
	}
}

func TestProbe_OfAnotherSweepIsAnError(t *testing.T) {
	v := probeView("sync", tpots(10), tpots(11))
	v.Cells = v.Cells[:1]
	if _, err := Probe(v, nil); !errors.Is(err, ErrNoProbe) {
		t.Errorf("got %v", err)
	}
}

// A later report asks whether it is about the same.
func TestProbe_SaysWhatItMeasuredAndWhen(t *testing.T) {
	v := probeView("sync", tpots(10.11, 10.12, 10.14), tpots(11.11, 11.13, 11.12))
	v.Sweep.CreatedUs = epochUs
	for id, d := range v.Data {
		d.Provenance = []record.Fact{fact("code", "engine_version", "0.5.4"), fact("workload", "model", "m")}
		v.Data[id] = d
	}
	if l := probe(t, v); l.Engine != "0.5.4" || l.Model != "m" || l.At != "2026-11-29T12:00:00Z" {
		t.Errorf("%q, %q, %q", l.Engine, l.Model, l.At)
	}
}
