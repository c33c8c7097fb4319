package report

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// scaled multiplies metrics of all cells but the baseline.
func scaled(s Side, by map[string]float64) Side {
	for id, d := range s.View.Data {
		for i, m := range d.Metrics {
			if f, ok := by[m.Name]; ok && !strings.HasPrefix(id, "r0-") {
				d.Metrics[i].Value *= f
			}
		}
	}
	return s
}

// Every speed counts, not that of the objective alone, and the limit is held
// against the number that is printed.
func TestCompare_TheWorstSeparableSpeedDecides(t *testing.T) {
	for name, tc := range map[string]struct {
		by       map[string]float64
		limit    float64
		fails    string // "" = passes
		decision string
	}{
		"time per token alone":     {map[string]float64{"tpot_mean": 1.3}, 0.03, "TPOT +29.9", "b is 30 % slower than a (TPOT +29.9 %)"},
		"TOTAL alone":              {map[string]float64{"cycle_total": 1.3}, 0.03, "TOTAL +29.9", "b is 30 % slower than a (TOTAL +29.9 %)"},
		"a longer cycle that pays": {map[string]float64{"cycle_total": 1.3, "accept_len": 1.6, "tpot_mean": 0.8, "output_throughput": 1.25}, 0.03, "", "b is 25 % faster than a: "},
		"a rate, just beyond":      {map[string]float64{"tpot_mean": 1, "output_throughput": 0.93}, 0.07, "% slower)", "b is 7.5 % slower than a (tok/s -6.9 %)"},
		"both ways":                {map[string]float64{"tpot_mean": 1.1, "output_throughput": 1.1}, 0.03, "TPOT +", "b is 9.9 % slower than a (TPOT +9.9 %); b is 10 % faster than a: "},
		"an accept length":         {map[string]float64{"accept_len": 0.9}, 0.03, "", "no difference in speed found between a and b, but accept len -10.0 % in steps=1 topk=1; one of "},
	} {
		c := mustCompare(t, only(t, sitting("good", 2, 6, 1, 1), "steps=1"), only(t, scaled(sitting("later", 2, 6, 1, 1), tc.by), "steps=1"), CompareOptions{Limit: tc.limit})
		err := c.Regression()
		var regression *RegressionError
		if errors.As(err, &regression) != (tc.fails != "") || tc.fails != "" && !strings.Contains(fmt.Sprint(err), tc.fails) {
			t.Errorf("%s: %v, want %q", name, err, tc.fails)
		}
		if !strings.HasPrefix(c.Decision, tc.decision) {
			t.Errorf("%s: %s", name, c.Decision)
		}
	}
}
