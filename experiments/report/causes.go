package report

import (
	"regexp"
	"strings"
	"sync"
)

// rule says how likely a fact of provenance is to move a number. The first rule
// of a group whose pattern finds the key counts.
type rule struct {
	group  string
	key    *regexp.Regexp // of the key as ruleKey writes it
	weight float64        // 0 = never a cause, 1 = seen to be one, above it stands first
	why    string
}

// Weights. Between known and innocent lie facts about which nothing is known:
// they come after every known one whatever the magnitude, and before the
// innocent ones.
const (
	decisive = 1.2 // explains what nothing else does: stands before what is seen to matter
	certain  = 1.0
	strong   = 0.9
	usual    = 0.8
	possible = 0.65
	minor    = 0.3
	rare     = 0.15
	innocent = 0.03
	noise    = 0.01 // differs between any two launches
)

// likely is the weight from which a difference is shown as a likely cause.
const likely = 0.35

// causes is what is known to matter and what is known not to. Keys of flags and
// env have one spelling here, see ruleKey.
var causes = sync.OnceValue(func() []rule {
	return []rule{
		// Flags of the engine.
		{"flags", re(`^(port|nccl-port|dist-init-addr|host|specrun-lab|gpus|grpc-port)$`), noise, "differs between any two launches"},
		{"flags", re(`^(last-gen-throughput|avg-spec-accept-length|startup-time|load-time|status|uptime|.*memory-usage.*|.*avail.*mem.*|available-gpu-mem)$`), noise, "a reading of the server, not a setting"},
		{"flags", re(`^(max-total-num-tokens|token-capacity|kv-cache-tokens)$`), rare, "a reading: follows the memory that was free at the start"},
		{"flags", re(`^(.*api-key|served-model-name|.*tokenizer.*|chat-template|tool-call-parser|reasoning-parser|.*log-.*|log|.*metrics.*|.*watchdog.*|.*trace.*|ssl-.*|file-storage-path|crash-dump-folder|download-dir|warmups|skip-server-warmup|show-time-cost|collect-tokens-histogram|bucket-.*|enable-cache-report|weight-version|trust-remote-code|preferred-sampling-params|bench-.*)$`), innocent, "does not touch the decode cycle"},
		{"flags", re(`^random-seed$`), rare, "chooses samples, and nothing at temperature 0"},
		{"flags", re(`^specrun-lab-settings$`), decisive, "the practice host was told other speeds, noise or failures"},
		{"flags", re(`^(read-from|only-asked)$`), innocent, "how the configuration was read, not what it is"},
		{"flags", re(`^version$`), strong, "another version of the engine"},
		{"flags", re(`^speculative-(algorithm|num-steps|eagle-topk|num-draft-tokens|attention-mode)$`), certain, "the shape of the speculative cycle"},
		{"flags", re(`^(speculative-|spec-|.*eagle)`), 0.95, "a setting of speculation"},
		{"flags", re(`attention-backend|attention-mode|^attn|mla-backend`), 0.98, "other attention kernels in every cycle"},
		{"flags", re(`^(tp|dp|ep|pp|tensor-parallel|data-parallel|expert-parallel|pipeline-parallel|attn-cp|moe-dp|nnodes)(-size)?$|dp-attention|dp-lm-head|-tp-size$`), 0.95, "the work is divided otherwise between GPUs"},
		{"flags", re(`quantization|torchao|^dtype$|fp8-gemm|fp4-gemm`), 0.95, "weights of another type: other kernels, other traffic"},
		{"flags", re(`cuda-graph`), 0.92, "batches without a captured graph pay for every kernel launch"},
		{"flags", re(`all-?reduce|nccl|nvls|symm-mem|mscclpp|p2p`), strong, "changes the collectives between GPUs"},
		{"flags", re(`overlap`), strong, "host work no longer hides behind the GPU, or begins to"},
		{"flags", re(`^(model-path|model|revision|load-format|draft-model)|model-override|^lora`), strong, "another model, or other weights of it"},
		{"flags", re(`moe|deepep|deepgemm|a2a|eplb|expert`), 0.85, "other kernels or another placement for experts"},
		{"flags", re(`kv-cache-dtype`), 0.85, "another traffic for the KV cache in every attention"},
		{"flags", re(`torch-compile|deterministic|cpu-offload|two-batch|multi-layer`), usual, "other kernels or an additional wait in every cycle"},
		{"flags", re(`max-running-requests|max-num-seqs`), 0.75, "limits the batch"},
		{"flags", re(`mem-fraction|gpu-memory-utilization`), 0.7, "less memory for the KV cache: smaller batches, retracted requests"},
		{"flags", re(`chunked-prefill|max-prefill|mixed-chunk|prefill-max|max-num-batched`), 0.7, "prefills interrupt decoding otherwise"},
		{"flags", re(`page-size|block-size|radix-cache|prefix-caching|hierarchical-cache|continuous-decode-steps`), 0.7, "the KV cache or the scheduler works otherwise"},
		{"flags", re(`^schedule|sampling-backend|grammar-backend|max-total-tokens|context-length|max-model-len|stream-interval`), 0.55, "the scheduler works otherwise"},

		// Environment of the server process.
		{"env", re(`^(NCCL_DEBUG.*|NCCL_TOPO_DUMP.*|.*_LOG_(LEVEL|MS|FORWARD_ITERS)|SGLANG_LOG.*|.*PROFILER_DIR)$`), innocent, "logging only"},
		{"env", re(`^(SGLANG_RUN_ID|SPECRUN_.*|INVOCATION_ID|JOURNAL_STREAM|SHLVL|_|WINDOWID|SSH_.*|XDG_SESSION_ID)$`), noise, "differs between any two logins"},
		{"env", re(`^(PWD|OLDPWD|HOME|USER|LOGNAME|SHELL|TERM.*|COLORTERM|LANG|LANGUAGE|LC_.*|XDG_.*|DBUS_.*|DISPLAY|MAIL|EDITOR|VISUAL|PAGER|LESS.*|LS_COLORS|HOSTNAME|TMUX.*|STY|TZ|HIST.*|PROMPT.*|PS1|TMPDIR|VSCODE_.*|GIT_.*|CONDA_PROMPT.*|CONDA_SHLVL|WANDB_.*|HF_.*|HUGGING_?FACE.*|.*_TOKEN|.*_API_KEY|.*_SECRET|.*_PASSWORD|.*_PROXY|DEBIAN_FRONTEND|KUBERNETES_.*|SUDO_.*|PIP_.*|VIRTUAL_ENV.*|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|MOTD_.*|WHICH_.*|HOSTTYPE|NO_COLOR)$`), innocent, "of the login, not read by the engine's kernels"},
		{"env", re(`^NCCL_`), certain, "NCCL chooses protocol, algorithm and path of every all-reduce by it"},
		{"env", re(`^SGLANG_SIMULATE_ACC`), certain, "acceptance is simulated"},
		{"env", re(`^CUDA_LAUNCH_BLOCKING$`), certain, "every kernel launch waits"},
		{"env", re(`(CACHE_DIR|CACHE_PATH|CACHE_HOME|_CACHE)$`), rare, "where compiled kernels are kept"},
		{"env", re(`^CUDA_(HOME|PATH|ROOT)$`), minor, "where the toolkit lies: matters when kernels are compiled at the start"},
		{"env", re(`^(CUDA|NVIDIA)_VISIBLE_DEVICES$`), possible, "other GPUs"},
		{"env", re(`^CUDA_`), strong, "read by the CUDA runtime"},
		{"env", re(`^(SGLANG|SGL)_`), strong, "read by the engine"},
		{"env", re(`^EAGLE3_PROFILE_EVERY$`), rare, "how often the profiler prints"},
		{"env", re(`^EAGLE3_PROFILE`), usual, "switches the profiler"},
		{"env", re(`^(VLLM|FLASHINFER|TRITON|TORCH|TORCHINDUCTOR|PYTORCH|CUDNN|CUBLAS|CUTLASS|NVSHMEM|UCX|GLOO|TRTLLM|TENSORRT|DEEPGEMM|DEEP_GEMM|DG|DEEPEP|DEEP_EP|MC|MSCCLPP|TVM)_`), usual, "read by a library that the engine computes with"},
		{"env", re(`^(LD_PRELOAD|OMP_|MKL_|OPENBLAS_|KMP_|GOMP_|NUMA)`), 0.7, "threads, placement or libraries of the host's part of a cycle"},
		{"env", re(`^(LD_LIBRARY_PATH|PYTHONPATH|PYTHONHOME)$`), 0.55, "other libraries may be loaded"},
		{"env", re(`^PATH$`), rare, "matters only when it finds other compilers"},

		// Code.
		{"code", re(`^file .*eagle[^/]*worker`), certain, "the file that runs the speculative cycle has other content"},
		{"code", re(`^file .*/?speculative/`), 0.97, "a file of the speculative path has other content"},
		{"code", re(`^file .*(scheduler|model_runner|attention|layers/|kernel)`), 0.95, "a file that works in every cycle has other content"},
		{"code", re(`^file `), strong, "an engine file has other content"},
		{"code", re(`^(engine-files|files-not-as-installed)$`), strong, "engine files have other content"},
		{"code", re(`^(engine-path|engine-install|git-branch)$`), rare, "where the engine came from: its content is listed by itself"},
		{"code", re(`^engine$`), certain, "another engine"},
		{"code", re(`^engine-version$`), strong, "another version of the engine"},
		{"code", re(`commit|dirty|git|diff`), strong, "an editable engine with other code"},
		{"code", re(`^total-meaning$`), rare, "the TOTAL of a log may mean something else: a question of reading, not of speed"},
		{"code", re(`^specrun`), innocent, "only measures"},
		{"code", re(`^python$`), rare, "another interpreter path: what it imports is listed by itself"},
		{"code", re(`^python-version$`), minor, "the host's part of a cycle is Python"},

		{"patches", re(``), 0.95, "a patch changes the code that is measured"},

		// Packages.
		{"packages", re(`^(torch|sglang|sgl-kernel|sglang-kernel|vllm|triton|pytorch-triton|flashinfer.*|flash-attn.*|flash-mla.*|.*nccl.*|nvidia-(cublas|cudnn|cuda|nvshmem|cutlass).*|cuda-(python|bindings)|deep-?gemm|deep-?ep|xformers|torchao|mscclpp|apache-tvm-ffi|tilelang|cutlass.*|tensorrt.*)$`), usual, "brings the kernels or the collectives"},
		{"packages", re(`^(numpy|transformers|compressed-tensors|xgrammar|llguidance|outlines|orjson|uvloop|pyzmq|msgspec)$`), rare, "works beside the decode cycle"},
		{"packages", re(``), innocent, "does not compute in a cycle"},

		// GPU.
		{"gpu", re(`temperature|temp$|mem(ory)?-(used|free)|utili[sz]ation|power-draw|pstate|serial|bus-?id|fan|bdf`), innocent, "a reading of the moment"},
		{"gpu", re(`uuid`), rare, "another card of the kind"},
		{"gpu", re(`(^|\s)name$|^count$|^gpus$`), certain, "other GPUs"},
		{"gpu", re(`power-?limit|power\.limit`), 0.95, "the power limit sets the clock that can be held"},
		{"gpu", re(`throttl|clocks?-event`), 0.95, "the clock was held back"},
		{"gpu", re(`clock`), strong, "kernels take as long as the clock says"},
		{"gpu", re(`process|neighbo|users|compute-apps`), strong, "somebody else computes on the same GPUs"},
		{"gpu", re(`ecc`), usual, "ECC costs memory bandwidth"},
		{"gpu", re(`driver`), usual, "another driver"},
		{"gpu", re(`topo|nvlink|pcie|p2p|mig|numa`), usual, "another path between GPUs or to the host"},
		{"gpu", re(`^cuda`), possible, "another CUDA version of the driver"},
		{"gpu", re(`vbios|compute-mode|kernel-module`), minor, "rarely felt"},
		{"gpu", re(`persistence`), minor, "clocks fall between requests"},
		{"gpu", re(`memory`), possible, "another amount of memory"},

		// Host.
		{"host", re(`uptime|clock-offset|clock|boot|load|free|available|date|stamp|pid|temperature|disk`), innocent, "differs at any two moments"},
		{"host", re(`^(hostname|name|fqdn|machine-id|address)$`), innocent, "a name"},
		{"host", re(`^(kernel|os|distribution|glibc|libc)$`), innocent, "rarely felt in a decode cycle"},
		{"host", re(`governor|cpufreq|turbo|boost|epp`), 0.75, "the host's part of a cycle takes as long as its clock says"},
		{"host", re(`users|neighbo|processes`), usual, "somebody else works on the host"},
		{"host", re(`^(cpu|cpus|cores|sockets|smt)$`), possible, "another processor for the host's part of a cycle"},
		{"host", re(`numa|affinity|cgroup|quota|cpuset|container`), possible, "placement of the host's part of a cycle"},
		{"host", re(`^(machine|architecture)$`), usual, "another architecture"},
		{"host", re(`^memory|swap`), rare, "another amount of memory"},
		{"host", re(`hugepage|thp|mitigation|iommu|kernel-options|virtual`), minor, "rarely felt in a decode cycle"},
		{"host", re(`cache`), rare, "kernels compiled before, or not"},

		// Workload.
		{"workload", re(`^(outputs-|file$|note|thinned|warmup-|served-model)`), innocent, "a result or a name, not a cause"},
		{"workload", re(`fingerprint|^model|^draft`), 0.95, "another model, or other weights of it"},
		{"workload", re(`^(prompts.*|requests|concurrency|max-tokens|temperature|ignore-eos|seed|input-len|output-len|dataset)$`), strong, "other work was measured"},
		{"workload", re(`^(driver|where|endpoint|tunnel)$`), possible, "measured from elsewhere, or by another client"},
		{"workload", re(`window`), rare, "which part of the load is counted"},
		{"workload", re(`^warmup$`), minor, "how warm the server was"},

		{"command", re(`^(cwd|pid|log|stdout|unit)$`), innocent, "where it ran"},
	}
})

// unknowns are the weights of keys that no rule has, by group.
var unknowns = map[string]float64{"flags": 0.32, "patches": 0.32, "workload": 0.3, "code": 0.28, "gpu": 0.26, "env": 0.24, "packages": 0.1, "host": 0.12, "command": 0.2}

func re(pattern string) *regexp.Regexp { return regexp.MustCompile(pattern) }

// cause gives the weight of a key and the reason for it, "" when nothing is
// known about the key.
func cause(group, key string) (weight float64, why string) {
	k := ruleKey(group, key)
	for _, r := range causes() {
		if r.group == group && r.key.MatchString(k) {
			return r.weight, r.why
		}
	}
	if w, ok := unknowns[group]; ok {
		return w, ""
	}
	return rare, ""
}

// ruleKey gives a key the one spelling that rules use: env in capitals, others
// in small letters with dashes and without leading ones, a flag without "asked".
// Paths keep their underscores.
func ruleKey(group, key string) string {
	switch {
	case group == "env":
		return strings.ToUpper(strings.TrimSpace(key))
	case group == "code" && strings.HasPrefix(key, "file "):
		return "file " + strings.ToLower(strings.TrimSpace(key[len("file "):]))
	case group == "flags":
		key = strings.TrimPrefix(key, askedPrefix)
	}
	return strings.ReplaceAll(strings.ToLower(strings.TrimLeft(strings.TrimSpace(key), "-")), "_", "-")
}

// askedPrefix marks the flags of the command line among those read back.
const askedPrefix = "asked "
