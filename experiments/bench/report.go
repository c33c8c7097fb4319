package bench

import (
	"encoding/json"
	"math"
	"slices"
	"time"

	"specrun/experiments/record"
)

// Schema is the version of the report's JSON. 2 added warm-up, steady window,
// counters and positions; what reads 2 reads 1.
const Schema = 2

// Report is the outcome of one job. Times are microseconds since the epoch on
// the clock of whoever did the work, advanced by its monotonic clock.
type Report struct {
	Schema int `json:"schema"`
	Job    Job `json:"job"`

	StartUs int64 `json:"start_us"` // before the first request
	EndUs   int64 `json:"end_us"`   // last token of the last request

	// LogStart and LogEnd are the server log's size right before the first
	// request and after the last response; -1 when it could not be read.
	LogStart int64 `json:"log_start"`
	LogEnd   int64 `json:"log_end"`

	Requests  []Request `json:"requests"`
	Completed int       `json:"completed"`
	Failed    int       `json:"failed"`
	Stalled   bool      `json:"stalled"` // ended because no token came for Job.Stall

	Warmup       *Warmup `json:"warmup,omitempty"` // nil when this job had none
	WarmupFailed int     `json:"warmup_failed"`    // of the warm-up before the measured requests
	WarmupError  string  `json:"warmup_error,omitempty"`

	// The steady part: ramp and drain cut off by SteadyRule. Both times are 0 when
	// there is none, and the rule says why.
	SteadyStartUs int64  `json:"steady_start_us,omitempty"`
	SteadyEndUs   int64  `json:"steady_end_us,omitempty"`
	SteadyRule    string `json:"steady_rule,omitempty"`

	// ClientStalledMs is how long in the measured part the client itself was not
	// run: stopped, or without a CPU. Standstills of up to 200 ms are not counted.
	// It means nothing unless ClientWatched, which older workers do not set.
	ClientWatched   bool    `json:"client_watched,omitempty"`
	ClientStalledMs float64 `json:"client_stalled_ms,omitempty"`

	// ServerCounters are what the counters of the server's /metrics rose by from
	// before the first request until after the last: generation_tokens,
	// prompt_tokens, cached_tokens, requests, preemptions, spec_verify_calls,
	// spec_draft_tokens, spec_accepted_tokens, spec_accepted_pos_N of the position
	// N of a draft from 0, each only when the server has it.
	// Nil without /metrics, and when Restarted.
	ServerCounters map[string]float64 `json:"server_counters,omitempty"`
	Restarted      bool               `json:"restarted,omitempty"` // a counter went back

	PromptsSHA string        `json:"prompts_sha"` // of the prompts in order
	OutputsSHA string        `json:"outputs_sha"` // of the outputs in order; "" when a request failed
	Duration   time.Duration `json:"duration_ns"`
	Notes      []string      `json:"notes,omitempty"` // what went wrong without failing a request

	Surroundings
}

// Request is one request as the client saw it.
type Request struct {
	Index        int     `json:"index"`
	StartUs      int64   `json:"start_us"`
	FirstTokenUs int64   `json:"first_token_us"` // 0 = none came
	EndUs        int64   `json:"end_us"`         // last token; of a failed request the moment it failed
	ChunkUs      []int64 `json:"chunk_us"`       // arrival of each chunk with text, since StartUs

	// Positions are how far the request was when, at multiples of 32 tokens after
	// its first and at its end; none when it came in a single chunk or failed.
	Positions     []Position `json:"positions,omitempty"`
	PositionsFrom string     `json:"positions_from,omitempty"` // FromUsage or FromChunks

	OutputTokens    int `json:"output_tokens"`    // from the server's usage record; -1 unknown
	PromptTokens    int `json:"prompt_tokens"`    // -1 unknown
	CachedTokens    int `json:"cached_tokens"`    // -1 unknown
	ReasoningTokens int `json:"reasoning_tokens"` // -1 unknown; part of OutputTokens

	Finish    string `json:"finish,omitempty"` // stop, length
	Error     string `json:"error,omitempty"`  // not empty: failed, left out of all averages
	PromptSHA string `json:"prompt_sha"`
	OutputSHA string `json:"output_sha,omitempty"`
	Output    string `json:"output,omitempty"` // reasoning and answer as streamed, up to maxOutput bytes

	// Server is what the response said about this request beyond the standard
	// fields: SGLang's meta_info or sglext, as sent.
	Server json.RawMessage `json:"server,omitempty"`
	// VerifyCalls is the server's number of verify steps of this request; -1
	// unknown.
	VerifyCalls int `json:"verify_calls"`
}

// maxOutput bounds the text kept of one request.
const maxOutput = 256 << 10

// Source names of the metrics.
const (
	sourceClient     = "client"
	sourcePerRequest = "per_request"
)

func (q *Request) ok() bool { return q.Error == "" }

// Metrics are the client's numbers. Failed requests only count in "failed"; what
// no request can give is absent.
//
// output_throughput is output tokens over the time from the first start to the
// last token. tpot_* are statistics over requests of (end - first token) over
// (output tokens - 1); tpot is the same as one ratio of sums, so each token
// weighs the same. itl_* are gaps between chunks, and with speculation one chunk
// may carry several tokens: itl is per chunk, tpot per token. A request of
// several tokens in one chunk says nothing about the time of a token.
// steady_throughput is output tokens behind each request's first in the steady
// window over its length, at concurrency 1 over the time from first to last
// tokens; it holds the prefills of the requests that join. tpot_undisturbed, with
// several requests at once, is the time per token in that window while no request
// waited for its first one.
func (r Report) Metrics() []record.Metric {
	var out []record.Metric
	put := func(name, unit string, v float64, n int) {
		out = append(out, record.Metric{Name: name, Unit: unit, Value: v, N: n, Source: sourceClient})
	}
	done := r.done()
	put("completed", "requests", float64(len(done)), len(r.Requests))
	put("failed", "requests", float64(len(r.Requests)-len(done)), len(r.Requests))
	if len(done) == 0 {
		return out
	}
	t := total(done)
	if sec := t.seconds(); sec > 0 {
		put("duration", "s", sec, 1)
		put("output_throughput", "tok/s", float64(t.output)/sec, len(done))
		put("request_throughput", "req/s", float64(len(done))/sec, len(done))
		put("concurrency", "requests", t.busy/sec, len(done))
		if t.prompt >= 0 {
			put("input_throughput", "tok/s", float64(t.prompt)/sec, len(done))
			put("total_throughput", "tok/s", float64(t.prompt+t.output)/sec, len(done))
		}
	}
	put("max_concurrency", "requests", float64(r.Job.Concurrency), 1)
	put("total_output_tokens", "tokens", float64(t.output), len(done))
	if t.prompt >= 0 {
		put("total_input_tokens", "tokens", float64(t.prompt), len(done))
	}
	if t.cached >= 0 {
		put("cached_tokens", "tokens", float64(t.cached), len(done))
	}
	if t.after > 0 {
		put("tpot", "ms", t.decode*1000/float64(t.after), len(t.tpot))
	}
	if v, n := r.steadyThroughput(); n > 0 {
		put("steady_throughput", "tok/s", v, n)
	}
	if v, n := r.undisturbedTPOT(); n > 0 {
		put("tpot_undisturbed", "ms", v, n)
	}
	out = append(out, statistics("ttft", t.ttft)...)
	out = append(out, statistics("tpot", t.tpot)...)
	out = append(out, statistics("itl", t.itl)...)
	out = append(out, statistics("request_latency", t.latency)...)
	if t.verify > 0 {
		// The first token comes from the prefill, so it is no verify step's.
		out = append(out, record.Metric{Name: "accept_len", Unit: "tokens/step", Value: float64(t.verified) / float64(t.verify), N: t.verify, Source: sourcePerRequest})
	}
	return append(out, r.GPUMetrics()...)
}

func (r Report) done() []Request {
	var out []Request
	for _, q := range r.Requests {
		if q.ok() {
			out = append(out, q)
		}
	}
	return out
}

// totals of the completed requests. Times are ms, but busy and decode seconds.
type totals struct {
	first, last              int64
	output, prompt, cached   int // -1 unknown
	after                    int // output tokens behind each request's first
	verify, verified         int
	busy, decode             float64
	ttft, tpot, itl, latency []float64
}

func (t totals) seconds() float64 { return float64(t.last-t.first) / 1e6 }

func total(done []Request) totals {
	t := totals{first: math.MaxInt64}
	for _, q := range done {
		t.first, t.last = min(t.first, q.StartUs), max(t.last, q.EndUs)
		t.output += q.OutputTokens
		t.prompt = addKnown(t.prompt, q.PromptTokens)
		t.cached = addKnown(t.cached, q.CachedTokens)
		latency := float64(q.EndUs - q.StartUs)
		t.busy += latency / 1e6
		t.latency = append(t.latency, latency/1e3)
		t.ttft = append(t.ttft, float64(q.FirstTokenUs-q.StartUs)/1e3)
		if q.OutputTokens > 1 && len(q.ChunkUs) != 1 {
			decode := float64(q.EndUs - q.FirstTokenUs)
			t.decode += decode / 1e6
			t.after += q.OutputTokens - 1
			t.tpot = append(t.tpot, decode/1e3/float64(q.OutputTokens-1))
		}
		for i := 1; i < len(q.ChunkUs); i++ {
			t.itl = append(t.itl, float64(q.ChunkUs[i]-q.ChunkUs[i-1])/1e3)
		}
		if q.VerifyCalls > 0 {
			t.verify += q.VerifyCalls
			t.verified += q.OutputTokens - 1
		}
	}
	return t
}

// addKnown adds counts; one unknown makes the sum unknown.
func addKnown(sum, n int) int {
	if sum < 0 || n < 0 {
		return -1
	}
	return sum + n
}

// statistics gives NAME_mean, _median, _std and percentiles, in ms.
func statistics(name string, v []float64) []record.Metric {
	if len(v) == 0 {
		return nil
	}
	v = slices.Clone(v)
	slices.Sort(v)
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	mean := sum / float64(len(v))
	stats := []struct {
		suffix string
		value  float64
	}{{"mean", mean}, {"median", quantile(v, 0.5)}, {"p90", quantile(v, 0.9)}, {"p99", quantile(v, 0.99)}}
	var out []record.Metric
	for _, s := range stats {
		out = append(out, record.Metric{Name: name + "_" + s.suffix, Unit: "ms", Value: s.value, N: len(v), Source: sourceClient})
	}
	if len(v) > 1 {
		sq := 0.0
		for _, x := range v {
			sq += (x - mean) * (x - mean)
		}
		out = append(out, record.Metric{Name: name + "_std", Unit: "ms", Value: math.Sqrt(sq / float64(len(v)-1)), N: len(v), Source: sourceClient})
	}
	return out
}

// quantile interpolates between the two nearest of sorted values.
func quantile(v []float64, q float64) float64 {
	at := q * float64(len(v)-1)
	i := int(at)
	if i+1 >= len(v) {
		return v[len(v)-1]
	}
	return v[i] + (at-float64(i))*(v[i+1]-v[i])
}
