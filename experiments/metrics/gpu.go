package metrics

import (
	"regexp"
	"slices"
	"strings"
)

// nvidia-smi's own table and its --query-gpu CSV output.
var (
	reSMIHead   = regexp.MustCompile(`^\| NVIDIA-SMI \d`)
	reSMIMemory = regexp.MustCompile(`^\|.*?(?:(\d+)W|N/A) */ *(?:\d+W|N/A) *\| *(\d+)MiB */ *(\d+)MiB *\| *(?:(\d+)%|N/A)`)
	reSMIProc   = regexp.MustCompile(`^\| +\d+ +\S+ +\S+ +(\d+) +[CGM+]+ +(\S+) +(\d+)MiB *\|`)
	reSMICSV    = regexp.MustCompile(`^(?:index|name|uuid|timestamp|memory\.|utilization\.|power\.|pci\.|gpu_)[\w.]*(?: \[[^\]]+\])?(?:, ?[\w.]+(?: \[[^\]]+\])?)*$`)
)

// Words by which its output is known, without a regular expression.
var (
	nvmlWords      = []string{"Failed to initialize NVML", "NVML library version", "NVIDIA-SMI has failed"}
	smiColumnWords = []string{"memory.used", "memory.total", "memory.free", "memory.reserved", "utilization.gpu", "utilization.memory"}
)

// smiMemory is in every row of its table that holds a number.
const smiMemory = "MiB"

var smiColumns = map[string]metricName{
	"memory.used":     {"gpu_memory_used", "MiB"},
	"memory.total":    {"gpu_memory_total", "MiB"},
	"utilization.gpu": {"gpu_util", "percent"},
	"power.draw":      {"power_draw", "W"},
	"temperature.gpu": {"gpu_temperature", "C"},
	"clocks.sm":       {"clock_sm", "MHz"},
}

// gpuReader reads nvidia-smi output.
type gpuReader struct {
	seen    bool
	columns []string // of a CSV head
	bad     []int
}

func (r *gpuReader) read(e *entry, c *collector, run int) bool {
	if slices.ContainsFunc(nvmlWords, func(w string) bool { return strings.HasPrefix(e.msg, w) }) {
		r.seen = true
		return false // the crash reader names it
	}
	if reSMIHead.MatchString(e.msg) {
		r.seen = true
		return true
	}
	if containsAny(e.msg, smiColumnWords) && reSMICSV.MatchString(e.msg) {
		r.seen = true
		r.columns = nil
		for col := range strings.SplitSeq(e.msg, ",") {
			r.columns = append(r.columns, strings.TrimSpace(col))
		}
		return true
	}
	if r.columns != nil {
		return r.csv(e, c, run)
	}
	if !r.seen || !strings.HasPrefix(e.msg, "|") {
		return false
	}
	if m := reSMIMemory.FindStringSubmatch(e.msg); m != nil {
		r.cell(e, c, run, "power_draw", "W", m[1])
		r.cell(e, c, run, "gpu_memory_used", "MiB", m[2])
		r.cell(e, c, run, "gpu_memory_total", "MiB", m[3])
		r.cell(e, c, run, "gpu_util", "percent", m[4])
	} else if m := reSMIProc.FindStringSubmatch(e.msg); m != nil {
		r.cell(e, c, run, "gpu_pids", "pid", m[1])
	}
	return true
}

func (r *gpuReader) cell(e *entry, c *collector, run int, name, unit, text string) {
	if f, ok := parseNumber(text, 0); ok {
		c.add(e, run, sourceServer, name, unit, Number(f))
	} else {
		c.add(e, run, sourceServer, name, unit, Null())
	}
}

func (r *gpuReader) csv(e *entry, c *collector, run int) bool {
	cells := strings.Split(e.msg, ",")
	if len(cells) != len(r.columns) || !e.terminated && !strings.HasSuffix(strings.TrimSpace(e.msg), "%") && !strings.HasSuffix(e.msg, "W") && !strings.HasSuffix(e.msg, "MiB") {
		r.bad = append(r.bad, e.num)
		return true
	}
	for i, col := range r.columns {
		base, _, _ := strings.Cut(col, " ")
		name, ok := smiColumns[base]
		if !ok {
			continue
		}
		text := strings.TrimSpace(cells[i])
		if j := strings.IndexByte(text, ' '); j > 0 && isDigit(text[0]) {
			text = text[:j]
		}
		text = strings.TrimSuffix(text, "%")
		r.cell(e, c, run, name.name, name.unit, text)
	}
	return true
}
