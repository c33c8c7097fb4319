package main

import (
	"math"
	"testing"

	"specrun/experiments/metrics"
)

func TestValueText_RoundsWhatWasComputed(t *testing.T) {
	for _, c := range []struct {
		v    metrics.Value
		want string
	}{
		{metrics.Number(24.449909480000002), "24.4499"}, {metrics.Number(5.21), "5.21"}, {metrics.Number(139.5), "139.5"},
		{metrics.Number(0.9999616926730852), "0.999962"}, {metrics.Number(0.00012345678), "0.000123457"}, {metrics.Number(1234567.8912), "1234567.9"},
		{metrics.Number(123456789), "123456789"}, {metrics.Number(0), "0"}, {metrics.Number(-2.000000001), "-2"},
		{metrics.Number(math.NaN()), "NaN"}, {metrics.Word("True"), "True"},
	} {
		if got := valueText(c.v); got != c.want {
			t.Errorf("%v: %s, want %s", c.v, got, c.want)
		}
	}
}
