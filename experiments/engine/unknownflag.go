package engine

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"specrun/internal/edit"
)

// sglangFlags and vllmFlags are flags that people set, by any release that has
// them: for the nearest one to a name that a server does not know, when it does
// not print its own.
var (
	sglangFlags = strings.Fields(`
model-path tokenizer-path tp-size pp-size dp-size ep-size context-length mem-fraction-static max-running-requests max-total-tokens
max-prefill-tokens chunked-prefill-size enable-mixed-chunk page-size kv-cache-dtype dtype quantization load-format random-seed host port
served-model-name trust-remote-code revision schedule-policy attention-backend prefill-attention-backend decode-attention-backend
sampling-backend grammar-backend cuda-graph-max-bs cuda-graph-max-bs-decode cuda-graph-max-bs-prefill cuda-graph-bs cuda-graph-bs-decode
disable-cuda-graph disable-cuda-graph-padding enable-torch-compile disable-piecewise-cuda-graph disable-radix-cache
disable-overlap-schedule disable-custom-all-reduce enable-dp-attention enable-metrics decode-log-interval log-level log-requests
watchdog-timeout skip-server-warmup enable-nccl-nvls nccl-port dist-init-addr nnodes node-rank moe-a2a-backend moe-runner-backend
enable-eplb enable-deterministic-inference speculative-algorithm speculative-draft-model-path speculative-draft-model-revision
speculative-num-steps speculative-eagle-topk speculative-num-draft-tokens speculative-accept-threshold-single
speculative-accept-threshold-acc speculative-token-map speculative-attention-mode speculative-draft-attention-backend
speculative-draft-load-format speculative-draft-model-quantization speculative-moe-runner-backend speculative-adaptive
speculative-ngram-min-bfs-breadth speculative-ngram-max-bfs-breadth speculative-ngram-match-type speculative-ngram-max-trie-depth
speculative-ngram-capacity speculative-draft-window-size speculative-dflash-block-size enable-multi-layer-eagle`)
	vllmFlags = strings.Fields(`
model tokenizer tensor-parallel-size pipeline-parallel-size data-parallel-size enable-expert-parallel max-model-len
gpu-memory-utilization kv-cache-memory-bytes max-num-seqs max-num-batched-tokens enable-chunked-prefill no-enable-chunked-prefill
block-size kv-cache-dtype dtype quantization load-format seed host port served-model-name trust-remote-code revision
enforce-eager compilation-config enable-prefix-caching no-enable-prefix-caching disable-custom-all-reduce attention-backend
disable-log-stats disable-log-requests enable-log-requests disable-uvicorn-access-log uvicorn-log-level api-key chat-template generation-config
speculative-config async-scheduling no-async-scheduling scheduling-policy cpu-offload-gb swap-space distributed-executor-backend
hf-overrides limit-mm-per-prompt enable-lora max-lora-rank reasoning-parser tool-call-parser enable-auto-tool-choice profiler-config`)
)

var (
	unrecognised  = regexp.MustCompile(`error: unrecognized arguments?: (.+)`)
	invalidChoice = regexp.MustCompile(`error: argument ([^:]+): invalid choice: ('[^']*'|"[^"]*"|\S+) \((?:choose from|possible choices:) (.+)\)`)
	badValue      = regexp.MustCompile(`error: argument ([^:]+): (.+)`)
	ambiguous     = regexp.MustCompile(`error: ambiguous option: (\S+) could match (.+)`)
	longFlag      = regexp.MustCompile(`--[A-Za-z][\w.-]*`)
)

// usage collects the flags that an argument parser lists before it refuses a
// command line.
type usage struct {
	flags []string
	open  bool
}

// maxUsage bounds what is kept of it.
const maxUsage = 2000

func (u *usage) read(line string) {
	switch {
	case strings.HasPrefix(line, "usage: "):
		u.open, u.flags = true, nil
	case u.open && !strings.HasPrefix(line, " "):
		u.open = false
	}
	if !u.open {
		return
	}
	for _, flag := range longFlag.FindAllString(line, -1) {
		if len(u.flags) < maxUsage {
			u.flags = append(u.flags, strings.TrimPrefix(flag, "--"))
		}
	}
}

// enough says that a usage text has flags to choose from: some programs list none.
func (u *usage) enough() bool { return len(u.flags) > 10 }

// unknownFlag is the advice for a command line that an argument parser refused,
// known being the flags that it has; "" when the text is none of its messages.
func unknownFlag(text string, known []string) string {
	if m := ambiguous.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("%s is an abbreviation: write the whole name, one of %s", strings.TrimRight(m[1], ":,"), m[2])
	}
	if m := unrecognised.FindStringSubmatch(text); m != nil {
		var parts []string
		for _, flag := range longFlag.FindAllString(m[1], -1) {
			name := strings.TrimPrefix(flag, "--")
			part := flag + " is unknown to this release"
			if near := nearestFlag(name, known); near != "" {
				part += ": did you mean " + near + "?"
			}
			parts = append(parts, part)
		}
		if len(parts) == 0 {
			return "a word belongs to no flag: " + m[1]
		}
		return strings.Join(parts, "; ")
	}
	if m := invalidChoice.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("%s has no value %s in this release; it has %s", longNames(m[1]), strings.Trim(m[2], `'"`), m[3])
	}
	if m := badValue.FindStringSubmatch(text); m != nil {
		return longNames(m[1]) + ": " + m[2]
	}
	return ""
}

// longNames is an argument as the parser names it, --a/-b, by its long name.
func longNames(arg string) string {
	if long := longFlag.FindString(arg); long != "" {
		return long
	}
	return arg
}

// nearestFlag is a flag that a name was probably meant to be; "" when none is
// near. One that only lacks its end, or has its words in another order, is near,
// too.
func nearestFlag(name string, flags []string) string {
	name = strings.ToLower(strings.ReplaceAll(name, "_", "-"))
	if slices.Contains(flags, name) {
		return "" // it is right elsewhere
	}
	best, least := "", len(name)/3+1
	for _, known := range flags {
		d := edit.Distance(name, known)
		switch {
		case strings.HasPrefix(known, name+"-"), strings.HasPrefix(name, known+"-"):
			d = min(d, 2)
		case sameWords(name, known):
			d = min(d, 1)
		}
		if d < least {
			best, least = known, d
		}
	}
	return best
}

func sameWords(a, b string) bool {
	x, y := strings.Split(a, "-"), strings.Split(b, "-")
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}
