package metrics

import (
	"math"
	"regexp"
	"strings"
)

// Fields of vLLM's interval lines, by label: order and presence differ between
// versions.
var (
	reVEngine = regexp.MustCompile(`^(?:Engine (\d+): )?Avg prompt throughput: `)
	reVSpec   = regexp.MustCompile(`^SpecDecoding metrics: `)
	reVSpecV0 = regexp.MustCompile(`^Speculative metrics: `)
	reVNumber = regexp.MustCompile(`(?i)[-+]?(?:\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?|nan|inf)`)
)

var vllmFields = map[string]metricName{
	"Avg prompt throughput":          {"prompt_throughput", "tok/s"},
	"Avg generation throughput":      {"gen_throughput", "tok/s"},
	"Running":                        {"running_req", "requests"},
	"Waiting":                        {"queue_req", "requests"},
	"Pending":                        {"queue_req", "requests"},
	"GPU KV cache usage":             {"kv_cache_usage", "percent"},
	"Prefix cache hit rate":          {"prefix_cache_hit_rate", "percent"},
	"Mean acceptance length":         {"accept_len", "tokens/step"},
	"Accepted throughput":            {"accepted_throughput", "tok/s"},
	"Drafted throughput":             {"drafted_throughput", "tok/s"},
	"Accepted":                       {"accepted_tokens", "tokens"},
	"Drafted":                        {"draft_tokens", "tokens"},
	"Per-position acceptance rate":   {"per_position_acceptance", "ratio"},
	"Draft acceptance rate":          {"draft_acceptance_rate", "percent"},
	"Avg Draft acceptance rate":      {"draft_acceptance_rate", "percent"},
	"Number of accepted tokens":      {"accepted_tokens", "tokens"},
	"Number of draft tokens":         {"draft_tokens", "tokens"},
	"Number of emitted tokens":       {"emitted_tokens", "tokens"},
	"System efficiency":              {"system_efficiency", "ratio"},
	"Number of speculative tokens":   {"speculative_tokens", "tokens"},
	"GPU prefix cache hit rate":      {"prefix_cache_hit_rate", "percent"},
	"Prefix cache hit rate GPU":      {"prefix_cache_hit_rate", "percent"},
	"External prefix cache hit rate": {"external_prefix_cache_hit_rate", "percent"},
}

// vllmReader reads vLLM's interval lines. A SpecDecoding line has no engine
// number; it belongs to the engine line just before it of the same process.
type vllmReader struct {
	seen   bool
	torn   int
	cut    bool
	engine map[stream]string
	lines  []SpecLine
}

func (r *vllmReader) read(e *entry, c *collector, run int) bool {
	key := e.stream
	key.engine = ""
	var head string
	v0 := false
	if m := reVEngine.FindStringSubmatch(e.msg); m != nil {
		if r.engine == nil {
			r.engine = map[stream]string{}
		}
		r.engine[key] = m[1]
		if m[1] != "" {
			head = "Engine " + m[1] + ": "
		}
	} else if h := reVSpec.FindString(e.msg); h != "" {
		head = h
	} else if h := reVSpecV0.FindString(e.msg); h != "" {
		head, v0 = h, true
	} else {
		return false
	}
	r.seen = true
	if e.torn || !e.terminated && !strings.HasSuffix(strings.TrimSpace(e.msg), "%") && !strings.HasSuffix(strings.TrimSpace(e.msg), ".") {
		r.torn++
		r.cut = r.cut || !e.terminated
		return true
	}
	spec := SpecLine{Offset: e.start, End: e.end, At: e.at, AcceptLen: math.NaN()}
	own := *e
	own.engine = r.engine[key]
	for _, f := range labelled(e.msg[len(head):]) {
		m, ok := vllmFields[f.key]
		if !ok {
			continue
		}
		if v0 && m.name == "draft_acceptance_rate" {
			m.unit = "ratio"
		}
		numbers := reVNumber.FindAllString(strings.ReplaceAll(f.value, ", ", "  "), -1)
		if m.name != "per_position_acceptance" && len(numbers) > 1 {
			numbers = numbers[:1]
		}
		for _, n := range numbers {
			if v, ok := parseNumber(n, 0); ok {
				c.add(&own, run, sourceServer, m.name, m.unit, Number(v))
				spec.set(m.name, v)
			}
		}
	}
	if !v0 && strings.HasPrefix(head, "SpecDecoding") {
		r.lines = append(r.lines, spec)
	}
	return true
}

// set takes one number of the line.
func (l *SpecLine) set(metric string, v float64) {
	switch metric {
	case "accepted_tokens":
		l.Accepted = v
	case "draft_tokens":
		l.Drafted = v
	case "accept_len":
		l.AcceptLen = v
	case "per_position_acceptance":
		if math.IsNaN(v) {
			v = 0
		}
		l.Positions = append(l.Positions, v)
	}
}

// labelled splits "Label: value unit, Label: a, b, c": a new label begins after
// a comma with a capital letter.
func labelled(s string) []fieldPair {
	var out []fieldPair
	for part := range strings.SplitSeq(s, ", ") {
		k, v, ok := strings.Cut(part, ": ")
		if !ok {
			if n := len(out); n > 0 {
				out[n-1].value += ", " + part
			}
			continue
		}
		out = append(out, fieldPair{strings.TrimSpace(k), v})
	}
	return out
}
