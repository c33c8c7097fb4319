package engine

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"specrun/deploy/server"
)

// sglang is SGLang, from 0.4.6 on.
type sglang struct{}

// sglangModule works in every release; newer ones print a note about it.
const sglangModule = "sglang.launch_server"

func (sglang) Name() string { return "sglang" }

func (sglang) Readiness(Server) server.Readiness { return &sglangReadiness{newStartLog(sglangText)} }

// CrashIn implements Engine.
func (sglang) CrashIn(tail []byte) *server.Crash { return sglangExplains.in(tail) }

// Argv is prefix, interpreter, module, flags, --port, args.
func (sglang) Argv(s Server) ([]string, error) {
	if s.Python == "" {
		return nil, fmt.Errorf("sglang: no interpreter (server.python)")
	}
	if s.Port < 1 || s.Port > 65535 {
		return nil, fmt.Errorf("sglang: port %d", s.Port)
	}
	if err := checkFlags(s); err != nil {
		return nil, fmt.Errorf("sglang: %w", err)
	}
	argv := slices.Concat(s.Prefix, []string{s.Python, "-m", sglangModule}, Render(s.Flags, nil))
	argv = append(argv, "--port", strconv.Itoa(s.Port))
	return append(argv, s.Args...), nil
}

// sglangAlias maps other spellings of a flag, as the server takes them, to the name
// under which it reports the value.
var sglangAlias = map[string]string{
	"tp":                      "tp_size",
	"tensor_parallel_size":    "tp_size",
	"dp":                      "dp_size",
	"data_parallel_size":      "dp_size",
	"ep":                      "ep_size",
	"expert_parallel_size":    "ep_size",
	"pp":                      "pp_size",
	"pipeline_parallel_size":  "pp_size",
	"model":                   "model_path",
	"speculative_draft_model": "speculative_draft_model_path",
}

// sglangKey is the name under which the server reports a flag.
func sglangKey(flag string) string {
	name := underscores(flag)
	if key, ok := sglangAlias[name]; ok {
		return key
	}
	return name
}

// find returns the text of a flag that has one value.
func find(flags []Flag, key string) (string, bool) {
	for _, f := range flags {
		if sglangKey(f.Name) == key && f.Kind == Value && len(f.Values) == 1 {
			return f.Values[0], true
		}
	}
	return "", false
}

// sglangAlgorithm is how flags ask for speculation, upper-cased as the server does
// it; "" is none.
func sglangAlgorithm(flags []Flag) string {
	text, _ := find(flags, "speculative_algorithm")
	text = strings.ToUpper(strings.TrimSpace(text))
	if text == "NEXTN" {
		return "EAGLE"
	}
	return text
}

// draftsInSteps says whether an algorithm drafts step by step with a draft model.
func draftsInSteps(algorithm string) bool {
	return slices.Contains([]string{"EAGLE", "EAGLE3", "STANDALONE"}, algorithm)
}

// draftTokens is the number of draft tokens that the server takes when topk is
// 1, whatever was asked: it verifies a chain of the steps and the bonus. Others,
// NGRAM for one, draft as many as they are asked for.
func draftTokens(flags []Flag) (string, bool) {
	if a := sglangAlgorithm(flags); a != "" && !draftsInSteps(a) {
		return "", false
	}
	topk, ok := find(flags, "speculative_eagle_topk")
	if !ok || strings.TrimSpace(topk) != "1" {
		return "", false
	}
	text, ok := find(flags, "speculative_num_steps")
	if !ok {
		return "", false
	}
	steps, err := strconv.Atoi(text)
	if err != nil {
		return "", false
	}
	return strconv.Itoa(steps + 1), true
}

// Canonical returns flags such that two servers which the engine makes equal
// have equal ones: by one name each, in the order of their names, with what it
// overrides itself.
func (sglang) Canonical(flags []Flag) []Flag {
	out := slices.DeleteFunc(slices.Clone(flags), func(f Flag) bool { return f.Kind == Omitted })
	if draft, ok := draftTokens(flags); ok {
		out, _ = Overlay(out, []Flag{{Name: "speculative-num-draft-tokens", Kind: Value, Values: []string{draft}}}) // no pattern, no error
	}
	for i, f := range out {
		if key, ok := sglangAlias[underscores(f.Name)]; ok {
			out[i].Name = hyphens(key)
		}
	}
	slices.SortStableFunc(out, func(a, b Flag) int { return strings.Compare(sglangKey(a.Name), sglangKey(b.Name)) })
	return out
}

// WithoutSpeculation says what else the server does differently when its
// speculative flags are gone, so that a baseline is read rightly.
func (sglang) WithoutSpeculation() string {
	return "without speculation the server also allows more than 48 running requests (unless max-running-requests is set), " +
		"keeps the draft model's memory for its KV cache, and may use mixed chunked prefill; it has no cycle, so it is compared in tok/s and TPOT"
}

// sglangMilestones in the order in which they are tried. The texts are those
// that stay the same from 0.4.6 on.
var sglangMilestones = []milestone{
	{regexp.MustCompile(`^server_args=`), "arguments read"},
	{regexp.MustCompile(`Init torch distributed begin`), "joining ranks"},
	{regexp.MustCompile(`Load weight begin`), "loading weights"},
	{regexp.MustCompile(`Load weight end.*\bmem usage=(\d+\.\d+ GB)`), "weights loaded, $1"},
	{regexp.MustCompile(`Load weight end`), "weights loaded"},
	{regexp.MustCompile(`KV Cache is allocated\. #tokens: (\d+)`), "KV cache allocated, $1 tokens"},
	{regexp.MustCompile(`KV Cache is allocated|Memory pool end`), "KV cache allocated"},
	{regexp.MustCompile(`Capture (?:(.*?) )?(?i:cuda graph)\S* begin`), "capturing $1 graphs"},
	{regexp.MustCompile(`Capture .*?(?i:cuda graph)\S* end.*\bTime elapsed: (\d+\.\d+ s)`), "graphs captured, $1"},
	{regexp.MustCompile(`Capture .*?(?i:cuda graph)\S* end`), "graphs captured"},
	{regexp.MustCompile(`^(?:INFO:\s+)?Application startup complete`), "HTTP up"},
	{regexp.MustCompile(`^max_total_num_tokens=`), "scheduler up"},
}

// sglangText's ready marker is printed after the server's own warm-up request
// succeeded, or, with --skip-server-warmup, after none: it is no proof by itself.
// The prefix is the stamp of a line, with the ranks that size > 1 have.
var sglangText = startText{
	prefix:     regexp.MustCompile(`^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{3})?(?: [A-Z][A-Z_]*\d+)*\] ?`),
	ready:      regexp.MustCompile(regexp.QuoteMeta(sglangReady)),
	milestones: sglangMilestones,
	explain:    sglangExplains,
}

const sglangReady = "The server is fired up and ready to roll!"

var sglangExplains = explainer{sglangAdvice, sglangFlags}

// sglangAdvice names SGLang's own flags.
var sglangAdvice = crashAdvice{
	"cuda_oom":           "lower mem-fraction-static (draft weights, draft KV and graphs come out of what is left), or cuda-graph-max-bs",
	"cuda_oom/loading":   "the weights of target and draft do not fit: raise tp-size, use a quantised model, or see who else holds memory on these GPUs",
	"cuda_oom/kv_pool":   "raise mem-fraction-static: weights and draft leave no room for the KV cache within it; where it is high already, raise tp-size",
	"cuda_oom/capture":   "lower mem-fraction-static, or cuda-graph-max-bs (cuda-graph-max-bs-decode from 0.5.14 on): graphs come out of what is left",
	"cuda_oom/running":   "lower mem-fraction-static, max-running-requests or chunked-prefill-size: activations come out of what is left",
	"cuda_graph_capture": "lower mem-fraction-static or cuda-graph-max-bs, or disable CUDA graphs to see the cause",
	"watchdog":           "a forward pass hung; raise watchdog-timeout only if it is known to be slow",
}
