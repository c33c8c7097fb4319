package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"specrun/experiments/record"
)

func TestWriteRun_HowItWasMeasured(t *testing.T) {
	v := newBuilder(3, 1, "grid").run(2, 0, 1).v
	d := rising(v.Data["r2-0"], 18.2, 1.1, 1, 2)
	d.Metrics = append(d.Metrics, record.Metric{Name: "gap_ratio", Unit: "x", Value: 2.144, N: 1, Source: "derived"}, record.Metric{Name: "gap_acceptance", Unit: "x", Value: 2.14, N: 1, Source: "derived"},
		record.Metric{Name: "gap_cycle", Unit: "x", Value: 1.002, N: 1, Source: "derived"}, record.Metric{Name: "gap_rest", Unit: "x", Value: 1, N: 1, Source: "derived"})
	d.Checks = []record.TrustCheck{{Name: "server-alive", Outcome: record.Pass, Explanation: "it answers"},
		{Name: "profiler-against-benchmark", Outcome: record.Fail, Explanation: "claims 38.3 tok/s, measured 82.1"}}
	d.Provenance = append(d.Provenance, record.Fact{Group: "workload", Key: "warmup_outcome", Value: "settled"},
		record.Fact{Group: "workload", Key: "steady_window", Value: "from the last first token to the first end"},
		record.Fact{Group: "patches", Key: "profiling-v3", Value: "1.0 abc"})
	run := record.RunView{Run: v.Runs[0], Sweep: v.Sweep, Cell: v.Cells[2], Data: d}
	o := options()
	o.Probe = func(sha, host string) *ProbeLine {
		if sha != "abc" || host != "lab" {
			return nil
		}
		return costing(Distorts, 1.134, 1.129, 1.139)
	}
	var b bytes.Buffer
	if err := WriteRun(&b, run, o); err != nil {
		t.Fatal(err)
	}
	golden(t, "measured.txt", b.Bytes())
	text := b.String()
	failed, metrics := strings.Index(text, "failed checks"), strings.Index(text, "\nmetrics")
	if failed < 0 || metrics < failed {
		t.Errorf("failed checks come first:\n%s", text)
	}
	line, err := json.Marshal(Detail(run, o))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"context_slope":{"at_0":`, `"by_batch":[{"batch":1,"cycles":100,`, `"probes":{"profiling-v3":{`} {
		if !strings.Contains(string(line), want) {
			t.Errorf("no %s in %s", want, line)
		}
	}
}

func TestSlopeText(t *testing.T) {
	f := func(v float64) *float64 { return &v }
	for want, s := range map[string]*SlopeJSON{
		"18.20 ms + 1.10 (1.02..1.18) per 1,000 tokens of context, 8 rows":                 {f(18.2), f(1.1), f(1.02), f(1.18), 8},
		"18.20 ms - 0.05 (-0.20..0.10) per 1,000 tokens of context, 8 rows: no rise found": {f(18.2), f(-0.05), f(-0.2), f(0.1), 8},
		"": nil,
	} {
		if got := s.text(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
