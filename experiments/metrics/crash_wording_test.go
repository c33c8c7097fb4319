package metrics_test

import (
	"fmt"
	"strings"
	"testing"

	"specrun/experiments/metrics"
)

// startOf parses a log whose crash is looked for.
func crashOf(t *testing.T, log string) *metrics.Crash {
	t.Helper()
	rep, err := metrics.Parse(strings.NewReader(log), "x.log")
	if err != nil {
		t.Fatal(err)
	}
	return rep.Crash
}

// The same ends in the words of several releases, engines and libraries: a log
// ends with them.
func TestCrash_Wordings(t *testing.T) {
	const sglang = args + "[2026-01-01 00:00:10 TP0] Load weight begin. avail mem=78.50 GB\n"
	const vllm = "(APIServer pid=11) INFO 01-01 00:00:00 [api_server.py:1896] vLLM API server version 0.11.0\n"
	const engine = "(EngineCore_DP0 pid=12) ERROR 01-01 00:00:10 [core.py:708] "
	for kind, texts := range map[string][]string{
		"cuda_oom": {
			"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 79.15 GiB total capacity; 1.00 GiB already allocated)",
			"torch.OutOfMemoryError: HIP out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 191.98 GiB",
			"torch.AcceleratorError: CUDA error: out of memory",
			"RuntimeError: Triton Error [CUDA]: out of memory",
			"RuntimeError: CUDA driver error: CUDA_ERROR_OUT_OF_MEMORY",
			"RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. Please try lowering `max_num_seqs`",
			"ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
			"ValueError: Free memory on device cuda:0 (4.2/79.1 GiB) on startup is less than desired GPU memory utilization (0.9, 71.2 GiB).",
			"ggml_backend_cuda_buffer_type_alloc_buffer: allocating 42000.00 MiB on device 0: cudaMalloc failed: out of memory",
		},
		"port_in_use": {
			"OSError: [Errno 98] Address already in use",
			"zmq.error.ZMQError: Address already in use (addr='tcp://127.0.0.1:30234')",
			"RuntimeError: The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
			"start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 8080",
			"ValueError: Port 30000 is already in use",
		},
		"killed_sigkill": {
			"Rank 3 scheduler died during initialization (exit code: -9). If exit code is -9 (SIGKILL), a common cause is the OS OOM killer.",
			"RuntimeError: Worker process died with <Signals.SIGKILL: 9>.",
			"./launch.sh: line 12:  4242 Killed                  python3 -m sglang.launch_server",
		},
		"host_oom": {
			"OSError: [Errno 12] Cannot allocate memory",
			"RuntimeError: unable to mmap 17179869184 bytes from file: Cannot allocate memory (12)",
			"terminate called after throwing an instance of 'std::bad_alloc'",
			"[ 4242.1] oom-kill:constraint=CONSTRAINT_MEMCG,task=python3,pid=4242",
		},
		"gpu_driver": {
			"RuntimeError: No CUDA GPUs are available",
			"RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU",
			"RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices()?",
			"RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment",
		},
		"disk_full": {
			"OSError: [Errno 28] No space left on device: '/root/.cache/huggingface/x.lock'",
			"RuntimeError: [enforce fail at inline_container.cc:603] . PytorchStreamWriter failed writing file: No space left on device",
			"OSError: [Errno 122] Disk quota exceeded",
		},
		"nccl_error": {
			"torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3356, unhandled cuda error",
			"RuntimeError: NCCL Error 2: unhandled system error (run with NCCL_DEBUG=INFO for details)",
		},
		"cuda_error": {
			"torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
			"RuntimeError: CUDA error: device-side assert triggered",
			"RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
		},
		"cuda_graph_capture": {
			"Exception: Capture cuda graph failed: CUDA error: operation not permitted",
			"RuntimeError: CUDA error: operation not permitted when stream is capturing",
		},
		"import_error": {
			"ImportError: /x/sgl_kernel/common_ops.abi3.so: undefined symbol: _ZN3c104cuda9SetDeviceEab",
			"IndentationError: unexpected indent",
		},
	} {
		for _, text := range texts {
			logs := map[string]string{
				"sglang": sglang + hit + frame + text + "\n\n" + sigquit,
				"vllm": vllm + engine + "EngineCore failed to start.\n" + engine + "Traceback (most recent call last):\n" +
					engine + "  File \"/x/vllm/v1/engine/core.py\", line 699, in run_engine_core\n" + engine + "    core = EngineCoreProc(*args)\n" + engine + text + "\n" +
					"(APIServer pid=11) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n",
				"rank prefix":    sglang + "[rank5]: Traceback (most recent call last):\n[rank5]:   File \"/x/y.py\", line 3, in run\n[rank5]: " + text + "\n" + sigquit,
				"nothing but it": sglang + text + "\n",
			}
			for form, log := range logs {
				if kind == "import_error" && form == "nothing but it" {
					continue // a line alone is no exception that ended anything
				}
				c := crashOf(t, log)
				if c == nil || c.Kind != kind {
					t.Errorf("%s, %s: %q: %+v", kind, form, text, c)
					continue
				}
				if line := strings.Split(log, "\n")[c.FirstLine-1]; !strings.Contains(line, c.Evidence) {
					t.Errorf("%s, %s: evidence %q is not in line %q", kind, form, c.Evidence, line)
				}
			}
		}
	}
}

// The same words behind which the server goes on, and words that only sound so.
func TestCrash_Decoys(t *testing.T) {
	for _, text := range []string{
		"Ignore import error when loading sglang.srt.models.qwen3: No module named 'timm'",
		"Fail to set RLIMIT_NOFILE: current limit exceeds maximum limit",
		"/x/torch/cuda/__init__.py:61: FutureWarning: The pynvml package is deprecated. Please install nvidia-ml-py instead.",
		"W1129 10:00:00.000000 123 torch/utils/cpp_extension.py:118] No CUDA runtime is found, using CUDA_HOME='/usr/local/cuda'",
		"Skipping import of cpp extensions due to incompatible torch version 2.11.0 for torchao version 0.9.0",
		"[2026-01-01 00:00:01] WARNING server_args.py:1: CUDA out of memory safeguards: lower --mem-fraction-static",
		"kernel.cu(123): error: argument of type \"float *\" is incompatible",
		"Found ulimit of 20000 and failed to automatically increase with error current limit exceeds maximum limit. This can cause fd limit errors like `OSError: [Errno 24] Too many open files`",
		"Capture cuda graph end. Time elapsed: 3.21 s. mem usage=1.10 GB. avail mem=9.80 GB.",
		"exit code 0",
		"The tokenizer watchdog timeout is 300 s",
		"NCCL version 2.27.5+cuda12.9",
		portTried, portRetried,
	} {
		if c := crashOf(t, args+text+"\n"+ready+decode); c != nil {
			t.Errorf("%q behind which it serves: %+v", text, c)
		}
		if c := crashOf(t, args+ready+decode+text+"\n"); c != nil {
			t.Errorf("%q at the end: %+v", text, c)
		}
	}
	// A stop that was asked for, with what real servers print then.
	for _, tail := range []string{
		"[2026-01-01 00:03:00] SIGTERM received. signum=None frame=None. Draining requests and shutting down...\n[2026-01-01 00:03:05] Gracefully exiting... Remaining number of requests 0\n",
		"(APIServer pid=1) INFO 01-01 00:03:00 [launcher.py:110] Shutting down FastAPI HTTP server.\nINFO:     Shutting down\nINFO:     Finished server process [1]\n",
	} {
		if c := crashOf(t, args+ready+decode+tail); c != nil {
			t.Errorf("%q: %+v", tail, c)
		}
	}
}

// What an engine says that took another port.
const (
	portTried   = "INFO 11-30 01:00:00 [network_utils.py:248] Port 8000 is already in use, trying port 8001"
	portRetried = "WARNING 11-30 01:00:00 [parallel.py:746] Address already in use. Retrying with a new port."
)

// A port that the engine has replaced by another one is not what a start fails of
// later.
func TestCrash_PortThatWasReplaced(t *testing.T) {
	const failure = "ERROR 11-30 01:00:20 [core.py:506] EngineCore failed to start.\n" +
		"ERROR 11-30 01:00:20 [core.py:506] Traceback (most recent call last):\n" +
		"ERROR 11-30 01:00:20 [core.py:506]   File \"/v/core.py\", line 506, in run_engine_core\n" +
		"ERROR 11-30 01:00:20 [core.py:506]     x()\n" +
		"ERROR 11-30 01:00:20 [core.py:506] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n" +
		"RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
	for _, line := range []string{portTried, portRetried} {
		if c := crashOf(t, line+"\n"+failure); c == nil || c.Kind != "cuda_oom" || c.FirstLine != 6 {
			t.Errorf("%q before the failure: %+v", line, c)
		}
		if c := crashOf(t, line+"\n"); c != nil {
			t.Errorf("%q and no more: %+v", line, c)
		}
	}
}

// What an argument parser says ends a start, whatever program it names and
// whoever prints the line; the same words in a request do not end a server.
func TestCrash_ArgumentsRefusedOrQuoted(t *testing.T) {
	const refusal = "error: unrecognized arguments: --max-num-seq 4"
	for _, line := range []string{
		"api_server.py: " + refusal,
		"vllm serve: " + refusal,
		"python3 -m sglang.launch_server: " + refusal,
		"/opt/venv/bin/llama-server: error: argument --ctx-size: expected one argument",
		"server-1  | launch.py: " + refusal,
		"(APIServer pid=11) vllm serve: " + refusal,
	} {
		if c := crashOf(t, "usage: x [-h] [--max-num-seqs N]\n"+line+"\n"); c == nil || c.Kind != "engine_start_failed" {
			t.Errorf("%q: %+v", line, c)
		}
	}
	for _, line := range []string{
		"[2026-01-01 00:02:00] Receive: obj=GenerateReqInput(text='main.py: " + refusal + "')",
		"[2026-01-01 00:02:00] INFO: the prompt was \"x: error: argument --steps: invalid int value\"",
	} {
		if c := crashOf(t, args+ready+decode+line+"\n"+decode); c != nil {
			t.Errorf("%q: %+v", line, c)
		}
	}
}

// A module that nobody needs does not import, with a traceback, and the server
// serves: however it ends later, that was not why.
func TestCrash_ImportThatTheStartOutlived(t *testing.T) {
	const fault = "Traceback (most recent call last):\n" +
		"  File \"/usr/lib/python3.12/importlib/__init__.py\", line 90, in import_module\n" +
		"    return _bootstrap._gcd_import(name[level:], package, level)\n" +
		"  File \"/opt/x/plugin/__init__.py\", line 3, in <module>\n" +
		"    import helper\n" +
		"RuntimeError: helper needs another GPU\n"
	if c := crashOf(t, args+fault); c == nil || c.Kind != "import_error" {
		t.Errorf("nothing behind it: %+v", c)
	}
	if c := crashOf(t, args+fault+ready); c != nil {
		t.Errorf("ready behind it: %+v", c)
	}
}

// Running out of memory is told apart by what the server was doing.
func TestCrash_PhaseOfMemory(t *testing.T) {
	const oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB\n"
	at := func(text string) string { return "[2026-01-01 00:00:10 TP0] " + text + "\n" }
	in := func(file, function string) string {
		return fmt.Sprintf("  File %q, line 12, in %s\n    x = y\n", file, function)
	}
	load, loaded := at("Load weight begin. avail mem=78.50 GB"), at("Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=8.50 GB, mem usage=70 GB.")
	pool, capture := at("Memory pool end. avail mem=5.1 GB"), at("Capture cuda graph begin. This can take up to several minutes. avail mem=5.1 GB")
	dead := "\n" + sigquit
	v := "(EngineCore_DP0 pid=12) INFO 01-01 00:00:10 [x.py:1] "
	ve := "(EngineCore_DP0 pid=12) ERROR 01-01 00:00:20 [core.py:708] "
	for name, c := range map[string]struct{ log, phase string }{
		"weights":                 {args + load + hit + frame + oom + dead, metrics.PhaseLoading},
		"weights, by frames":      {args + hit + in("/x/model_executor/model_runner.py", "load_model") + in("/x/torch/nn/parameter.py", "empty") + oom + dead, metrics.PhaseLoading},
		"no room for the pool":    {args + load + loaded + hit + frame + "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: 0.8\n" + dead, metrics.PhaseKVPool},
		"the pool itself":         {args + load + loaded + hit + in("/x/mem_cache/memory_pool.py", "__init__") + oom + dead, metrics.PhaseKVPool},
		"capture":                 {args + load + loaded + pool + capture + hit + in("/x/cuda_graph_runner.py", "capture") + in("/x/models/llama.py", "forward") + oom + dead, metrics.PhaseCapture},
		"capture, by its message": {args + load + loaded + pool + capture + hit + frame + "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 1 GiB\n" + dead, metrics.PhaseCapture},
		"draft's weights":         {args + load + loaded + pool + capture + at("Capture cuda graph end. Time elapsed: 3 s.") + load + hit + in("/x/eagle_worker.py", "__init__") + oom + dead, metrics.PhaseLoading},
		"requests":                {args + load + loaded + pool + capture + ready + decode + hit + frame + oom + dead, metrics.PhaseRunning},
		"requests, by its words":  {at("Prefill out of memory. Try to lower your batch size.") + sigquit, metrics.PhaseRunning},
		"vllm weights":            {v + "Starting to load model /m...\n" + ve + "EngineCore failed to start.\n" + ve + oom, metrics.PhaseLoading},
		"vllm profiling":          {v + "Starting to load model /m...\n" + v + "Loading weights took 1.2 seconds\n" + ve + "EngineCore failed to start.\n" + ve + oom, metrics.PhaseKVPool},
		"vllm capture":            {v + "Model loading took 1.2 GiB\nCapturing CUDA graphs (mixed prefill-decode, PIECEWISE):  10%|#         | 1/10\n" + ve + "EngineCore failed to start.\n" + ve + oom, metrics.PhaseCapture},
		"vllm cache":              {ve + "EngineCore failed to start.\n" + ve + "ValueError: No available memory for the cache blocks.\n", metrics.PhaseKVPool},
		"unknown":                 {args + hit + frame + oom + dead, ""},
	} {
		got := crashOf(t, c.log)
		if got == nil || got.Phase != c.phase || got.Kind != "cuda_oom" && got.Cause != "cuda_oom" {
			t.Errorf("%s: %+v, want phase %q", name, got, c.phase)
		}
	}
}

// Of eight ranks one has the cause; what the others say of it, before or behind,
// is none.
func TestCrash_FirstCauseAmongRanks(t *testing.T) {
	var log strings.Builder
	log.WriteString(args)
	for r := range 8 {
		fmt.Fprintf(&log, "[2026-01-01 00:00:10 TP%d] Load weight begin. avail mem=78.50 GB\n", r)
	}
	peer := "RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.1]:4242\n"
	fmt.Fprintf(&log, "[2026-01-01 00:00:20 TP2] Scheduler hit an exception: Traceback (most recent call last):\n%s%s\n", frame, peer)
	fmt.Fprintf(&log, "[2026-01-01 00:00:20 TP5] Scheduler hit an exception: Traceback (most recent call last):\n%storch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n\n", frame)
	for _, r := range []int{0, 1, 3, 4, 6, 7} {
		fmt.Fprintf(&log, "[2026-01-01 00:00:21 TP%d] Scheduler hit an exception: Traceback (most recent call last):\n%s%s\n", r, frame, peer)
	}
	log.WriteString(sigquit + "Killed\n")
	if c := crashOf(t, log.String()); c == nil || c.Kind != "cuda_oom" || c.Rank != "TP5" || c.Phase != metrics.PhaseLoading {
		t.Errorf("sglang: %+v", c)
	}

	log.Reset()
	for r := range 8 {
		fmt.Fprintf(&log, "(Worker_TP%d pid=%d) INFO 01-01 00:00:10 [gpu_model_runner.py:2602] Starting to load model /m...\n", r, 100+r)
	}
	for _, r := range []int{3, 0, 1} {
		text := "RuntimeError: NCCL communicator was aborted on rank 0: Connection reset by peer"
		if r == 3 {
			text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
		}
		at := fmt.Sprintf("(Worker_TP%d pid=%d) ERROR 01-01 00:00:20 [multiproc_executor.py:597] ", r, 100+r)
		log.WriteString(at + "WorkerProc failed to start.\n" + at + "Traceback (most recent call last):\n" + at + "  File \"/x/multiproc_executor.py\", line 571, in worker_main\n" + at + text + "\n")
	}
	log.WriteString("(EngineCore_DP0 pid=50) ERROR 01-01 00:00:21 [core.py:708] EngineCore failed to start.\n" +
		"(APIServer pid=11) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n")
	if c := crashOf(t, log.String()); c == nil || c.Kind != "cuda_oom" || c.Rank != "TP3" || c.Phase != metrics.PhaseLoading {
		t.Errorf("vllm: %+v", c)
	}
}

// What a patch breaks at the import is named with its file and line, also when the
// exception is none of an import.
func TestCrash_PatchDoesNotImport(t *testing.T) {
	for _, exception := range []string{"SyntaxError: invalid syntax", "NameError: name 'torhc' is not defined", "AttributeError: type object 'EAGLEWorker' has no attribute 'verify'"} {
		log := args + hit + "  File \"/opt/sglang/srt/managers/scheduler.py\", line 40, in init_worker\n    import x\n" +
			"  File \"<frozen importlib._bootstrap>\", line 1360, in _find_and_load\n" +
			"  File \"/opt/sglang/srt/speculative/eagle_worker.py\", line 1402, in <module>\n    EAGLEWorker.verify = wrap(EAGLEWorker.verify)\n" + exception + "\n\n" + sigquit
		if c := crashOf(t, log); c == nil || c.Kind != "import_error" || c.InFile != "eagle_worker.py" || c.InLine != 1402 {
			t.Errorf("%s: %+v", exception, c)
		}
	}
}

// Engines whose process dies while it serves did start.
func TestCrash_EngineDiesServing(t *testing.T) {
	log := "(APIServer pid=1) INFO:     Application startup complete.\n" +
		"(EngineCore_DP0 pid=2) ERROR 01-01 00:00:10 [core.py:718] EngineCore encountered a fatal error.\n" +
		"(EngineCore_DP0 pid=2) ERROR 01-01 00:00:10 [core.py:718] Traceback (most recent call last):\n" +
		"(EngineCore_DP0 pid=2) ERROR 01-01 00:00:10 [core.py:718]   File \"/x/core.py\", line 1, in step\n" +
		"(EngineCore_DP0 pid=2) ERROR 01-01 00:00:10 [core.py:718] AssertionError: no such block\n" +
		"(APIServer pid=1) ERROR 01-01 00:00:10 [async_llm.py:480] AsyncLLM output_handler failed.\n"
	if c := crashOf(t, log); c == nil || c.Kind != "scheduler_exception" || c.FirstLine != 2 || !strings.Contains(c.Message, "no such block") {
		t.Errorf("%+v", c)
	}
}
