package metrics

import (
	"encoding/json"
	"strconv"
)

// Schema is the version of the JSON that Report marshals to.
const Schema = 1

// Engines and kinds that a file can be recognised as.
const (
	EngineAny      = "any" // nothing in the file says which
	EngineSGLang   = "sglang"
	EngineVLLM     = "vllm"
	KindServerLog  = "server_log"
	KindProfiler   = "profiler"
	KindBench      = "bench_output"
	KindGPU        = "gpu_status"
	engineSGBench  = "sglang-bench"
	engineVBench   = "vllm-bench"
	engineGuide    = "guidellm"
	engineGenAI    = "genai-perf"
	engineAIPerf   = "aiperf"
	engineLLMOpt   = "llm-optimizer"
	engineNvidiaSM = "nvidia-smi"
)

// Report is all that was read out of one file. It marshals to one JSON object
// with type "parse".
type Report struct {
	Type   string `json:"type"` // always "parse"
	Schema int    `json:"schema"`
	File   string `json:"file"`
	Engine string `json:"engine"`
	Kind   string `json:"kind"`

	// Extract holds the series in the order of their first value.
	Extract []Series `json:"extract"`
	// Crash is nil when the file gives no reason to think that a process died.
	Crash *Crash `json:"crash"`
	// Runs are the server starts in the file, set when there are several.
	Runs []LineRange `json:"runs,omitempty"`

	Warnings []string `json:"warnings,omitempty"`

	IncompleteBlocks  int   `json:"incomplete_blocks,omitempty"`   // profiler blocks without a TOTAL
	DuplicateBlocks   int   `json:"duplicate_blocks,omitempty"`    // profiler blocks printed again word for word, counted once
	TornRecords       int   `json:"torn_records,omitempty"`        // records cut by another writer, dropped
	BadLines          []int `json:"bad_lines,omitempty"`           // lines of a JSON or CSV document that could not be read
	TruncatedLastLine bool  `json:"truncated_last_line,omitempty"` // the file ends inside a record
	Lines             int   `json:"lines"`                         // LF-terminated lines, and one more when bytes follow the last LF
	Bytes             int64 `json:"bytes"`
}

// Series is one metric of one stream: values in file order.
type Series struct {
	Metric string
	Unit   string
	Values []Value
	Lines  []int // 1-based line of each value
	// Labels name the stream (rank, engine, service, pod, pid, file, run, source)
	// as far as the file holds several that differ in them.
	Labels map[string]string
}

// MarshalJSON writes labels as strings as printed, but run as a number.
func (s Series) MarshalJSON() ([]byte, error) {
	var labels map[string]any
	for k, v := range s.Labels {
		if labels == nil {
			labels = map[string]any{}
		}
		labels[k] = v
		if n, err := strconv.Atoi(v); err == nil && k == "run" {
			labels[k] = n
		}
	}
	values := s.Values
	if values == nil {
		values = []Value{}
	}
	return json.Marshal(struct {
		Metric string         `json:"metric"`
		Unit   string         `json:"unit"`
		Values []Value        `json:"values"`
		Lines  []int          `json:"lines,omitempty"`
		Labels map[string]any `json:"labels,omitempty"`
	}{s.Metric, s.Unit, values, s.Lines, labels})
}

// LineRange is a 1-based inclusive range of lines; it marshals to [first, last].
type LineRange struct{ First, Last int }

// MarshalJSON writes the range as a pair.
func (r LineRange) MarshalJSON() ([]byte, error) { return json.Marshal([2]int{r.First, r.Last}) }

// UnmarshalJSON reads a pair.
func (r *LineRange) UnmarshalJSON(b []byte) error {
	var p [2]int
	if err := json.Unmarshal(b, &p); err != nil {
		return err
	}
	r.First, r.Last = p[0], p[1]
	return nil
}

// Crash says why a process died, as its log tells it.
type Crash struct {
	Kind      string `json:"kind"`       // cuda_oom, port_in_use, ...: the kinds of the log samples
	FirstLine int    `json:"first_line"` // 1-based
	Evidence  string `json:"evidence"`   // text of that line, without prefixes
	Offset    int64  `json:"offset"`     // byte offset of that line's start

	Rank      string `json:"rank,omitempty"`
	Service   string `json:"service,omitempty"`
	Pod       string `json:"pod,omitempty"`
	InFile    string `json:"in_file,omitempty"` // base name of the source file of the innermost frame
	InLine    int    `json:"in_line,omitempty"`
	Exception string `json:"exception,omitempty"` // class name of the exception that ended it
	Message   string `json:"message,omitempty"`   // the exception's own line, the one to show to a person
	Port      int    `json:"port,omitempty"`
	Cause     string `json:"cause,omitempty"` // a second kind that explains the first
	Stage     string `json:"stage,omitempty"` // startup, serving
	Phase     string `json:"phase,omitempty"` // loading, kv_pool, capture, running: where the cause lies; "" = elsewhere
	Run       int    `json:"run,omitempty"`   // which start of Report.Runs, 0 when there is one only
	Hint      string `json:"hint,omitempty"`  // what usually helps
	Fatal     bool   `json:"fatal"`           // always true: what a server survived is not reported
}

// Find returns the first series of a metric whose labels contain the given ones.
func (r *Report) Find(metric string, labels map[string]string) (Series, bool) {
	for _, s := range r.Extract {
		if s.Metric == metric && contains(s.Labels, labels) {
			return s, true
		}
	}
	return Series{}, false
}

func contains(have, want map[string]string) bool {
	for k, v := range want {
		if have[k] != v {
			return false
		}
	}
	return true
}
