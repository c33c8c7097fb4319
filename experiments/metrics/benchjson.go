package metrics

import (
	"fmt"
	"regexp"
	"strings"
)

// Flat results of sglang.bench_serving, vllm bench serve and llm-optimizer.
var flatKeys = []struct {
	key string
	metricName
}{
	{"completed", metricName{"completed", "requests"}},
	{"failed", metricName{"failed", "requests"}},
	{"request_throughput", metricName{"request_throughput", "req/s"}},
	{"request_goodput", metricName{"request_goodput", "req/s"}},
	{"input_throughput", metricName{"input_throughput", "tok/s"}},
	{"output_throughput", metricName{"output_throughput", "tok/s"}},
	{"total_throughput", metricName{"total_throughput", "tok/s"}},
	{"total_token_throughput", metricName{"total_throughput", "tok/s"}},
	{"max_output_tokens_per_s", metricName{"peak_output_throughput", "tok/s"}},
	{"concurrency", metricName{"concurrency", "requests"}},
	{"max_concurrency", metricName{"max_concurrency", "requests"}},
	{"accept_length", metricName{"accept_len", "tokens/step"}},
	{"acc_length", metricName{"accept_len", "tokens/step"}},
	{"spec_decode_acceptance_length", metricName{"accept_len", "tokens/step"}},
	{"spec_decode_acceptance_rate", metricName{"draft_acceptance_rate", "percent"}},
	{"spec_decode_draft_tokens", metricName{"draft_tokens", "tokens"}},
	{"spec_decode_accepted_tokens", metricName{"accepted_tokens", "tokens"}},
	{"duration", metricName{"duration", "s"}},
	{"total_input_tokens", metricName{"total_input_tokens", "tokens"}},
	{"total_output_tokens", metricName{"total_output_tokens", "tokens"}},
}

var reFlatStat = regexp.MustCompile(`^(mean|median|std|p\d+|max|min)_(ttft|tpot|itl|e2el|e2e_latency)_ms$`)

// result reads one object.
func (d *document) result(m map[string]any, line int) {
	if res, ok := m["results"].(map[string]any); ok && m["config"] != nil {
		d.as(engineLLMOpt)
		asked := dig(m, "config", "client_args", "num_prompts")
		d.flat(res, line, asked)
		return
	}
	if list, ok := m["benchmarks"].([]any); ok {
		d.as(engineGuide)
		for _, b := range list {
			if b, ok := b.(map[string]any); ok {
				d.guide(b, line)
			}
		}
		return
	}
	if d.stats(m, line) {
		return
	}
	switch {
	case m["endpoint_type"] != nil || m["tokenizer_id"] != nil || hasPrefixKey(m, "spec_decode_") || m["total_token_throughput"] != nil && m["model_id"] != nil:
		d.as(engineVBench)
	case m["backend"] != nil && (m["output_throughput"] != nil || m["completed"] != nil), m["acc_length"] != nil:
		d.as(engineSGBench)
	default:
		return
	}
	d.flat(m, line, m["num_prompts"])
}

func (d *document) as(engine string) {
	d.known = true
	if d.engine == "" {
		d.engine = engine
	}
}

func (d *document) flat(m map[string]any, line int, asked any) {
	for _, k := range flatKeys {
		x, has := m[k.key]
		if !has {
			continue
		}
		if v, ok := cell(x); ok && !(x == nil && strings.Contains(k.key, "concurrency")) {
			d.put(line, k.name, k.unit, v)
		}
	}
	for _, key := range keysOf(m) {
		if s := reFlatStat.FindStringSubmatch(key); s != nil {
			name := s[2]
			if strings.HasPrefix(name, "e2e") {
				name = "request_latency"
			}
			if v, ok := cell(m[key]); ok {
				d.put(line, name+"_"+s[1], "ms", v)
			}
		}
	}
	if list, ok := m["spec_decode_per_position_acceptance_rates"].([]any); ok {
		for _, x := range list {
			if v, ok := cell(x); ok {
				d.put(line, "per_position_acceptance", "ratio", v)
			}
		}
	}
	done, ok1 := m["completed"].(float64)
	want, ok2 := asked.(float64)
	if ok1 && ok2 && done < want {
		d.warnings = append(d.warnings, fmt.Sprintf("line %d: partial_success %.0f/%.0f", line, done, want))
	}
}

// guideMetrics are guidellm's distributions, each with the statistics of the
// successful requests.
var guideMetrics = []struct {
	key string
	metricName
	single bool
}{
	{"requests_per_second", metricName{"request_throughput", "req/s"}, true},
	{"request_concurrency", metricName{"concurrency", "requests"}, true},
	{"output_tokens_per_second", metricName{"output_throughput", "tok/s"}, true},
	{"tokens_per_second", metricName{"total_throughput", "tok/s"}, true},
	{"request_latency", metricName{"request_latency", "s"}, false},
	{"time_to_first_token_ms", metricName{"ttft", "ms"}, false},
	{"inter_token_latency_ms", metricName{"itl", "ms"}, false},
	{"time_per_output_token_ms", metricName{"tpot_with_first", "ms"}, false}, // guidellm counts the first token too
}

func (d *document) guide(b map[string]any, line int) {
	metrics, _ := b["metrics"].(map[string]any)
	for _, g := range guideMetrics {
		dist, ok := dig(metrics, g.key, "successful").(map[string]any)
		if !ok {
			if dist, ok = metrics[g.key].(map[string]any); !ok {
				continue
			}
		}
		if g.single {
			d.stat(line, g.name, g.unit, dist["mean"])
			continue
		}
		d.stat(line, g.name+"_mean", g.unit, dist["mean"])
		d.stat(line, g.name+"_median", g.unit, dist["median"])
		d.stat(line, g.name+"_std", g.unit, dist["std_dev"])
		for _, p := range []string{"p50", "p90", "p95", "p99"} {
			d.stat(line, g.name+"_"+p, g.unit, dig(dist, "percentiles", p))
		}
	}
	d.stat(line, "completed", "requests", dig(metrics, "request_totals", "successful"))
	d.stat(line, "failed", "requests", dig(metrics, "request_totals", "errored"))
}

func (d *document) stat(line int, name, unit string, x any) {
	if v, ok := cell(x); ok && x != nil {
		d.put(line, name, unit, v)
	}
}

// statKeys are the objects of genai-perf's and aiperf's JSON export.
var statKeys = []struct {
	key string
	metricName
	single bool
}{
	{"time_to_first_token", metricName{"ttft", "ms"}, false},
	{"inter_token_latency", metricName{"itl", "ms"}, false},
	{"request_latency", metricName{"request_latency", "ms"}, false},
	{"output_token_throughput", metricName{"output_throughput", "tok/s"}, true},
	{"output_token_throughput_per_user", metricName{"output_throughput_per_user", "tok/s/user"}, true},
	{"request_throughput", metricName{"request_throughput", "req/s"}, true},
	{"request_count", metricName{"completed", "requests"}, true},
	{"error_request_count", metricName{"failed", "requests"}, true},
}

// stats reads an object of {"unit": .., "avg": .., "p99": ..} objects.
func (d *document) stats(m map[string]any, line int) bool {
	if rec, ok := m["records"].(map[string]any); ok {
		m = rec
	}
	found := false
	for _, k := range statKeys {
		obj, ok := m[k.key].(map[string]any)
		if !ok || obj["avg"] == nil {
			continue
		}
		found = true
		unit, _ := obj["unit"].(string)
		if k.single {
			d.stat(line, k.name, k.unit, obj["avg"])
			continue
		}
		scale := 1.0
		switch unit {
		case "s", "sec":
			scale = 1000
		case "us":
			scale = 0.001
		case "ns":
			scale = 1e-6
		}
		for _, col := range []string{"avg", "std", "min", "max", "p50", "p90", "p95", "p99"} {
			if f, ok := obj[col].(float64); ok {
				d.put(line, k.name+"_"+statColumns[col], k.unit, Number(f*scale))
			}
		}
	}
	if found {
		engine := engineGenAI
		if m["schema_version"] != nil || m["aiperf_version"] != nil || m["output_token_throughput_per_user"] != nil && m["input_config"] != nil {
			engine = engineAIPerf
		}
		d.as(engine)
	}
	return found
}

// dig follows keys through objects; nil when one is missing.
func dig(x any, keys ...string) any {
	for _, k := range keys {
		m, ok := x.(map[string]any)
		if !ok {
			return nil
		}
		x = m[k]
	}
	return x
}
