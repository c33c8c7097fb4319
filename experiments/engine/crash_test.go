package engine

import (
	"strings"
	"testing"
)

// An argument parser's refusal comes with its own words, and with the flag that
// was probably meant.
func TestUnknownFlag(t *testing.T) {
	const listed = "usage: launch_server.py [-h] --model-path MODEL_PATH [--tokenizer-path X] [--host HOST]\n" +
		"                        [--port PORT] [--tp-size N] [--dtype D] [--seed-of-this-release S]\n" +
		"                        [--speculative-num-steps N] [--speculative-eagle-topk N] [--page-size N]\n" +
		"                        [--log-level L] [--device D] [--max-running-requests N]\n"
	for name, c := range map[string]struct{ engine, log, want string }{
		"misspelt":             {"sglang", "launch_server.py: error: unrecognized arguments: --speculative-atention-mode decode\n", "did you mean speculative-attention-mode?"},
		"cut short":            {"sglang", "launch_server.py: error: unrecognized arguments: --speculative-draft /d\n", "--speculative-draft is unknown to this release: did you mean speculative-draft-model-path?"},
		"two":                  {"sglang", "launch_server.py: error: unrecognized arguments: --page-sise 16 --zzzzzzzz\n", "did you mean page-size?; --zzzzzzzz is unknown"},
		"only in other ones":   {"sglang", "launch_server.py: error: unrecognized arguments: --enable-multi-layer-eagle\n", "--enable-multi-layer-eagle is unknown to this release"},
		"of the usage text":    {"sglang", listed + "launch_server.py: error: unrecognized arguments: --seed-of-this-relase 1\n", "did you mean seed-of-this-release?"},
		"choice":               {"sglang", "launch_server.py: error: argument --attention-backend: invalid choice: 'flashinfr' (choose from 'triton', 'fa3')\n", "--attention-backend has no value flashinfr in this release; it has 'triton', 'fa3'"},
		"value":                {"sglang", "launch_server.py: error: argument --tp-size/--tensor-parallel-size: invalid int value: 'x'\n", "--tp-size: invalid int value: 'x'"},
		"missing":              {"sglang", "launch_server.py: error: argument --page-size: expected one argument\n", "--page-size: expected one argument"},
		"ambiguous":            {"sglang", "launch_server.py: error: ambiguous option: --speculative-draft could match --speculative-draft-model-path, --speculative-draft-model-revision\n", "write the whole name"},
		"vllm":                 {"vllm", "usage: vllm serve [model_tag] [options]\nvllm serve: error: unrecognized arguments: --max-model-length 1024\n", "did you mean max-model-len?"},
		"vllm's main":          {"vllm", "usage: main.py [-h] [-v] {serve,bench} ...\nmain.py: error: unrecognized arguments: --gpu-memory-utilisation 0.9\n", "did you mean gpu-memory-utilization?"},
		"vllm, JSON":           {"vllm", "vllm serve: error: argument --speculative-config/-sc: Value {x cannot be converted to <function loads at 0x7>.\n", "--speculative-config: Value {x cannot be converted"},
		"anything else":        {"command", "serve: error: unrecognized arguments: --foo\n", "--foo is unknown to this release"},
		"behind a rank's word": {"sglang", "[rank0]: launch_server.py: error: unrecognized arguments: --tp-sizes 8\n", "did you mean tp-size?"},
	} {
		e, err := Lookup(c.engine)
		if err != nil {
			t.Fatal(err)
		}
		got := e.CrashIn([]byte(c.log))
		if got == nil || got.Kind != "engine_start_failed" || !strings.Contains(got.Advice, c.want) || !strings.Contains(got.Evidence, "error: ") {
			t.Errorf("%s: %+v", name, got)
			continue
		}
		// A start that is followed says the same.
		r := e.Readiness(Server{})
		o := r.Observe([]byte(c.log))
		if o.Crash == nil || o.Crash.Advice != got.Advice {
			t.Errorf("%s: followed %+v", name, o.Crash)
		}
	}
}

// Where memory ran out decides what helps: often the opposite.
func TestCrash_AdviceByPhase(t *testing.T) {
	const end = "\n[2026-03-02 10:00:31] Received sigquit from a child process. It usually means the child failed.\n"
	const head = "[2026-03-02 10:00:30 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
	const oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 1.00 GiB free.\n"
	for name, c := range map[string]struct{ log, oom, advice string }{
		"loading": {head + "  File \"/x/model_loader/loader.py\", line 10, in load_model\n    x()\n" + oom + end, "loading", "raise tp-size"},
		"pool":    {head + "  File \"/x/memory_pool.py\", line 10, in __init__\n    x()\nRuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n" + end, "kv_pool", "raise mem-fraction-static"},
		"capture": {head + "  File \"/x/cuda_graph_runner.py\", line 10, in capture\n    x()\nException: Capture cuda graph failed: CUDA out of memory. Tried to allocate 2.00 GiB.\n" + end, "capture", "lower mem-fraction-static"},
		"running": {"[2026-03-02 10:00:29] The server is fired up and ready to roll!\n" + head + "  File \"/x/eagle_worker.py\", line 10, in verify\n    x()\n" + oom + end, "running", "lower mem-fraction-static, max-running"},
		"unknown": {head + "  File \"/x/y.py\", line 10, in z\n    x()\n" + oom + end, "unknown", "lower mem-fraction-static"},
	} {
		got := sg(t).CrashIn([]byte(c.log))
		if got == nil || got.OOM != c.oom || !strings.Contains(got.Advice, c.advice) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A KV cache that cannot hold one request is no matter of a flag's name.
func TestCrash_SmallCache(t *testing.T) {
	const log = "(EngineCore_DP0 pid=12) ERROR 01-01 00:00:10 [core.py:708] EngineCore failed to start.\n(EngineCore_DP0 pid=12) ERROR 01-01 00:00:10 [core.py:708] Traceback (most recent call last):\n" +
		"(EngineCore_DP0 pid=12) ERROR 01-01 00:00:10 [core.py:708] ValueError: To serve at least one request with the models's max seq len (131072), (4.54 GiB KV cache is needed, which is larger than the available KV cache memory (1.71 GiB).\n"
	if got := vl(t).CrashIn([]byte(log)); got == nil || got.Kind != "engine_start_failed" || !strings.Contains(got.Advice, "max-model-len") {
		t.Errorf("%+v", got)
	}
}

// Every kind that a log can show has advice with every engine.
func TestCrash_EveryKindHasAdvice(t *testing.T) {
	for _, kind := range []string{"cuda_oom", "cuda_graph_capture", "cuda_error", "nccl_error", "nccl_timeout", "watchdog", "port_in_use", "killed_sigkill",
		"host_oom", "import_error", "engine_start_failed", "disk_full", "gpu_driver"} {
		if commonAdvice[kind] == "" {
			t.Errorf("%s has none", kind)
		}
	}
	for _, table := range []crashAdvice{sglangAdvice, vllmAdvice} {
		for key := range table {
			if commonAdvice[key] == "" {
				t.Errorf("%s is no kind", key)
			}
		}
	}
}
