package engine

import (
	"strings"

	"specrun/deploy/server"
	"specrun/experiments/metrics"
)

// crashAdvice is what usually helps with one engine, by crash kind, or by kind
// and phase joined with a slash.
type crashAdvice map[string]string

// commonAdvice holds for every engine.
var commonAdvice = crashAdvice{
	"cuda_oom":            "give it less to hold: a smaller model, context or batch, or more GPUs",
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

// crash is what a log said, with this engine's advice; nil of nil.
func (a crashAdvice) crash(c *metrics.Crash) *server.Crash {
	if c == nil {
		return nil
	}
	evidence := c.Evidence
	if c.Message != "" && !strings.Contains(evidence, c.Message) { // the head of a traceback does not say what happened
		evidence += " " + c.Message
	}
	return &server.Crash{Kind: c.Kind, Evidence: evidence, Advice: a.of(c)}
}

// of looks for the most special advice there is.
func (a crashAdvice) of(c *metrics.Crash) string {
	for _, key := range []string{c.Kind + "/" + c.Cause, c.Kind} {
		for _, table := range []crashAdvice{a, commonAdvice} {
			if text := table[key]; text != "" {
				return text
			}
		}
	}
	return ""
}

// in finds in the end of a log why its server died; nil when it does not say.
// The first line may be cut.
func (a crashAdvice) in(tail []byte) *server.Crash {
	f := metrics.NewFollower()
	f.Write(tail)
	f.Close()
	return a.crash(f.Crash())
}
