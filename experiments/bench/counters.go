package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// counterNames are the counters of a server's /metrics that matter, by their
// names there without the "_total" that most exporters add, and what a report
// calls them.
var counterNames = map[string]string{
	"sglang:generation_tokens":             "generation_tokens",
	"sglang:prompt_tokens":                 "prompt_tokens",
	"sglang:cached_tokens":                 "cached_tokens",
	"sglang:num_requests":                  "requests",
	"sglang:spec_verify_calls":             "spec_verify_calls",
	"vllm:generation_tokens":               "generation_tokens",
	"vllm:prompt_tokens":                   "prompt_tokens",
	"vllm:prefix_cache_hits":               "cached_tokens",
	"vllm:request_success":                 "requests",
	"vllm:num_preemptions":                 "preemptions",
	"vllm:spec_decode_num_drafts":          "spec_verify_calls",
	"vllm:spec_decode_num_draft_tokens":    "spec_draft_tokens",
	"vllm:spec_decode_num_accepted_tokens": "spec_accepted_tokens",
	// One for each position of a draft, from 0, which is added to the name.
	"vllm:spec_decode_num_accepted_tokens_per_pos": positionCounter,
}

const positionCounter = "spec_accepted_pos_"

// counterWait bounds one reading of /metrics, and counterMost its size: a
// benchmark does not wait for what it can do without.
const (
	counterWait = 5 * time.Second
	counterMost = 32 << 20
)

// readCounters reads the server's counters. Without /metrics (SGLang has it
// with --enable-metrics only) it is nil without an error.
func (c *client) readCounters(ctx context.Context) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, counterWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(c.job.BaseURL, "/")+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		_, err := io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be used again
		return nil, err
	}
	return parseCounters(io.LimitReader(resp.Body, counterMost))
}

// parseCounters reads the known counters of a Prometheus text, summed over
// their labels. Lines that it cannot read are passed over; an engine or a
// data-parallel rank has tokens of its own, while the ranks of one tensor- or
// pipeline-parallel group all count the same ones, so only the first counts.
func parseCounters(r io.Reader) (map[string]float64, error) {
	out := map[string]float64{}
	lines := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := lines.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			for err == bufio.ErrBufferFull { // no counter has such a line
				_, err = lines.ReadSlice('\n')
			}
			line = nil
		}
		if name, v, ok := parseCounter(string(line)); ok {
			out[name] += v
		}
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func parseCounter(line string) (name string, v float64, ok bool) {
	line = strings.TrimSpace(line)
	end := strings.IndexAny(line, "{ \t")
	if end < 0 {
		return "", 0, false
	}
	name, ok = counterNames[strings.TrimSuffix(line[:end], "_total")]
	if !ok {
		return "", 0, false
	}
	rest := strings.TrimLeft(line[end:], " \t")
	if strings.HasPrefix(rest, "{") {
		labels, after, whole := parseLabels(rest[1:])
		if !whole {
			return "", 0, false
		}
		for _, rank := range []string{"tp_rank", "pp_rank"} {
			if n := labels[rank]; n != "" && n != "0" {
				return "", 0, false
			}
		}
		if name == positionCounter {
			if _, err := strconv.Atoi(labels["position"]); err != nil {
				return "", 0, false
			}
			name += labels["position"]
		}
		rest = after
	}
	fields := strings.Fields(rest) // a time stamp may follow the value
	if len(fields) == 0 {
		return "", 0, false
	}
	v, err := strconv.ParseFloat(fields[0], 64)
	return name, v, err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
}

// parseLabels reads labels up to their closing brace; whole is false when there
// is none.
func parseLabels(s string) (labels map[string]string, rest string, whole bool) {
	labels = map[string]string{}
	for {
		s = strings.TrimLeft(s, ", \t")
		if after, closed := strings.CutPrefix(s, "}"); closed {
			return labels, after, true
		}
		key, value, found := strings.Cut(s, "=")
		value = strings.TrimLeft(value, " \t")
		if !found || !strings.HasPrefix(value, `"`) {
			return nil, "", false
		}
		end := 1
		for end < len(value) && value[end] != '"' {
			if value[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(value) {
			return nil, "", false
		}
		labels[strings.TrimSpace(key)] = value[1:end]
		s = value[end+1:]
	}
}

// counted is what the counters rose by. A counter that went back says that the
// server was restarted, and what happened before is not known.
func counted(before, after map[string]float64) (delta map[string]float64, restarted error) {
	delta = map[string]float64{}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		delta[name] = after[name] - before[name] // one that was not there yet had counted nothing
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if now, ok := after[name]; !ok || now < before[name] {
			return nil, fmt.Errorf("the server's counter %s went from %.0f to %.0f: it was restarted during the benchmark", name, before[name], now)
		}
	}
	return delta, nil
}
