package experiments

import (
	"io"
	"maps"
	"slices"
	"strconv"

	"specrun/experiments/metrics"
	"specrun/experiments/record"
	"specrun/experiments/stats"
)

// ReadLog reads an old log or benchmark output as runs, one for each server
// start in it (none when nothing is recognised). What the file does not say is
// absent: there is no provenance but the file's own kind.
func ReadLog(r io.Reader, name string) ([]record.RunData, error) {
	follower := metrics.NewFollower()
	parsed, err := metrics.Parse(io.TeeReader(r, chunks{follower}), name)
	if err != nil {
		return nil, err
	}
	follower.Close()
	starts := map[int]bool{}
	for _, s := range parsed.Extract {
		starts[runOf(s)] = true
	}
	rows, decode := follower.Rows(), follower.Decode()
	var runs []record.RunData
	for _, n := range slices.Sorted(maps.Keys(starts)) {
		data := record.RunData{
			Labels:     []record.Label{{Name: "imported", Reason: "read from " + name}},
			Provenance: []record.Fact{{Group: "workload", Key: "file", Value: name}, {Group: "code", Key: "engine", Value: parsed.Engine}},
		}
		ofRun := func(run int) bool { return len(starts) == 1 || run == n }
		var ours []metrics.ProfilerRow
		for _, row := range rows {
			if ofRun(row.Run) {
				ours = append(ours, row)
			}
		}
		var lines []metrics.DecodeLine
		for _, line := range decode {
			if ofRun(line.Run) {
				lines = append(lines, line)
			}
		}
		whole := metrics.Summarise(ours, lines, metrics.Window{})
		data.Metrics, data.Samples = append(whole.Metrics, slope(whole.Samples)...), whole.Samples
		if slices.ContainsFunc(ours, func(row metrics.ProfilerRow) bool { return row.Text }) {
			data.Labels = append(data.Labels, record.Label{Name: "total-unknown",
				Reason: "the log has text blocks only, which do not say what their TOTAL spans"})
		}
		addSeries(&data, parsed, n)
		runs = append(runs, data)
	}
	return runs, nil
}

// addSeries adds what Summarise does not know: benchmark results, as the median
// of what the file has.
func addSeries(data *record.RunData, parsed *metrics.Report, run int) {
	have := map[string]bool{}
	for _, m := range data.Metrics {
		have[m.Name] = true
	}
	if parsed.Kind != metrics.KindBench {
		return
	}
	for _, s := range parsed.Extract {
		if runOf(s) != run || have[s.Metric] {
			continue
		}
		var values []float64
		for i, v := range s.Values {
			f, ok := v.Float()
			if !ok {
				continue
			}
			values = append(values, f)
			data.Samples = append(data.Samples, record.Sample{Seq: i, Name: s.Metric, Unit: s.Unit, Value: f, Source: "import", Labels: s.Labels})
		}
		if len(values) > 0 {
			have[s.Metric] = true
			data.Metrics = append(data.Metrics, record.Metric{Name: s.Metric, Unit: s.Unit, Value: stats.Median(values), N: len(values), Source: "import"})
		}
	}
}

// runOf is the server start that a series belongs to, from 1; 0 when the file
// has one only.
func runOf(s metrics.Series) int {
	n, err := strconv.Atoi(s.Labels["run"])
	if err != nil {
		return 0
	}
	return n
}

// chunks feeds a follower what somebody else reads.
type chunks struct{ to *metrics.Follower }

func (c chunks) Write(p []byte) (int, error) {
	c.to.Write(p)
	return len(p), nil
}
