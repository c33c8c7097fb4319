package trust

import (
	"fmt"
	"math"

	"specrun/experiments/record"
)

// Sums are the tokens of all drafts within the benchmark, by the intervals that
// the server printed and by its counters.
type Sums struct {
	LogLines                        int
	LogDrafted, LogAccepted         float64
	CountedDrafted, CountedAccepted float64
}

// sumsTolerance is how far log and counters may be apart: they count the same.
const sumsTolerance = 0.01

// checkSums compares what log and counters say of one benchmark. A log that lacks
// the last interval, or whose first one began before, says less or more than the
// counters without either being wrong: then it is said how much.
func checkSums(in Input) record.TrustCheck {
	s := in.Sums
	switch {
	case in.Steps == 0:
		return notCheckable(CheckSums, speculating)
	case s == nil:
		return notCheckable(CheckSums, "not both the server's log and its counters have drafts")
	case s.LogLines == 0:
		return notCheckable(CheckSums, fmt.Sprintf("no interval was printed within the benchmark: the tail that the log lacks is all %.0f drafted tokens", s.CountedDrafted))
	}
	missing := s.CountedDrafted - s.LogDrafted
	apart := max(share(missing, s.CountedDrafted), share(s.CountedAccepted-s.LogAccepted, s.CountedAccepted))
	text := fmt.Sprintf("drafted tokens: log %.0f, counters %.0f; accepted: log %.0f, counters %.0f", s.LogDrafted, s.CountedDrafted, s.LogAccepted, s.CountedAccepted)
	if apart <= sumsTolerance {
		return record.TrustCheck{Name: CheckSums, Outcome: record.Pass, Left: s.LogDrafted, Right: s.CountedDrafted, Explanation: text}
	}
	c := notCheckable(CheckSums, text)
	c.Left, c.Right = s.LogDrafted, s.CountedDrafted
	if missing > 0 {
		c.Explanation += fmt.Sprintf(": the log lacks a tail of %.0f drafted tokens (%s), which it had not printed by the end", missing, percent(share(missing, s.CountedDrafted)))
	} else {
		c.Explanation += fmt.Sprintf(": the log's first interval holds %.0f drafted tokens (%s) from before the benchmark", -missing, percent(share(missing, s.CountedDrafted)))
	}
	return c
}

func share(part, whole float64) float64 {
	switch {
	case part == 0:
		return 0
	case whole == 0:
		return math.Inf(1)
	}
	return math.Abs(part / whole)
}
