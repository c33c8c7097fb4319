package metrics_test

import (
	"fmt"
	"strings"
	"testing"

	"specrun/experiments/metrics"
)

// storyRow is what a profiler that leaves out the bonus token prints of 25 cycles.
func storyRow(i, drafts int, wall float64) string {
	json := strings.Replace(profileJSON(float64(10+i), float64(11+i), 25, wall, drafts), `"steps":2`, `"bonus":false,"steps":2`, 1)
	return fmt.Sprintf("[specrun story] cycles %d-%d (last 25 cycles, batch 1)\n  draft steps:        1.00 ms/cyc  (25.0%%)\n  TOTAL:          %8.2f ms/cyc\n  accept length:  %8.2f\n  rate:           %8.2f tok/s\n",
		25*i+1, 25*i+25, wall/25, float64(drafts)/25, 1000*float64(drafts)/wall) + json
}

func summary(log string) metrics.Summary {
	f := metrics.NewFollower()
	f.Write([]byte(log))
	f.Close()
	return metrics.Summarise(f.Rows(), f.Decode(), metrics.Window{})
}

// What a profiler claims stays as it says; accept_len and profiler_throughput
// follow specrun's definition.
func TestSummarise_AProfilerWithoutTheBonusToken(t *testing.T) {
	s := summary(storyRow(0, 22, 570) + storyRow(1, 21, 570) + storyRow(2, 23, 684))
	if len(s.Rows) != 3 {
		t.Fatalf("%d rows: a text block counts beside its JSON line", len(s.Rows))
	}
	wantMetric(t, s, "claimed_accept_len", "profiler", 66./75, 75)
	wantMetric(t, s, "accept_len", "profiler", (66.+75)/75, 75)
	wantMetric(t, s, "profiler_throughput", "profiler", (66.+75)/1824*1000, 75)
	// Printed with two decimals, weighed by the time of each row.
	wantMetric(t, s, "claimed_throughput", "profiler", (38.60*570+36.84*570+33.63*684)/1824, 75)
	for _, x := range s.Samples {
		if x.Name == "accept_len" && x.Value < 1 {
			t.Errorf("a row's accept_len of %v lacks the bonus token", x.Value)
		}
	}
}

func TestSummarise_ClaimsOfTextAlone(t *testing.T) {
	text := ""
	for line := range strings.Lines(storyRow(0, 22, 570)) {
		if !strings.HasPrefix(line, "{") {
			text += line
		}
	}
	s := summary(text)
	wantMetric(t, s, "claimed_accept_len", "profiler", 0.88, 25)
	wantMetric(t, s, "claimed_throughput", "profiler", 38.6, 25)
	wantMetric(t, s, "accept_len", "profiler", 0.88, 25) // its definition is not known
}

func TestSummarise_ARateNeedsABlockAndTheUnit(t *testing.T) {
	for name, log := range map[string]string{
		"alone":           "  rate:      38.60 tok/s\n" + profileJSON(1, 2, 25, 500, 45),
		"another unit":    strings.Replace(storyRow(0, 22, 570), "tok/s", "req/s", 1),
		"no rate printed": profileJSON(1, 2, 25, 500, 45),
	} {
		s := summary(log)
		if m, ok := find(t, s, "claimed_throughput", "profiler"); ok {
			t.Errorf("%s: claimed_throughput %v", name, m.Value)
		}
		if _, ok := find(t, s, "claimed_accept_len", "profiler"); !ok {
			t.Errorf("%s: no claimed_accept_len", name)
		}
	}
}

func TestCachedTokens_OfTheWindow(t *testing.T) {
	line := func(fresh, cached string) string {
		return "[2026-11-29 10:00:00 TP0] Prefill batch. #new-seq: 1, #new-token: " + fresh + ", #cached-token: " + cached + ", token usage: 0.00, #running-req: 0, #queue-req: 0\n"
	}
	before := line("9", "900")
	log := before + line("90", "10") + line("50", "50")
	f := metrics.NewFollower()
	f.Write([]byte(log + line("1", "700")))
	f.Close()
	cached, prompt := metrics.CachedTokens(f.Prefills(), metrics.Window{LogStart: int64(len(before)), LogEnd: int64(len(log))})
	if cached != 60 || prompt != 200 {
		t.Errorf("%d of %d tokens, want 60 of 200", cached, prompt)
	}
	if len(f.Prefills()) != 0 {
		t.Error("lines are handed out twice")
	}
}
