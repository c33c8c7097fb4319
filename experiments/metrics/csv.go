package metrics

import (
	"encoding/csv"
	"slices"
	"strings"
)

var csvHeads = []string{"Metric,", `"Metric",`}

// csvReader reads the CSV exports of genai-perf and aiperf: tables whose head
// begins with "Metric".
type csvReader struct {
	engine  string
	columns []string
}

func (r *csvReader) read(e *entry, c *collector, run int) bool {
	if slices.ContainsFunc(csvHeads, func(w string) bool { return strings.HasPrefix(e.msg, w) }) {
		r.columns = csvCells(e.msg)
		if r.engine == "" {
			r.engine = engineGenAI
		}
		return true
	}
	if r.columns == nil {
		return false
	}
	cells := csvCells(e.msg)
	if len(cells) < 2 || len(cells) > len(r.columns) {
		return false
	}
	row, ok := statMetric(cells[0])
	if !ok {
		return true
	}
	if strings.Contains(cells[0], "Per User") || strings.Contains(strings.ToLower(cells[0]), "tokens/sec") {
		r.engine = engineAIPerf // genai-perf writes (per sec)
	}
	for i := 1; i < len(cells); i++ {
		column := r.columns[i]
		if strings.EqualFold(column, "value") {
			column = "avg"
		}
		addStat(e, run, c, row, column, cells[i])
	}
	return true
}

func csvCells(s string) []string {
	cells, err := csv.NewReader(strings.NewReader(s)).Read()
	if err != nil {
		return nil
	}
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}
