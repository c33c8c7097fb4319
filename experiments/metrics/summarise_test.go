package metrics_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"specrun/experiments/metrics"
	"specrun/experiments/record"
)

func find(t *testing.T, s metrics.Summary, name, source string) (record.Metric, bool) {
	t.Helper()
	for _, m := range s.Metrics {
		if m.Name == name && m.Source == source {
			return m, true
		}
	}
	return record.Metric{}, false
}

func wantMetric(t *testing.T, s metrics.Summary, name, source string, value float64, n int) {
	t.Helper()
	m, ok := find(t, s, name, source)
	if !ok || math.Abs(m.Value-value) > 1e-9 || m.N != n {
		t.Errorf("%s of %s: %v (n %d, found %v), want %v (n %d)", name, source, m.Value, m.N, ok, value, n)
	}
}

func profileJSON(start, end float64, cycles int, wall float64, tokens int) string {
	return fmt.Sprintf(`{"specrun":"profile","schema":1,"profiler":"p","version":"1","hash":"h","worker":"v1","rank":0,"t_start":%g,"t_end":%g,"cycles":%d,"wall_ms":%g,"call_ms":%g,"phases_ms":{"draft":%g,"verify":%g},"batch_sum":%d,"batch_min":1,"batch_max":1,"tokens":%d,"accepted":0,"proposed":0,"steps":2,"request_cycles":%d,"context":100,"skipped":{},"partial":false}`+"\n",
		start, end, cycles, wall, wall*0.9, wall*0.25, wall*0.5, cycles, tokens, cycles)
}

func decodeLine(running int, accept, rate float64) string {
	return fmt.Sprintf("[2026-11-29 10:00:00] Decode batch, #running-req: %d, #token: 9, token usage: 0.00, accept len: %.2f, cuda graph: True, gen throughput (token/s): %.2f, #queue-req: 0\n", running, accept, rate)
}

const prefill = "[2026-11-29 10:00:00] Prefill batch, #new-seq: 1, #new-token: 9, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0\n"

func TestSummarise_CountsOnlyWhatLiesWhollyInside(t *testing.T) {
	warm := profileJSON(1, 9, 100, 9999, 100) + decodeLine(1, 9, 9999)
	across := profileJSON(9, 11, 100, 9999, 100) // printed inside, but its cycles began in the warm-up
	inside := prefill + decodeLine(1, 9, 9999) + decodeLine(1, 1.8, 90) + decodeLine(3, 2.2, 110) +
		profileJSON(10, 12, 75, 1500, 150) + profileJSON(12, 13, 25, 550, 50)
	after := decodeLine(1, 9, 9999) + profileJSON(13, 20, 100, 9999, 100)
	f := metrics.NewFollower()
	f.Write([]byte(warm + across + inside + after))
	f.Close()
	w := metrics.Window{LogStart: int64(len(warm)), LogEnd: int64(len(warm + across + inside)), TStart: 10, TEnd: 13}
	s := metrics.Summarise(f.Rows(), f.Decode(), w)
	if len(s.Rows) != 2 || s.Cycles != 100 {
		t.Fatalf("%d rows with %d cycles, want 2 with 100", len(s.Rows), s.Cycles)
	}
	wantMetric(t, s, "cycle_total", "profiler", 20.5, 100) // (1500 + 550) / 100, no mean of 20 and 22
	wantMetric(t, s, "cycle_draft", "profiler", 5.125, 100)
	wantMetric(t, s, "cycle_verify", "profiler", 10.25, 100)
	wantMetric(t, s, "cycle_other", "profiler", 5.125, 100)
	wantMetric(t, s, "cycle_call", "profiler", 18.45, 100)
	wantMetric(t, s, "accept_len", "profiler", 2, 100)
	wantMetric(t, s, "profiler_throughput", "profiler", 200./2.05, 100)
	wantMetric(t, s, "context_mean", "profiler", 100, 100)
	wantMetric(t, s, "gen_throughput", "server_log", 100, 2)
	wantMetric(t, s, "accept_len", "server_log", (1.8+3*2.2)/4, 2)
}

func TestSummarise_UnknownTokensGiveNoAcceptLength(t *testing.T) {
	f := metrics.NewFollower()
	f.Write([]byte(strings.Replace(profileJSON(1, 2, 10, 200, 7), `"tokens":7`, `"tokens":null`, 1)))
	s := metrics.Summarise(f.Rows(), nil, metrics.Window{})
	if m, ok := find(t, s, "accept_len", "profiler"); ok {
		t.Errorf("accept_len %v from a row without tokens", m.Value)
	}
	wantMetric(t, s, "cycle_total", "profiler", 20, 10)
}

func TestSummarise_TheSlowestRankIsTheGroupsCycle(t *testing.T) {
	rep := parseFile(t, "084-prof-eight-ranks-straggler.log")
	if len(rep.Extract) == 0 {
		t.Fatal("nothing read")
	}
	f := metrics.NewFollower()
	f.Write(readFile(t, "084-prof-eight-ranks-straggler.log"))
	f.Close()
	s := metrics.Summarise(f.Rows(), nil, metrics.Window{})
	wantMetric(t, s, "cycle_total", "profiler", 26.34, 100)
}

func TestSummarise_DataParallelRanksAddUp(t *testing.T) {
	f := metrics.NewFollower()
	log := readFile(t, "006-sglang-dp-tp-ep-logging-prefix.log")
	f.Write(append(log, log...)) // the first line of each rank is no rate
	s := metrics.Summarise(nil, f.Decode(), metrics.Window{})
	wantMetric(t, s, "gen_throughput", "server_log", 2692.49, 4)
}

// With one request at a time ranks take turns: there is never more than the rate
// of one.
func TestSummarise_RanksThatTakeTurnsDoNotAddUp(t *testing.T) {
	var b strings.Builder
	for turn := range 12 {
		rank := fmt.Sprintf("[2026-01-01 10:00:%02d DP%d TP0] ", turn, turn%4)
		fmt.Fprintf(&b, "%sPrefill batch, #new-seq: 1, #new-token: 9, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0\n", rank)
		for k := range 4 {
			fmt.Fprintf(&b, "%sDecode batch, #running-req: 1, #token: 9, token usage: 0.01, accept len: 2.00, cuda graph: True, gen throughput (token/s): %d.00, #queue-req: 0\n", rank, []int{7, 100, 101, 99}[k])
		}
	}
	f := metrics.NewFollower()
	f.Write([]byte(b.String()))
	s := metrics.Summarise(nil, f.Decode(), metrics.Window{})
	wantMetric(t, s, "gen_throughput", "server_log", 100, 36)
}

func TestSummarise_NothingGivesNothing(t *testing.T) {
	if s := metrics.Summarise(nil, nil, metrics.Window{}); len(s.Metrics)+len(s.Samples) != 0 {
		t.Errorf("%+v", s)
	}
}

func TestSummarise_DataParallelProfilersAreApart(t *testing.T) {
	dp := func(n int, line string) string {
		return strings.Replace(line, `"rank":0`, fmt.Sprintf(`"rank":0,"dp_rank":%d`, n), 1)
	}
	f := metrics.NewFollower()
	f.Write([]byte(dp(0, profileJSON(1, 2, 10, 200, 20)) + dp(1, profileJSON(1, 2, 10, 300, 20))))
	rows := f.Rows()
	if len(rows) != 2 || rows[1].DPRank != 1 {
		t.Fatalf("rows %+v: equal times of two ranks are no duplicate", rows)
	}
	wantMetric(t, metrics.Summarise(rows, nil, metrics.Window{}), "cycle_total", "profiler", 30, 10)
}

func TestSummarise_BetweenRampAndDrain(t *testing.T) {
	f := metrics.NewFollower()
	f.Write([]byte(profileJSON(10, 11, 25, 100, 30) + profileJSON(11, 12, 25, 500, 50) + profileJSON(12, 13, 25, 520, 50) + profileJSON(13, 14, 10, 100, 12)))
	rows := f.Rows()
	w := metrics.Window{TStart: 10, TEnd: 14, SteadyStart: 10.5, SteadyEnd: 13}
	s := metrics.Summarise(rows, nil, w)
	if len(s.Rows) != 2 || s.Unsteady {
		t.Fatalf("%d rows, unsteady %v", len(s.Rows), s.Unsteady)
	}
	wantMetric(t, s, "cycle_total", "profiler", 20.4, 50)
	w.SteadyStart, w.SteadyEnd = 10.5, 11.5 // too short for a whole row
	s = metrics.Summarise(rows, nil, w)
	if len(s.Rows) != 4 || !s.Unsteady {
		t.Errorf("%d rows, unsteady %v: all rows count when none lies between, and that is said", len(s.Rows), s.Unsteady)
	}
	if s := metrics.Summarise(nil, nil, w); s.Unsteady {
		t.Error("no rows at all are unsteady")
	}
}

func TestSummarise_SamplesOfARowBelongTogether(t *testing.T) {
	f := metrics.NewFollower()
	f.Write([]byte(profileJSON(10, 11, 25, 500, 50) + profileJSON(11, 12, 20, 500, 44)))
	s := metrics.Summarise(f.Rows(), nil, metrics.Window{})
	got := map[string]map[string]float64{}
	for _, x := range s.Samples {
		if got[x.Labels["row"]] == nil {
			got[x.Labels["row"]] = map[string]float64{}
		}
		got[x.Labels["row"]][x.Name] = x.Value
	}
	if len(got) != 2 || got["1"]["cycle_total"] != 20 || got["2"]["cycle_total"] != 25 || got["2"]["cycles"] != 20 ||
		got["1"]["tokens"] != 50 || got["2"]["request_cycles"] != 20 || got["1"]["context"] != 100 || got["2"]["batch_max"] != 1 {
		t.Errorf("%v", got)
	}
}

// A decode line stands for the time since the line before it: the first of a
// burst holds the idling before, and the first in the window what came before
// that.
func TestSummarise_FirstLineOfABurstIsNoRate(t *testing.T) {
	before := prefill + decodeLine(1, 1.5, 50)
	inside := prefill + decodeLine(1, 1.8, 3) + decodeLine(1, 1.8, 90) + prefill + decodeLine(1, 1.8, 7) + decodeLine(1, 1.8, 92)
	f := metrics.NewFollower()
	f.Write([]byte(before + inside))
	f.Close()
	s := metrics.Summarise(nil, f.Decode(), metrics.Window{LogStart: int64(len(before)), LogEnd: int64(len(before + inside))})
	wantMetric(t, s, "gen_throughput", "server_log", 91, 2)
}
