package experiments

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"specrun/experiments/bench"
)

// Warmup is how many requests are sent before the measured ones: a number, or
// WarmupAuto.
type Warmup int

// WarmupAuto warms up until successive requests agree, see bench.Warmup for the
// rule and its bound.
const WarmupAuto Warmup = -1

const warmupAuto = "auto"

func (w Warmup) String() string {
	if w == WarmupAuto {
		return warmupAuto
	}
	return strconv.Itoa(int(w))
}

// MarshalJSON writes a number, or "auto".
func (w Warmup) MarshalJSON() ([]byte, error) {
	if w == WarmupAuto {
		return json.Marshal(warmupAuto)
	}
	return json.Marshal(int(w))
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (w *Warmup) UnmarshalJSON(b []byte) error {
	if string(b) == `"`+warmupAuto+`"` {
		*w = WarmupAuto
		return nil
	}
	var n int
	if err := json.Unmarshal(b, &n); err != nil || n < 0 {
		return fmt.Errorf("warmup: want a number from 0 on or %q, not %s", warmupAuto, b)
	}
	*w = Warmup(n)
	return nil
}

// Requests is how many requests it is, for WarmupAuto the usual number.
func (w Warmup) Requests(concurrency int) int {
	if w == WarmupAuto {
		return bench.WarmupLikely(concurrency)
	}
	return int(w)
}

func benchWarmup(b *BenchPlan, s Scalar) error {
	n, ok := s.Value.(int64)
	switch {
	case s.Text == warmupAuto:
		b.Warmup = WarmupAuto
		return nil
	case !ok:
		return fmt.Errorf("must be a whole number or auto, not %q", s.Text)
	case n < 0 || n > math.MaxInt32:
		return fmt.Errorf("must be at least 0, not %d", n)
	}
	b.Warmup = Warmup(n)
	return nil
}
