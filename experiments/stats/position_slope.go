package stats

import (
	"math"

	"specrun/experiments/record"
)

// Slope is how the cycle time of one run rises with the context, the mean length
// of the sequences in a cycle: At0 + PerThousand x context / 1,000, in ms.
type Slope struct {
	At0         float64 // at context 0, where nothing was measured: a way to draw the line
	PerThousand float64 // ms per 1,000 tokens
	Lo, Hi      float64 // interval of PerThousand at Confidence
	Rows        int     // that it rests on
}

// slopeFewRows are the fewest rows that give a slope with an interval.
const slopeFewRows = 3

// ContextSlope fits a line to a profiler's rows by least squares, each weighted
// by its cycles. Rows of one batch size only go into it, that of most cycles,
// since more requests in a batch cost time as well. ok is false with fewer than
// three different contexts.
func ContextSlope(samples []record.Sample) (Slope, bool) {
	return fitSlope(profilerRows(samples))
}

func fitSlope(rows []row) (Slope, bool) {
	rows = mainBatch(rows)
	different := map[float64]bool{}
	var n, sw, sx, sy float64
	for _, r := range rows {
		if math.IsNaN(r.context) {
			continue
		}
		different[r.context] = true
		n++
		sw, sx, sy = sw+r.cycles, sx+r.cycles*r.context, sy+r.cycles*r.total
	}
	if len(different) < slopeFewRows {
		return Slope{}, false
	}
	mx, my := sx/sw, sy/sw
	var sxx, sxy float64
	for _, r := range rows {
		if d := r.context - mx; !math.IsNaN(d) {
			sxx, sxy = sxx+r.cycles*d*d, sxy+r.cycles*d*(r.total-my)
		}
	}
	b := sxy / sxx
	rest := 0.0
	for _, r := range rows {
		if d := r.context - mx; !math.IsNaN(d) {
			e := r.total - my - b*d
			rest += r.cycles * e * e
		}
	}
	half := Quantile(n-2) * math.Sqrt(rest/(n-2)/sxx)
	return Slope{At0: my - b*mx, PerThousand: 1000 * b, Lo: 1000 * (b - half), Hi: 1000 * (b + half), Rows: int(n)}, true
}

// mainBatch leaves the rows of the batch size that most cycles have; all of them
// when no row says.
func mainBatch(rows []row) []row {
	cycles := map[float64]float64{}
	most := math.NaN()
	for _, r := range rows {
		b := r.batch()
		if math.IsNaN(b) {
			continue
		}
		cycles[b] += r.cycles
		if math.IsNaN(most) || cycles[b] > cycles[most] || cycles[b] == cycles[most] && b < most {
			most = b
		}
	}
	if math.IsNaN(most) {
		return rows
	}
	var out []row
	for _, r := range rows {
		if r.batch() == most {
			out = append(out, r)
		}
	}
	return out
}
