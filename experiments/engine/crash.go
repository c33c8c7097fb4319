package engine

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"specrun/deploy/server"
	"specrun/experiments/metrics"
)

// crashAdvice is what usually helps, by crash kind, or by kind and phase joined
// with a slash.
type crashAdvice map[string]string

// explainer knows one engine's advice.
type explainer struct {
	advice crashAdvice
	flags  []string // that it has, when it does not print them itself
}

// commonAdvice holds for every engine.
var commonAdvice = crashAdvice{
	"cuda_oom":            "give it less to hold: a smaller model, context or batch, or more GPUs",
	"cuda_oom/loading":    "the weights do not fit beside what is there: use more GPUs or a quantised model, or see who else holds memory on these GPUs",
	"cuda_oom/kv_pool":    "weights leave no room for a KV cache: use more GPUs, a shorter context or a smaller model",
	"cuda_oom/capture":    "capture fewer and smaller batches, or reserve less memory for the KV cache",
	"cuda_oom/running":    "run fewer requests at once, or reserve less memory for the KV cache, so that more is left for activations",
	"cuda_graph_capture":  "give it less to capture, or turn CUDA graphs off to see the cause",
	"cuda_error":          "run it once with CUDA_LAUNCH_BLOCKING=1 in server.env to see which call fails",
	"nccl_error":          "compare NCCL_* with a start that worked, and run it with NCCL_DEBUG=INFO in server.env",
	"nccl_timeout":        "a rank did not answer; look for the first rank that ended, and run it with NCCL_DEBUG=INFO in server.env",
	"watchdog":            "a forward pass hung; raise the watchdog's timeout only if it is known to be slow",
	"port_in_use":         "server.port: auto finds a free port; a server that was left over may hold those it derives from it",
	"killed_sigkill":      "mostly the host ran out of memory while loading: see dmesg on the host",
	"host_oom":            "the host ran out of memory; fewer ranks load at once, or more memory is needed",
	"import_error":        "the engine or a patched file does not import: see specrun status for what is patched",
	"engine_start_failed": "a flag is unknown to this release or has a wrong value: see the last lines of the log",
	"disk_full":           "make space on the host",
	"gpu_driver":          "the driver does not work on this host: try nvidia-smi there",
}

// crash is what a log said, with this engine's advice; nil of nil. listed is what
// the log has of the engine's flags.
func (x explainer) crash(c *metrics.Crash, listed *usage) *server.Crash {
	if c == nil {
		return nil
	}
	evidence := c.Evidence
	if c.Message != "" && !strings.Contains(evidence, c.Message) { // the head of a traceback does not say what happened
		evidence += " " + c.Message
	}
	out := &server.Crash{Kind: c.Kind, Evidence: evidence, Port: c.Port, File: c.InFile, Line: c.InLine}
	if c.Kind == kindOOM || c.Kind == kindCapture && c.Cause == kindOOM {
		out.OOM = cmp.Or(c.Phase, "unknown")
	}
	out.Advice = x.of(out, listed)
	if c.InFile != "" && c.Kind == kindImport {
		out.Advice = fmt.Sprintf("%s line %d: %s", c.InFile, c.InLine, out.Advice)
	}
	return out
}

// Kinds that are told apart further.
const (
	kindOOM     = "cuda_oom"
	kindCapture = "cuda_graph_capture"
	kindImport  = "import_error"
	kindFlags   = "engine_start_failed"
)

// smallCache is what vLLM says of a start whose KV cache cannot hold one request of
// the longest length.
var smallCache = regexp.MustCompile(`(?:is )?larger than the (?:available KV cache memory|maximum number of tokens that can be stored in KV cache)`)

// of looks for the most special advice there is.
func (x explainer) of(c *server.Crash, listed *usage) string {
	if c.Kind == kindFlags {
		known := x.flags
		if listed.enough() {
			known = listed.flags
		}
		if text := unknownFlag(c.Evidence, known); text != "" {
			return text
		}
	}
	keys := []string{c.Kind}
	if c.Kind == kindFlags && smallCache.MatchString(c.Evidence) {
		keys = []string{kindOOM + "/" + metrics.PhaseKVPool}
	}
	if c.OOM != "" {
		keys = []string{kindOOM + "/" + c.OOM, c.Kind}
	}
	for _, key := range keys {
		for _, table := range []crashAdvice{x.advice, commonAdvice} {
			if text := table[key]; text != "" {
				return text
			}
		}
	}
	return ""
}

// in finds in the end of a log why its server died; nil when it does not say.
// The first line may be cut.
func (x explainer) in(tail []byte) *server.Crash {
	f := metrics.NewFollower()
	f.Write(tail)
	f.Close()
	var listed usage
	for line := range bytes.Lines(tail) {
		listed.read(string(line))
	}
	return x.crash(f.Crash(), &listed)
}
