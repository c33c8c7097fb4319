package metrics_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"specrun/experiments/metrics"
	"specrun/experiments/record"
)

func specLine(at string, accepted, drafted int, mean string, positions string) string {
	return fmt.Sprintf("(APIServer pid=9) INFO 11-29 %s [metrics.py:120] SpecDecoding metrics: Mean acceptance length: %s, Accepted throughput: 1.00 tokens/s, "+
		"Drafted throughput: 2.00 tokens/s, Accepted: %d tokens, Drafted: %d tokens, Per-position acceptance rate: %s, Avg Draft acceptance rate: 10.0%%\n", at, mean, accepted, drafted, positions)
}

func speculated(t *testing.T, log string, w metrics.Window, steps int) metrics.Speculated {
	t.Helper()
	f := metrics.NewFollower()
	for rest := []byte(log); len(rest) > 0; rest = rest[min(7, len(rest)):] {
		f.Write(rest[:min(7, len(rest))])
	}
	f.Close()
	return metrics.SummariseSpeculation(f.Speculation(), w, steps)
}

func value(ms []record.Metric, name string) float64 {
	for _, m := range ms {
		if m.Name == name {
			return m.Value
		}
	}
	return math.NaN()
}

func near(a, b float64) bool { return math.Abs(a-b) < 0.005 }

// Intervals are summed, never averaged: a short one counts for what it has.
func TestSummariseSpeculation(t *testing.T) {
	head := specLine("10:00:00", 900, 900, "4.00", "1.000, 1.000, 1.000")
	log := head + "(APIServer pid=9) INFO 11-29 10:00:02 [loggers.py:335] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 3.5 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.0%, Prefix cache hit rate: 0.0%\n" +
		specLine("10:00:02", 150, 300, "2.50", "0.800, 0.500, 0.200") + specLine("10:00:04", 3, 9, "2.00", "1.000, 0.000, 0.000")
	whole := int64(len(log))
	s := speculated(t, log+specLine("10:00:06", 300, 300, "4.00", "1.000, 1.000, 1.000"), metrics.Window{LogStart: int64(len(head)), LogEnd: whole}, 3)
	if s.Lines != 2 || s.Accepted != 153 || s.Drafted != 309 || !near(s.Drafts, 103) {
		t.Fatalf("%+v", s)
	}
	for name, want := range map[string]float64{"accepted_tokens": 153, "draft_tokens": 309, "accept_len": 1 + 153./103, "accept_pos_1": (80 + 3) / 103., "accept_pos_2": 50 / 103., "draft_acceptance_rate": 100 * 153 / 309.} {
		if got := value(s.Metrics, name); !near(got, want) {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
}

// Drafts may be shorter than the longest: what is printed per draft counts.
func TestSummariseSpeculation_ShortDrafts(t *testing.T) {
	s := speculated(t, specLine("10:00:00", 40, 60, "2.00", "0.700, 0.200, 0.100"), metrics.Window{}, 3)
	if !near(value(s.Metrics, "accept_len"), 2) { // not 1 + 40/(60/3)
		t.Errorf("%+v", s)
	}
	if s = speculated(t, specLine("10:00:00", 0, 60, "1.00", "0.000, 0.000, 0.000"), metrics.Window{}, 3); value(s.Metrics, "accept_len") != 1 {
		t.Errorf("nothing accepted: %+v", s)
	}
	if s = speculated(t, specLine("10:00:00", 0, 0, "nan", "nan, nan, nan"), metrics.Window{}, 3); !math.IsNaN(value(s.Metrics, "accept_len")) || s.Lines != 1 {
		t.Errorf("no drafts: %+v", s)
	}
	// How many drafts nothing was accepted of is not to be guessed, but said.
	nothing, some := specLine("10:00:00", 0, 60, "1.00", "0.000, 0.000, 0.000"), specLine("10:00:02", 3, 9, "2.00", "1.000, 0.000, 0.000")
	if s = speculated(t, nothing+some, metrics.Window{}, 0); !math.IsNaN(value(s.Metrics, "accept_len")) || len(s.Notes) != 1 || !strings.Contains(s.Notes[0], "1 of 2 intervals") {
		t.Errorf("unknown length: %+v", s)
	}
	if s = speculated(t, specLine("10:00:00", 0, 0, "nan", "nan, nan, nan")+some, metrics.Window{}, 0); !near(value(s.Metrics, "accept_len"), 2) || len(s.Notes) != 0 {
		t.Errorf("unknown length, an interval without drafts: %+v", s)
	}
	if s = speculated(t, "nothing\n"+strings.Repeat("x", 100), metrics.Window{}, 3); s.Lines != 0 || len(s.Metrics) != 0 {
		t.Errorf("no lines: %+v", s)
	}
}
