package stats

import "math"

// Nest is one launch with the values of its runs.
type Nest struct {
	Round int
	Runs  []float64
}

// Medians reduces each launch to the median of its runs, which is the value that
// everything else here works with. A launch without runs is left out.
func Medians(nests []Nest) []Launch {
	var out []Launch
	for _, n := range nests {
		if len(n.Runs) > 0 {
			out = append(out, Launch{n.Round, Median(n.Runs)})
		}
	}
	return out
}

// Levels says at which level a cell's noise arises. Standard deviations are of
// logs, so about fractions of the value; NaN is unknown.
type Levels struct {
	Launches, Runs int
	Within         float64 // between runs of one launch; unknown when no launch has two
	Between        float64 // between launches, beyond what their runs explain; unknown below two launches
	Launch         float64 // between launches as compared: of their medians
}

// Split splits the noise of one cell into its levels by analysis of variance. When
// no launch has two runs, Between is as measured, the noise of a run included. A
// cell with a value that is not positive and finite has no levels.
func Split(nests []Nest) Levels {
	l := Levels{Within: math.NaN(), Between: math.NaN(), Launch: math.NaN()}
	var means []float64
	var sizes []int
	var ss float64
	var df int
	for _, n := range nests {
		logs, ok := logarithms(n.Runs)
		if !ok {
			l.Launches, l.Runs = 0, 0
			return l
		}
		if len(logs) == 0 {
			continue
		}
		mean, _ := moments(logs)
		means, sizes = append(means, mean), append(sizes, len(logs))
		ss += squares(logs)
		df += len(logs) - 1
		l.Runs += len(logs)
	}
	l.Launches = len(means)
	if df > 0 {
		l.Within = math.Sqrt(ss / float64(df))
	}
	if len(means) < 2 {
		return l
	}
	l.Launch = PoolNoise([][]float64{values(Medians(nests))}).SD
	if df == 0 {
		l.Between = l.Launch
		return l
	}
	// The mean square between launches expects Within^2 + size * Between^2, where
	// size is the common number of runs, a little below the mean if they differ.
	var grand, between, sizeSquares float64
	for i, m := range means {
		grand += float64(sizes[i]) * m / float64(l.Runs)
	}
	for i, m := range means {
		k := float64(sizes[i])
		between += k * (m - grand) * (m - grand)
		sizeSquares += k * k
	}
	groups := float64(len(means) - 1)
	size := (float64(l.Runs) - sizeSquares/float64(l.Runs)) / groups
	l.Between = math.Sqrt(math.Max(0, (between/groups-l.Within*l.Within)/size))
	return l
}
