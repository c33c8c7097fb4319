package experiments

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"

	"gopkg.in/yaml.v3"

	"specrun/experiments/record"
	"specrun/experiments/stats"
)

// ReadRule makes a metric of numbers in the server's log, for what an engine
// prints that specrun does not know.
type ReadRule struct {
	Metric string `json:"metric"`
	Unit   string `json:"unit,omitempty"`
	Line   string `json:"line"` // regular expression (RE2) over a line; its first group is the number
	// Of says what becomes of several numbers: median (the default), mean, sum,
	// min, max or last.
	Of string `json:"of,omitempty"`
}

// of are the words of ReadRule.Of.
var readOf = []string{"median", "mean", "sum", "min", "max", "last"}

var metricName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// read reads server.read: a list of rules, or one.
func (d *decoder) read(n *yaml.Node, name string, to *[]ReadRule) error {
	if n.Kind == yaml.MappingNode {
		return d.readRule(n, name, to)
	}
	return d.items(n, name, func(n *yaml.Node, name string) error { return d.readRule(n, name, to) })
}

func (d *decoder) readRule(n *yaml.Node, name string, to *[]ReadRule) error {
	var r ReadRule
	err := d.object(n, name, map[string]field{"metric": d.text(&r.Metric), "unit": d.text(&r.Unit), "line": d.text(&r.Line), "of": d.word(&r.Of, readOf...)})
	if err != nil {
		return err
	}
	if !metricName.MatchString(r.Metric) {
		return d.fail(n, join(name, "metric"), "for example metric: decode_rate", "%q is no name of a metric: small letters, digits and _", r.Metric)
	}
	if slices.ContainsFunc(*to, func(o ReadRule) bool { return o.Metric == r.Metric }) {
		return d.fail(n, join(name, "metric"), "one rule for each metric", "%s is read twice", r.Metric)
	}
	re, err := regexp.Compile(r.Line)
	switch {
	case err != nil:
		return d.fail(n, join(name, "line"), "a regular expression (RE2) over a line of the log", "%v", err)
	case re.NumSubexp() < 1:
		return d.fail(n, join(name, "line"), "put the number in brackets: 'eval time .* ([0-9.]+) tokens per second'", "has no group")
	}
	*to = append(*to, r)
	return nil
}

// fromLog applies the rules to the lines of a benchmark's part of the log; start
// is the offset of its first byte, from and to are the benchmark's cursors. A
// rule that no line matches has no metric.
func fromLog(rules []ReadRule, log []byte, start, from, to int64) (ms []record.Metric, samples []record.Sample, err error) {
	for _, r := range rules {
		re, err := regexp.Compile(r.Line)
		if err != nil {
			return nil, nil, fmt.Errorf("server.read %s: %w", r.Metric, err)
		}
		var values []float64
		at := start
		for line := range bytes.Lines(log) {
			end := at + int64(len(line))
			if at >= from && (to <= 0 || end <= to) {
				if m := re.FindSubmatch(bytes.TrimRight(line, "\r\n")); m != nil {
					if v, err := strconv.ParseFloat(string(m[1]), 64); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
						values = append(values, v)
						samples = append(samples, record.Sample{Name: r.Metric, Unit: r.Unit, Value: v, Source: "server_log"})
					}
				}
			}
			at = end
		}
		if len(values) > 0 {
			ms = append(ms, record.Metric{Name: r.Metric, Unit: r.Unit, Value: summary(values, r.Of), N: len(values), Source: "server_log"})
		}
	}
	return ms, samples, nil
}

func summary(values []float64, of string) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	switch of {
	case "sum":
		return sum
	case "mean":
		return sum / float64(len(values))
	case "min":
		return slices.Min(values)
	case "max":
		return slices.Max(values)
	case "last":
		return values[len(values)-1]
	}
	return stats.Median(values)
}
