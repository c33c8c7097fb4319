package metrics

import (
	"regexp"
	"strings"
)

// Box-drawn result tables of guidellm, genai-perf and aiperf.

// tableReader reads one table after the other: a head row names the columns,
// data rows follow. A label may go on in the next row, where all other cells
// are empty.
type tableReader struct {
	engine   string
	columns  []string
	walls    []int
	pending  *tableRow
	sawTable bool
}

type tableRow struct {
	e     entry
	run   int
	cells []string
}

var (
	boxWalls   = []string{"│", "┃"}
	guideWords = []string{"guidellm", "GuideLLM", "Guidellm", "GUIDELLM", "Performance Summary by Benchmark"}
	tableWords = append([]string{"NVIDIA AIPerf", "NVIDIA GenAI-Perf"}, guideWords...)
)

var (
	reParen    = regexp.MustCompile(`\(([^)]*)\)\s*$`)
	reCellUnit = regexp.MustCompile(`^([-+]?[\d.,]+(?:[eE][-+]?\d+)?)\s*([A-Za-z/]+)?$`)
)

// read takes one line; data rows are stored one row late, when it is known
// that the next one does not continue them.
func (r *tableReader) read(e *entry, c *collector, run int) bool {
	switch {
	case strings.Contains(e.msg, "NVIDIA AIPerf"):
		r.engine = engineAIPerf
	case strings.Contains(e.msg, "NVIDIA GenAI-Perf"):
		r.engine = engineGenAI
	case containsAny(e.msg, guideWords):
		if r.engine == "" {
			r.engine = engineGuide
		}
	}
	if !strings.ContainsAny(e.msg, "│┃") {
		r.flush(c)
		return false
	}
	if strings.ContainsAny(e.msg, "┏┡└┗├┌╇┳╭╰━─") && !strings.ContainsAny(strings.Trim(e.msg, "│┃ "), "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		r.flush(c)
		if strings.ContainsAny(e.msg, "┏") {
			r.columns, r.walls = nil, nil
		}
		return true
	}
	if w := walls(e.text); len(w) > 1 {
		r.walls = w
		r.head(cutAt(e.text, w))
		return true
	}
	cells := cutAt(e.text, r.walls)
	if len(r.columns) == 0 || len(cells) != len(r.columns) {
		r.flush(c)
		return r.sawTable
	}
	if r.pending != nil && continues(cells) {
		for i, s := range cells {
			r.pending.cells[i] = strings.TrimSpace(r.pending.cells[i] + " " + s)
		}
		return true
	}
	r.flush(c)
	r.pending = &tableRow{e: *e, run: run, cells: cells}
	return true
}

// head takes a head row; a head may go on in a second row.
func (r *tableReader) head(cells []string) {
	r.sawTable = true
	if len(r.columns) == len(cells) {
		for i := range cells {
			r.columns[i] = strings.TrimSpace(r.columns[i] + " " + cells[i])
		}
		return
	}
	r.columns = cells
	if r.engine == "" && strings.EqualFold(cells[0], "Statistic") {
		r.engine = engineGenAI
	}
	if r.engine == "" && strings.EqualFold(cells[0], "Metric") {
		r.engine = engineAIPerf
	}
}

// walls are the positions, in runes, of the heavy walls of a head row. Data rows
// are cut at the same positions, so that frames around the table don't matter.
func walls(head string) []int {
	var out []int
	n := 0
	for _, c := range head {
		if c == '┃' {
			out = append(out, n)
		}
		n++
	}
	return out
}

// cutAt gives the cells between the walls; nil when the row has none there.
func cutAt(s string, walls []int) []string {
	runes := []rune(s)
	if len(walls) < 2 || len(runes) <= walls[len(walls)-1] {
		return nil
	}
	var out []string
	for i, w := range walls {
		if c := runes[w]; c != '│' && c != '┃' {
			return nil
		}
		if i > 0 {
			out = append(out, strings.TrimSpace(string(runes[walls[i-1]+1:w])))
		}
	}
	return out
}

func continues(cells []string) bool {
	for _, s := range cells[1:] {
		if s != "" {
			return false
		}
	}
	return cells[0] != ""
}

// flush stores the pending row.
func (r *tableReader) flush(c *collector) {
	row := r.pending
	r.pending = nil
	if row == nil {
		return
	}
	if r.engine == engineGuide {
		for i := 1; i < len(row.cells); i++ {
			guideCell(row, c, r.columns[i], row.cells[i])
		}
		return
	}
	name, ok := statMetric(row.cells[0])
	if !ok {
		return
	}
	for i := 1; i < len(row.cells); i++ {
		addStat(&row.e, row.run, c, name, r.columns[i], row.cells[i])
	}
}

// guideColumns are the columns of guidellm's table; the unit stands in the cell.
var guideColumns = map[string]metricName{
	"requests per second":     {"request_throughput", "req/s"},
	"request latency":         {"request_latency_mean", ""},
	"time to first token":     {"ttft_mean", "ms"},
	"inter token latency":     {"itl_mean", "ms"},
	"output token throughput": {"output_throughput", "tok/s"},
	"output tok/sec":          {"output_throughput", "tok/s"},
	"total tok/sec":           {"total_throughput", "tok/s"},
}

func guideCell(row *tableRow, c *collector, column, cell string) {
	name, ok := guideColumns[strings.ToLower(column)]
	if !ok {
		return
	}
	m := reCellUnit.FindStringSubmatch(cell)
	if m == nil {
		if absent(cell) {
			c.add(&row.e, row.run, sourceClient, name.name, name.unit, Null())
		}
		return
	}
	shift := 0
	switch unit := strings.ToLower(m[2]); {
	case name.unit == "" && (unit == "sec" || unit == "s"):
		name.unit = "s"
	case name.unit == "":
		name.unit = "ms"
	case name.unit == "ms" && (unit == "sec" || unit == "s"):
		shift = 3
	}
	if f, ok := parseNumber(m[1], shift); ok {
		c.add(&row.e, row.run, sourceClient, name.name, name.unit, Number(f))
	}
}

// statNames are the rows of genai-perf and aiperf; names without a statistic
// suffix hold one number only, in the column "avg".
var statNames = map[string]struct {
	metricName
	single bool
}{
	"time to first token":              {metricName{"ttft", "ms"}, false},
	"time to second token":             {metricName{"ttst", "ms"}, false},
	"inter token latency":              {metricName{"itl", "ms"}, false},
	"request latency":                  {metricName{"request_latency", "ms"}, false},
	"output token throughput":          {metricName{"output_throughput", "tok/s"}, true},
	"output token throughput per user": {metricName{"output_throughput_per_user", "tok/s/user"}, true},
	"request throughput":               {metricName{"request_throughput", "req/s"}, true},
	"request count":                    {metricName{"completed", "requests"}, true},
	"error request count":              {metricName{"failed", "requests"}, true},
	"total token throughput":           {metricName{"total_throughput", "tok/s"}, true},
	"output sequence length":           {metricName{"output_len", "tokens"}, false},
	"input sequence length":            {metricName{"input_len", "tokens"}, false},
}

type statRow struct {
	metricName
	single bool
	shift  int
}

// statMetric reads a row label such as "Time to First Token (ms)".
func statMetric(label string) (statRow, bool) {
	unit := ""
	if m := reParen.FindStringSubmatch(label); m != nil {
		unit = strings.ToLower(strings.TrimSpace(m[1]))
		label = strings.TrimSpace(label[:len(label)-len(m[0])])
	}
	n, ok := statNames[strings.ToLower(strings.Join(strings.Fields(label), " "))]
	if !ok {
		return statRow{}, false
	}
	row := statRow{n.metricName, n.single, 0}
	if row.unit == "ms" {
		switch unit {
		case "s", "sec":
			row.shift = 3
		case "us":
			row.shift = -3
		case "ns":
			row.shift = -6
		}
	}
	return row, true
}

var statColumns = map[string]string{"avg": "mean", "mean": "mean", "min": "min", "max": "max", "std": "std", "median": "median",
	"p99": "p99", "p95": "p95", "p90": "p90", "p75": "p75", "p50": "p50", "p25": "p25"}

func addStat(e *entry, run int, c *collector, row statRow, column, cell string) {
	suffix, ok := statColumns[strings.ToLower(column)]
	if !ok {
		return
	}
	name := row.name + "_" + suffix
	if row.single {
		if suffix != "mean" {
			return
		}
		name = row.name
	}
	if f, ok := parseNumber(cell, row.shift); ok {
		c.add(e, run, sourceClient, name, row.unit, Number(f))
	} else if absent(cell) && suffix == "mean" {
		c.add(e, run, sourceClient, name, row.unit, Null())
	}
}
