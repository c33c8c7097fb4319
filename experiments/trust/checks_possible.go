package trust

import (
	"fmt"
	"math"
	"strings"

	"specrun/experiments/record"
)

// Beyond these no engine of today comes near: a number there is a broken one.
const (
	mostMs     = 1e8 // 28 hours
	mostPerSec = 1e8
	mostAccept = 64 // tokens a step
)

// checkPossible looks at each number by itself: a file that is read may say
// anything.
func checkPossible(in Input) record.TrustCheck {
	seen := 0
	for _, m := range in.Metrics {
		most := 0.0
		switch {
		case strings.HasSuffix(m.Name, "_throughput"):
			most = mostPerSec
		case m.Name == "accept_len":
			most = mostAccept
		case m.Unit == "ms" && (m.Name == "cycle_total" || timesOf(m.Name)):
			most = mostMs
		default:
			continue
		}
		if math.IsNaN(m.Value) { // said to be unknown
			continue
		}
		if seen++; m.Value < 0 || m.Value > most {
			return record.TrustCheck{Name: CheckPossible, Outcome: record.Fail, Left: m.Value, Right: most,
				Explanation: fmt.Sprintf("%s by the %s is %.4g %s: not possible", m.Name, strings.ReplaceAll(m.Source, "_", " "), m.Value, m.Unit)}
		}
	}
	if done, ok := value(in.Metrics, "completed"); ok && done > 0 {
		if v, ok := value(in.Metrics, "output_throughput"); ok && v == 0 {
			return record.TrustCheck{Name: CheckPossible, Outcome: record.Fail, Left: v, Right: done,
				Explanation: fmt.Sprintf("%.0f requests completed at an output_throughput of 0", done)}
		}
	}
	tokens, okTokens := value(in.Metrics, "total_output_tokens")
	seconds, okSeconds := value(in.Metrics, "duration")
	rate, okRate := value(in.Metrics, "output_throughput")
	if okTokens && okSeconds && okRate && tokens > 0 && seconds > 0 {
		if c := closeEnough(CheckPossible, rate, tokens/seconds, ownTolerance, "output_throughput %.4g tok/s, total_output_tokens / duration %.4g tok/s"); c.Outcome == record.Fail {
			return c
		}
	}
	if seen == 0 {
		return notCheckable(CheckPossible, "no speed, time or accept length")
	}
	return decided(CheckPossible, true, "all speeds, times and accept lengths are possible")
}

func timesOf(name string) bool {
	for _, prefix := range []string{"ttft_", "tpot", "itl_", "request_latency_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
