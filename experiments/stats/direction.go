package stats

import "strings"

// Direction is which way a metric gets better.
type Direction int

const (
	Neutral Direction = iota // neither: a count, a setting, a reading
	Higher
	Lower
)

// directions by name, the first pattern that fits counts: the beginning of a name,
// or with a star before it the end.
var directions = [...]struct {
	pattern string
	Direction
}{
	{"*_std", Neutral}, // how far values lie apart
	{"*_slope", Neutral},
	{"*throughput", Higher},
	{"*throughput_per_user", Higher},
	{"accept_len", Higher},
	{"cycle_", Lower},
	{"tpot", Lower},
	{"ttft", Lower},
	{"ttst", Lower},
	{"itl", Lower},
	{"request_latency", Lower},
	{"e2e", Lower},
}

// DirectionOf says which way a metric gets better; Neutral for all that it does
// not know.
func DirectionOf(metric string) Direction {
	for _, d := range directions {
		end, isEnd := strings.CutPrefix(d.pattern, "*")
		if isEnd && strings.HasSuffix(metric, end) || !isEnd && strings.HasPrefix(metric, d.pattern) {
			return d.Direction
		}
	}
	return Neutral
}

// IsSpeed says that by a metric one thing can be called faster than another: a
// rate or a time per work. An accept length is none, since longer cycles may buy
// it.
func IsSpeed(metric string) bool {
	return DirectionOf(metric) != Neutral && !strings.HasPrefix(metric, "accept_len")
}
