package engine

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"specrun/deploy/server"
)

// vllm is vLLM's OpenAI-compatible server, engine V1.
type vllm struct{}

// vllmModule is what the vllm program of an environment runs; naming it lets
// the spec's interpreter decide which environment that is.
const vllmModule = "vllm.entrypoints.cli.main"

func (vllm) Name() string { return "vllm" }

func (vllm) Readiness(Server) server.Readiness { return &vllmReadiness{newStartLog(vllmText)} }

// CrashIn implements Engine.
func (vllm) CrashIn(tail []byte) *server.Crash { return vllmExplains.in(tail) }

// vllmModel is the flag whose value stands behind "serve".
const vllmModel = "model"

// Argv is prefix, interpreter, module, serve, model, flags, --port, args.
// Speculation of 0 tokens is none: the flag that asks for it is left out, since
// the server refuses it.
func (vllm) Argv(s Server) ([]string, error) {
	if s.Python == "" {
		return nil, fmt.Errorf("vllm: no interpreter (server.python)")
	}
	if s.Port < 1 || s.Port > 65535 {
		return nil, fmt.Errorf("vllm: port %d", s.Port)
	}
	if err := checkFlags(s); err != nil {
		return nil, fmt.Errorf("vllm: %w", err)
	}
	argv := slices.Concat(s.Prefix, []string{s.Python, "-m", vllmModule, "serve"})
	flags := withoutZeroTokens(s.Flags)
	model, named := "", false
	for _, f := range flags {
		if f.Name == vllmModel && f.Kind == Value && len(f.Values) == 1 {
			model, named = f.Values[0], true
		}
	}
	switch {
	case named && strings.HasPrefix(model, "-"):
		return nil, fmt.Errorf("vllm: %q is no model", model)
	case named:
		argv = append(argv, model)
		flags = slices.DeleteFunc(slices.Clone(flags), func(f Flag) bool { return f.Name == vllmModel })
	case !slices.ContainsFunc(flags, func(f Flag) bool { return f.Name == "config" && f.Kind == Value }) && len(s.Args) == 0:
		return nil, fmt.Errorf("vllm: flag model is missing: the server would load a model of its own choice")
	}
	argv = append(argv, Render(flags, nil)...)
	argv = append(argv, "--port", strconv.Itoa(s.Port))
	return append(argv, s.Args...), nil
}

// vllmSpeculation is the flag that turns speculation on: a map, or one flag for
// each of its keys with a dot between.
const (
	vllmSpeculation = "speculative_config"
	vllmTokens      = "num_speculative_tokens"
)

// isVLLMSpeculation says whether a flag is a part of the speculative
// configuration; rest is the key within it, "" for the whole map.
func isVLLMSpeculation(f Flag) (rest string, ok bool) {
	name, rest, _ := strings.Cut(f.Name, ".")
	return rest, underscores(name) == vllmSpeculation
}

// speculativeTokens reads how many tokens a draft has; "" when the flags do not
// say.
func speculativeTokens(flags []Flag) string {
	for _, f := range flags {
		rest, ok := isVLLMSpeculation(f)
		switch {
		case !ok || f.Kind == Omitted || len(f.Values) != 1:
		case underscores(rest) == vllmTokens:
			return strings.TrimSpace(f.Values[0])
		case rest == "":
			var m map[string]any
			if decode(f.Values[0], &m) == nil && m[vllmTokens] != nil {
				if text, err := plainJSON(m[vllmTokens]); err == nil {
					return text
				}
			}
		}
	}
	return ""
}

// withoutZeroTokens leaves the speculative flags out when they ask for none.
func withoutZeroTokens(flags []Flag) []Flag {
	if speculativeTokens(flags) != "0" {
		return flags
	}
	return slices.DeleteFunc(slices.Clone(flags), func(f Flag) bool {
		_, ok := isVLLMSpeculation(f)
		return ok
	})
}

// Canonical implements Engine.
func (vllm) Canonical(flags []Flag) []Flag {
	out := slices.DeleteFunc(slices.Clone(withoutZeroTokens(flags)), func(f Flag) bool { return f.Kind == Omitted })
	for i, f := range out {
		out[i].Name = canonicalVLLM(f.Name)
		var v any
		if f.Kind == JSON && len(f.Values) == 1 && decode(f.Values[0], &v) == nil {
			if text, err := plainJSON(v); err == nil { // keys sorted
				out[i].Values = []string{text}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Flag) int { return strings.Compare(vllmKey(a.Name), vllmKey(b.Name)) })
	return out
}

// canonicalVLLM is the one spelling of a flag's name: the server takes hyphens and
// underscores alike, and a dot before a key of a map.
func canonicalVLLM(flag string) string {
	name, key, dotted := strings.Cut(flag, ".")
	name = hyphens(vllmKey(name))
	if dotted {
		name += "." + underscores(key)
	}
	return name
}

// LogEvery implements Periodic.
func (vllm) LogEvery(flags []Flag, env map[string]string) time.Duration {
	if slices.ContainsFunc(flags, func(f Flag) bool { return underscores(f.Name) == "disable_log_stats" && f.Kind != Omitted }) {
		return 0
	}
	if s, err := strconv.ParseFloat(env["VLLM_LOG_STATS_INTERVAL"], 64); err == nil && s > 0 {
		return time.Duration(s * float64(time.Second))
	}
	return vllmLogEvery
}

// vllmLogEvery is the engine's default.
const vllmLogEvery = 10 * time.Second

// WithoutSpeculation implements Engine.
func (vllm) WithoutSpeculation() string {
	return "without speculation the server also keeps the draft model's memory for its KV cache, captures other CUDA graph sizes, " +
		"and may schedule asynchronously where speculation forbids it; it prints no acceptance, so it is compared in tok/s and TPOT"
}

// vllmAlias maps other names of a flag, on the command line, in the log or in
// the configuration itself, to the one under which it is compared.
var vllmAlias = map[string]string{
	"tp":                      "tensor_parallel_size",
	"pp":                      "pipeline_parallel_size",
	"dp":                      "data_parallel_size",
	"model_tag":               "model",
	"max_seq_len":             "max_model_len",
	"cache_dtype":             "kv_cache_dtype",
	"chunked_prefill_enabled": "enable_chunked_prefill",
	"num_spec_tokens":         vllmTokens,
	"device_config":           "device",
}

func underscores(name string) string { return strings.ReplaceAll(name, "-", "_") }

func hyphens(name string) string { return strings.ReplaceAll(name, "_", "-") }

// vllmKey is the name under which a flag is read back.
func vllmKey(flag string) string {
	name := underscores(flag)
	if key, ok := vllmAlias[name]; ok {
		return key
	}
	return name
}

// vllmMilestones in the order in which they are tried.
var vllmMilestones = []milestone{
	{regexp.MustCompile(`vLLM API server version|^non-default args: `), "arguments read"},
	{regexp.MustCompile(`Initializing an? (?:V\d )?LLM engine`), "engine starting"},
	{regexp.MustCompile(`Starting to load model|Loading model from scratch|Loading safetensors checkpoint shards:\s+0%`), "loading weights"},
	{regexp.MustCompile(`Loading weights took ([\d.]+) s`), "weights loaded, $1 s"},
	{regexp.MustCompile(`Model loading took ([\d.]+ Gi?B)`), "weights loaded, $1"},
	{regexp.MustCompile(`Loading weights took|Model loading took`), "weights loaded"},
	{regexp.MustCompile(`Dynamo bytecode transform time|Compiling a graph|torch\.compile takes|Start compiling function`), "compiling"},
	{regexp.MustCompile(`KV cache size: ([\d,]+ tokens)`), "KV cache allocated, $1"},
	{regexp.MustCompile(`Available KV cache memory: ([\d.]+ Gi?B)`), "memory profiled, $1 for the KV cache"},
	{regexp.MustCompile(`Available KV cache memory|Memory profiling takes`), "memory profiled"},
	{regexp.MustCompile(`Capturing (?:CUDA|cudagraphs?|CUDA ?graphs?)`), "capturing graphs"},
	{regexp.MustCompile(`Graph capturing finished in (\d+) secs?`), "graphs captured, $1 s"},
	{regexp.MustCompile(`Graph capturing finished`), "graphs captured"},
	{regexp.MustCompile(`init engine \(profile.* took ([\d.]+) s`), "engine up, $1 s"},
}

// vllmText's ready markers are printed when HTTP begins, right before uvicorn
// says so itself; which of them there are depends on the release and on the log
// level. The prefix names process and place: it differs between releases, too.
var vllmText = startText{
	prefix: regexp.MustCompile(`^(?:\([A-Za-z]\w*(?: \w+=[^\s,)]+,?)+\) )*(?:[A-Z]+ \d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? (?:\[[\w./-]+:\d+\]|[\w./-]+:\d+\]) ?)?`),
	ready:  regexp.MustCompile(`^(?:INFO:\s+)?(?:Starting vLLM (?:API )?server(?: \d+)? on |Application startup complete|Uvicorn running on )`),

	milestones: vllmMilestones,
	explain:    vllmExplains,
}

var vllmExplains = explainer{vllmAdvice, vllmFlags}

// vllmAdvice names vLLM's own flags.
var vllmAdvice = crashAdvice{
	"cuda_oom":           "lower gpu-memory-utilization, max-model-len or max-num-seqs",
	"cuda_oom/loading":   "the weights do not fit: raise tensor-parallel-size, use a quantised model, or see who else holds memory on these GPUs",
	"cuda_oom/kv_pool":   "raise gpu-memory-utilization, or lower max-model-len, max-num-batched-tokens or max-num-seqs: nothing is left for the KV cache",
	"cuda_oom/capture":   "lower gpu-memory-utilization or max-num-seqs (fewer graphs), or set enforce-eager",
	"cuda_oom/running":   "lower gpu-memory-utilization, max-num-batched-tokens or max-num-seqs: activations come out of what is left",
	"cuda_graph_capture": "lower max-num-seqs or gpu-memory-utilization, or set enforce-eager to see the cause",
	"watchdog":           "a forward pass hung; look for the rank that stopped first",
	"nccl_timeout":       "a rank did not answer; look for the first worker that ended, and run it with NCCL_DEBUG=INFO in server.env",
}
