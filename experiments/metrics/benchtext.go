package metrics

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// The result block that sglang.bench_serving and vllm bench serve print.
var (
	reBlockHead = regexp.MustCompile(`^=+ .*(?:Serving|Benchmark|Throughput).* Result =+`)
	reBlockEnd  = regexp.MustCompile(`^={20,}$`)
	reBlockRow  = regexp.MustCompile(`^[ \t]*([A-Z][A-Za-z0-9 /()%,._-]*?):[ \t]+(\S.*?)[ \t]*$`)
	reProgress  = regexp.MustCompile(`\| ?(\d+)/(\d+) \[`)
	reStatMs    = regexp.MustCompile(`^(Mean|Median|Std|P\d+(?:\.\d+)?|Max|Min) (TTFT|TPOT|ITL|E2EL|E2E Latency) \(ms\)$`)
	rePosition  = regexp.MustCompile(`^Position \d+$`)
	reNumPrompt = regexp.MustCompile(`\bnum_prompts=(\d+)`)
)

var benchRows = map[string]metricName{
	"Successful requests":                  {"completed", "requests"},
	"Failed requests":                      {"failed", "requests"},
	"Request throughput (req/s)":           {"request_throughput", "req/s"},
	"Input token throughput (tok/s)":       {"input_throughput", "tok/s"},
	"Output token throughput (tok/s)":      {"output_throughput", "tok/s"},
	"Total token throughput (tok/s)":       {"total_throughput", "tok/s"},
	"Total Token throughput (tok/s)":       {"total_throughput", "tok/s"},
	"Peak output token throughput (tok/s)": {"peak_output_throughput", "tok/s"},
	"Last generation throughput (tok/s)":   {"last_gen_throughput", "tok/s"},
	"Concurrency":                          {"concurrency", "requests"},
	"Max request concurrency":              {"max_concurrency", "requests"},
	"Max reqeuest concurrency":             {"max_concurrency", "requests"},
	"Maximum request concurrency":          {"max_concurrency", "requests"},
	"Accept length":                        {"accept_len", "tokens/step"},
	"Acceptance length":                    {"accept_len", "tokens/step"},
	"Acceptance rate (%)":                  {"draft_acceptance_rate", "percent"},
	"Accepted tokens":                      {"accepted_tokens", "tokens"},
	"Draft tokens":                         {"draft_tokens", "tokens"},
	"Benchmark duration (s)":               {"duration", "s"},
	"Total input tokens":                   {"total_input_tokens", "tokens"},
	"Total generated tokens":               {"total_output_tokens", "tokens"},
	"Request goodput (req/s)":              {"request_goodput", "req/s"},
}

var benchLatency = map[string]string{"TTFT": "ttft", "TPOT": "tpot", "ITL": "itl", "E2EL": "request_latency", "E2E Latency": "request_latency"}

// clientWords are in the lines of a client outside its result block.
var clientWords = []string{"Namespace(", "100%", "#Input tokens:", "Starting warmup with ", "benchmark_args=",
	"Starting initial single prompt test run", "Starting main benchmark run"}

// benchReader reads result blocks of the two serving benchmarks.
type benchReader struct {
	seen     bool // a block's head
	sglang   bool
	vllm     bool
	client   bool // words of a benchmark client outside a block
	inBlock  bool
	headLine int
	asked    int // requests that were asked for, 0 unknown
	done     float64
	failed   bool
	warnings []string
}

func (r *benchReader) read(e *entry, c *collector, run int) bool {
	if strings.HasPrefix(e.msg, "===") && reBlockHead.MatchString(e.msg) {
		r.seen, r.inBlock, r.headLine = true, true, e.num
		r.done, r.failed = nan, false
		return true
	}
	if e.num > r.headLine+blockLines {
		r.inBlock = false // its end was cut off
	}
	if !r.inBlock {
		return r.outside(e)
	}
	if reBlockEnd.MatchString(e.msg) {
		r.endBlock()
		return true
	}
	if strings.HasPrefix(e.msg, "---") {
		r.vllm = r.vllm || strings.Contains(e.msg, "Speculative Decoding") || strings.Contains(e.msg, "excl. 1st token")
		return true
	}
	m := reBlockRow.FindStringSubmatch(e.msg)
	if m == nil || !e.terminated && m[2] != "" && !strings.HasSuffix(e.msg, " ") {
		return m != nil
	}
	r.row(e, c, run, m[1], m[2])
	return true
}

func (r *benchReader) row(e *entry, c *collector, run int, label, text string) {
	switch label {
	case "Backend":
		r.sglang = true
		return
	case "Traffic request rate", "Max reqeuest concurrency", "Max request concurrency":
		r.sglang = true
	case "Request rate configured (RPS)", "Maximum request concurrency", "Failed requests", "Peak concurrent requests", "Acceptance length":
		r.vllm = true
	}
	name, ok := benchRows[label]
	if m := reStatMs.FindStringSubmatch(label); m != nil {
		name, ok = metricName{benchLatency[m[2]] + "_" + strings.ToLower(m[1]), "ms"}, true
	}
	if rePosition.MatchString(label) {
		name, ok = metricName{"per_position_acceptance", "percent"}, true
	}
	if !ok {
		return
	}
	f, isNumber := parseNumber(strings.TrimSuffix(text, "%"), 0)
	if !isNumber {
		if absent(text) && name.name != "max_concurrency" {
			c.add(e, run, sourceClient, name.name, name.unit, Null())
		}
		return
	}
	switch name.name {
	case "completed":
		r.done = f
	case "failed":
		r.failed = true
	}
	c.add(e, run, sourceClient, name.name, name.unit, Number(f))
}

// endBlock compares what was asked for with what succeeded: older clients count
// successes only and say nothing of the rest.
func (r *benchReader) endBlock() {
	r.inBlock = false
	if r.asked > 0 && r.done < float64(r.asked) {
		r.warnings = append(r.warnings, fmt.Sprintf("partial_success %d/%d", int(r.done), r.asked))
	}
	r.asked = 0
}

func (r *benchReader) outside(e *entry) bool {
	if strings.Contains(e.msg, "Namespace(") {
		if m := reNumPrompt.FindStringSubmatch(e.msg); m != nil {
			r.asked, _ = strconv.Atoi(m[1])
			r.client = true
			return true
		}
	}
	if strings.HasPrefix(e.msg, "100%") {
		if m := reProgress.FindStringSubmatch(e.msg); m != nil && m[1] == m[2] {
			r.asked, _ = strconv.Atoi(m[2])
		}
		return false
	}
	if strings.HasPrefix(e.msg, "#Input tokens:") || strings.HasPrefix(e.msg, "Starting warmup with ") || strings.HasPrefix(e.msg, "benchmark_args=") {
		r.client, r.sglang = true, true
		return true
	}
	if strings.HasPrefix(e.msg, "Starting initial single prompt test run") || strings.HasPrefix(e.msg, "Starting main benchmark run") {
		r.client, r.vllm = true, true
		return true
	}
	return false
}

func (r *benchReader) engine() string {
	switch {
	case r.sglang:
		return engineSGBench
	case r.vllm:
		return engineVBench
	case r.seen:
		return engineSGBench
	}
	return ""
}
