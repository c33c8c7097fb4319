package metrics

import "regexp"

// Phases of a server's life, as far as they tell what took the memory.
const (
	PhaseLoading = "loading" // weights of target and draft
	PhaseKVPool  = "kv_pool" // profiling, and reserving the KV cache
	PhaseCapture = "capture" // CUDA graphs
	PhaseRunning = "running" // requests
)

// phaseMark is text of a start-up line behind which a phase begins.
type phaseMark struct {
	re    *regexp.Regexp
	phase string // "" = none of them any more
}

// phaseWords are in every line that a mark can match.
var phaseWords = []string{"eight", "emory pool", "KV", "apture", "apturing", "Graph", "load model", "Loading", "Model loading", "ompil"}

// phaseMarks of SGLang and vLLM, in the order in which they are tried.
var phaseMarks = []phaseMark{
	{regexp.MustCompile(`Load weight begin|Starting to load model|Loading model from scratch|Loading (?:safetensors|pt) checkpoint shards`), PhaseLoading},
	{regexp.MustCompile(`Load weight end|Loading weights took|Model loading took|KV Cache is allocated|Available KV cache memory`), PhaseKVPool},
	{regexp.MustCompile(`Capture .{0,60}(?i:cuda graph).{0,20}begin|Capturing (?:CUDA|cudagraphs?|batches)|Capture (?:cuda|CUDA) graph bs`), PhaseCapture},
	{regexp.MustCompile(`Capture .{0,60}(?i:cuda graph).{0,20}end\b|Graph capturing finished|Memory pool end`), ""},
}

// framePhases are the functions and files that a traceback goes through in a
// phase; the innermost one says it.
var framePhases = []phaseMark{
	{regexp.MustCompile(`cuda_?graph|cudagraph|capture_model|, in (?:_?capture\w*|init_device_graphs)$`), PhaseCapture},
	{regexp.MustCompile(`memory_pool|kv_cache_manager|, in (?:init_memory_pool|_?initialize_kv_caches?|initialize_from_config|determine_available_memory|determine_num_available_blocks|profile_run|_allocate_kv_cache\w*|allocate_kv_cache|profile_max_num_token)$`), PhaseKVPool},
	{regexp.MustCompile(`model_loader|weight_utils|, in (?:load_model|load_weights|create_weights|get_model)$`), PhaseLoading},
}

// phases follows the starts of the servers in a log, each rank by itself.
type phases struct {
	run  map[int]string // newest of any rank
	rank map[stream]string
}

func (p *phases) read(e *entry, run int) {
	if !containsAny(e.msg, phaseWords) {
		return
	}
	for _, m := range phaseMarks {
		if !m.re.MatchString(e.msg) {
			continue
		}
		if p.run == nil {
			p.run, p.rank = map[int]string{}, map[stream]string{}
		}
		if e.rank == "" && e.pid == "" { // a progress bar says not whose it is
			clear(p.rank)
		}
		p.run[run], p.rank[e.stream] = m.phase, m.phase
		return
	}
}

// of is the phase that a writer is in; what it does not say itself, its run does.
func (p *phases) of(s stream, run int) string {
	if phase, ok := p.rank[s]; ok {
		return phase
	}
	return p.run[run]
}

// framePhase is the phase that a frame of a traceback belongs to; "" most do to
// none.
func framePhase(frame string) string {
	for _, m := range framePhases {
		if m.re.MatchString(frame) {
			return m.phase
		}
	}
	return ""
}

// kvPoolWords are in messages that the engines themselves give when nothing is
// left for the KV cache.
var kvPoolWords = regexp.MustCompile(`Not enough memory\. Please try to increase|RuntimeError: Not enough memory|No available memory for the cache blocks|Free memory on device .* is less than desired`)

// runningWords are in messages about memory that only a server at work gives.
var runningWords = regexp.MustCompile(`even after retracting|(?:Prefill|Decode) out of memory`)

// phaseOf says in which phase the cause of a crash lies.
func (r *crashReader) phaseOf(root *finding) string {
	switch {
	case root.kind == kindCapture:
		return PhaseCapture
	case root.ready || runningWords.MatchString(root.text):
		return PhaseRunning
	case kvPoolWords.MatchString(root.text):
		return PhaseKVPool
	case root.tb != nil && root.tb.phase != "":
		return root.tb.phase
	}
	return root.phase
}
