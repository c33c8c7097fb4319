package metrics_test

import (
	"fmt"
	"strings"
	"testing"

	"specrun/experiments/metrics"
)

// variant is an end in the words of some release, as a collector, a terminal or
// several ranks left it.
type variant struct {
	log, kind string // kind "" = no crash
	cause     string // the first line that holds it is where the cause is
	phase     string
}

func (v variant) check(t *testing.T) {
	t.Helper()
	rep, err := metrics.Parse(strings.NewReader(v.log), "x.log")
	if err != nil {
		t.Fatal(err)
	}
	c := rep.Crash
	if v.kind == "" {
		if c != nil {
			t.Errorf("crash %+v in the log of a server that lives", c)
		}
		return
	}
	want := 0
	for i, line := range strings.Split(v.log, "\n") {
		if strings.Contains(line, v.cause) {
			want = i + 1
			break
		}
	}
	if want == 0 {
		t.Fatalf("no line has %q: the text is no test", v.cause)
	}
	if c == nil || c.Kind != v.kind || c.FirstLine != want || v.phase != "" && c.Phase != v.phase {
		t.Errorf("%+v, want %s at line %d, phase %q", c, v.kind, want, v.phase)
	}
}

// torchAt is a line of PyTorch's own logger for a rank.
func torchAt(rank int, text string) string {
	return fmt.Sprintf("[rank%d]:[E1120 12:54:52.122900428 ProcessGroupNCCL.cpp:632] [PG ID 2 PG GUID 3 Rank %d] %s\n", rank, rank, text)
}

// failing is an uncaught exception of one SGLang scheduler.
func failing(rank int, exception string) string {
	return fmt.Sprintf("[2026-01-01 00:02:30 TP%d] Scheduler hit an exception: Traceback (most recent call last):\n%s%s\n\n", rank, frame, exception)
}

// within gives each line of text a prefix.
func within(prefix, text string) string {
	return prefix + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+prefix) + "\n"
}

const (
	cudaTail = "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\n" +
		"For debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
	illegal  = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n" + cudaTail
	memory   = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB"
	vllmHead = "(APIServer pid=11) INFO 01-01 00:00:00 [api_server.py:1896] vLLM API server version 0.11.0\n"
	vllmEnd  = "(APIServer pid=11) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
	quit2    = "[2026-01-01 00:03:00] SIGQUIT received. signum=None, frame=None. It usually means one child failed.\n"
	program  = "Traceback (most recent call last):\n  File \"<frozen runpy>\", line 198, in _run_module_as_main\n  File \"<frozen runpy>\", line 88, in _run_code\n" +
		"  File \"/opt/sglang/launch_server.py\", line 30, in <module>\n    run_server(server_args)\n  File \"/opt/sglang/srt/configs/model_config.py\", line 90, in __init__\n    x = y\n"
)

// Words of the NCCL and CUDA run-times.
func TestCrash_Runtimes(t *testing.T) {
	for name, v := range map[string]variant{
		"pynccl's own exception": {vllmHead + within("(VllmWorkerProcess pid=760) ERROR 07-24 08:26:01 multiproc_worker_utils.py:226] ",
			"Exception in worker VllmWorkerProcess while processing method init_device: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details), Traceback (most recent call last):\n"+
				"  File \"/x/pynccl_wrapper.py\", line 223, in NCCL_CHECK\n    raise RuntimeError(f\"NCCL error: {error_str}\")\nRuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)\n"),
			"nccl_error", "Exception in worker", ""},
		"the watchdog meets a bad access first": {args + ready + decode + torchAt(1, "Process group watchdog thread terminated with exception: CUDA error: an illegal memory access was encountered") + cudaTail + failing(1, illegal) + quit2,
			"cuda_error", "watchdog thread terminated", "running"},
		"the same of an older release": {args + ready + decode + "terminate called after throwing an instance of 'c10::DistBackendError'\n  what():  [PG 2 Rank 0] NCCL watchdog thread terminated with exception: CUDA error: an illegal memory access was encountered\n" + sigquit,
			"cuda_error", "what():", "running"},
		"watchdog of a peer that is gone": {args + ready + torchAt(2, "NCCL watchdog thread terminated with exception: NCCL error: remote process exited or there was a network error, NCCL version 2.21.5") + sigquit,
			"nccl_error", "watchdog thread", ""},
		"watchdog that is stuck itself": {args + ready + decode + torchAt(6, "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives.") +
			torchAt(6, "Terminating the process after attempting to dump debug info, due to ProcessGroupNCCL watchdog hang."),
			"nccl_timeout", "got stuck for 480", "running"},
		"timeouts of all ranks": {args + ready + decode + torchAt(2, "Received a dump signal due to a collective timeout from this local rank and we will try our best to dump the debug info.") +
			torchAt(7, "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE) ran for 600049 milliseconds before timing out.") +
			torchAt(7, "To avoid data inconsistency, we are taking the entire process down."),
			"nccl_timeout", "dump signal", "running"},
		"a rank that never came": {args + failing(0, "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 7/8 clients joined.") + sigquit, "nccl_timeout", "DistStoreError", ""},
		"a head node that never answered": {args + failing(3, "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect to (172.17.0.9, 46229).") + sigquit,
			"nccl_timeout", "DistNetworkError", ""},
		"custom all-reduce": {args + ready + "Failed: Cuda error /workspace/csrc/custom_all_reduce.cuh:368 'invalid argument'\n" + sigquit, "cuda_error", "Failed: Cuda", "running"},
		"CUDA driver":       {args + failing(0, "RuntimeError: Triton Error [CUDA]: device kernel image is invalid") + sigquit, "cuda_error", "device kernel image", ""},
		"cuBLAS":            {args + failing(0, "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx(...)`") + sigquit, "cuda_error", "CUBLAS", ""},
		"no such device":    {args + failing(0, "RuntimeError: CUDA error: no CUDA-capable device is detected") + sigquit, "gpu_driver", "no CUDA-capable", ""},
		"fabric manager":    {args + failing(0, "RuntimeError: CUDA error: system not yet initialized") + sigquit, "gpu_driver", "not yet initialized", ""},
		"AMD":               {args + ready + "Memory access fault by GPU node-2 (Agent handle: 0x7f) on address 0x7f12. Reason: Unknown.\nAborted (core dumped)\n", "cuda_error", "Memory access fault", ""},
		"AMD, memory":       {args + failing(0, "RuntimeError: HIP error: out of memory") + sigquit, "cuda_oom", "HIP error", ""},
		"asynchronous pool": {args + failing(0, "torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)") + sigquit, "cuda_oom", "Allocation on device", ""},
		"vLLM's allocator":  {vllmHead + "(EngineCore_DP0 pid=12) CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62\n" + vllmEnd, "cuda_oom", "CUDA Error", ""},
		"llama.cpp":         {"ggml_backend_cuda_buffer_type_alloc_buffer: allocating 3257.82 MiB on device 0: cudaMalloc failed: out of memory\nllama_model_load: error loading model: unable to allocate CUDA0 buffer\nmain: exiting due to model loading error\n", "cuda_oom", "cudaMalloc", ""},
		"llama.cpp's model": {"llama_model_load: error loading model: tensor 'token_embd.weight' data is not within the file bounds\nmain: exiting due to model loading error\n", "engine_start_failed", "exiting due", ""},
	} {
		t.Run(name, v.check)
	}
}

// Words of kernels, shells, container runtimes, service managers and of Ray.
func TestCrash_KilledFromOutside(t *testing.T) {
	for name, v := range map[string]variant{
		"Xid":                  {args + ready + decode + "[ 1843.308145] NVRM: Xid (PCI:0000:44:00): 79, pid=812, name=python3, GPU has fallen off the bus.\n", "gpu_driver", "Xid", ""},
		"no Xid":               {args + ready + decode + "Feb 14 05:03:41 gpu-1 kernel: NVRM: fallen off the bus and is not responding to commands.\n", "gpu_driver", "fallen off", ""},
		"NVML":                 {args + failing(0, "pynvml.NVMLError_LibRmVersionMismatch: RM has detected an NVML/RM version mismatch.") + sigquit, "gpu_driver", "pynvml", ""},
		"docker without GPUs":  {"docker: Error response from daemon: could not select device driver \"\" with capabilities: [[gpu]].\n", "gpu_driver", "could not select", ""},
		"docker's port":        {"docker: Error response from daemon: driver failed programming external connectivity on endpoint x: Bind for 0.0.0.0:30000 failed: port is already allocated.\n", "port_in_use", "allocated", ""},
		"systemd, memory":      {args + ready + "Nov 20 10:01:02 gpu-1 systemd[1]: sglang.service: A process of this unit has been killed by the OOM killer.\nNov 20 10:01:03 gpu-1 systemd[1]: sglang.service: Failed with result 'oom-kill'.\n", "host_oom", "OOM killer", ""},
		"systemd, signal":      {args + ready + "Nov 20 10:01:02 gpu-1 systemd[1]: sglang.service: Main process exited, code=killed, status=9/KILL\n", "killed_sigkill", "status=9", ""},
		"systemd, core":        {args + ready + "Nov 20 10:01:02 gpu-1 systemd[1]: sglang.service: Main process exited, code=dumped, status=11/SEGV\n", "scheduler_exception", "code=dumped", ""},
		"kubectl describe":     {args + "    Last State:     Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n", "host_oom", "OOMKilled", ""},
		"docker inspect":       {args + "            \"OOMKilled\": false,\n", "", "", ""},
		"job control":          {args + "[1]+  Killed                  python3 -m sglang.launch_server --model-path /m\n", "killed_sigkill", "Killed", ""},
		"torchrun's table":     {args + "  exitcode  : -9 (pid: 812)\n  traceback : Signal 9 (SIGKILL) received by PID 812\n", "killed_sigkill", "exitcode", ""},
		"vLLM's child":         {vllmHead + "(APIServer pid=11) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore_DP0': -9}\n", "killed_sigkill", "Failed core", ""},
		"numpy":                {args + failing(0, "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 12.0 GiB for an array") + sigquit, "host_oom", "ArrayMemoryError", ""},
		"Ray's memory monitor": {vllmHead + "(raylet, ip=10.0.0.3) [2026-01-01 00:00:10,000 E 99 99] (raylet) node_manager.cc:3000: 1 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons\n", "host_oom", "memory pressure", ""},
		"Ray's dead worker": {vllmHead + "(raylet) A worker died or was killed while executing a task by an unexpected system error. Worker exit type: SYSTEM_ERROR Worker exit detail: (1) The process is killed by SIGKILL by OOM killer due to high memory usage.\n",
			"scheduler_exception", "(raylet)", ""},
		"Ray's dead worker, newer": {vllmHead + "(raylet) A worker died or was killed while executing a task by an unexpected system error. Some common causes include: (1) the process was killed by the OOM killer due to high memory usage, (2) ray stop --force was called.\n",
			"scheduler_exception", "(raylet)", ""},
		"an abort behind a stop": {args + ready + decode + "[2026-01-01 00:03:00] SIGTERM received. signum=None frame=None. Draining requests and shutting down...\nterminate called after throwing an instance of 'c10::Error'\n  what():  CUDA error: driver shutting down\n", "", "", ""},
		"a worker without a word": {vllmHead + "(APIServer pid=11) INFO:     Application startup complete.\n(EngineCore_DP0 pid=12) ERROR 01-01 00:09:00 [multiproc_executor.py:230] Worker proc VllmWorker-1 died unexpectedly, shutting down executor.\n",
			"scheduler_exception", "died unexpectedly", ""},
		"a native fault": {args + ready + decode + "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f4858f86740 (most recent call first):\n  File \"/x/pynccl_wrapper.py\", line 351 in ncclCommInitRank\n" + quit2, "scheduler_exception", "Fatal Python", ""},
	} {
		t.Run(name, v.check)
	}
}

// A program that nobody caught the exception of did not start; a traceback that
// somebody caught, printed by a server that goes on, says nothing.
func TestCrash_Uncaught(t *testing.T) {
	const config = "OSError: /data/m does not appear to have a file named config.json.\n"
	for name, v := range map[string]variant{
		"the program":                {program + config, "engine_start_failed", "OSError", ""},
		"a message of several lines": {strings.Replace(program, "    x = y\n", "    from sgl_kernel import common_ops\n", 1) + "ImportError:\n[sgl_kernel] CRITICAL: Could not load any common_ops library!\nError details from previous import attempts:\n- ImportError: /x/sgl_kernel/sm100/common_ops.abi3.so: undefined symbol: _ZNK3c106SymInt6sym_neERKS0_\n", "import_error", "ImportError:", ""},
		"a worker's, without dates": {vllmHead + within("(Worker_TP0 pid=123) ERROR [multiproc_executor.py:751] ", "WorkerProc failed to start.\nTraceback (most recent call last):\n  File \"/x/vllm/kv_cache_utils.py\", line 758, in _check_enough\n    raise ValueError(\nValueError: To serve at least one request with the model's max seq len (8192), 10.0 GiB KV cache is needed, which is larger than the available KV cache memory (6.89 GiB)") +
			within("(EngineCore_DP0 pid=33) ERROR 11-18 14:16:34 [core.py:708] ", "EngineCore failed to start.\nTraceback (most recent call last):\n  File \"/x/vllm/multiproc_executor.py\", line 509, in wait_for_ready\n    raise e from None\nException: WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause.") +
			"(EngineCore_DP0 pid=33) Process EngineCore_DP0:\n" + vllmEnd, "engine_start_failed", "WorkerProc failed", ""},
		"a script":                              {"Traceback (most recent call last):\n  File \"/opt/venv/bin/vllm\", line 8, in <module>\n    sys.exit(main())\n  File \"/x/vllm/entrypoints/cli/main.py\", line 54, in main\n    x()\nValueError: no such task\n", "engine_start_failed", "ValueError", ""},
		"a process of it":                       {vllmHead + "Process SpawnProcess-1:\nTraceback (most recent call last):\n  File \"/usr/lib/python3.12/multiprocessing/process.py\", line 314, in _bootstrap\n    self.run()\n  File \"/x/vllm/engine.py\", line 3, in run\n    x()\nAssertionError: no blocks\n", "engine_start_failed", "AssertionError", ""},
		"a helper process":                      {args + "Process Helper-1:\nTraceback (most recent call last):\n  File \"/usr/lib/python3.12/multiprocessing/process.py\", line 314, in _bootstrap\n    self.run()\nValueError: no matter\n" + ready + decode, "", "", ""},
		"a helper process before the scheduler": {args + "Process Helper-1:\nTraceback (most recent call last):\n  File \"/usr/lib/python3.12/multiprocessing/process.py\", line 314, in _bootstrap\n    self.run()\nValueError: no matter\n" + failing(0, "KeyError: 'x'") + sigquit, "scheduler_exception", "TP0] Scheduler", ""},
		"caught":                                {args + "Traceback (most recent call last):\n  File \"/opt/sglang/srt/utils.py\", line 12, in try_it\n    x()\nValueError: not here\n", "", "", ""},
		"a thread's":                            {args + "Exception in thread Thread-3 (worker):\nTraceback (most recent call last):\n  File \"/usr/lib/python3.12/threading.py\", line 1075, in _bootstrap_inner\n    self.run()\nValueError: not here\n", "", "", ""},
		"interrupted":                           {program + "KeyboardInterrupt\n", "", "", ""},
		"known by its words":                    {program + "RuntimeError: CUDA error: no kernel image is available for execution on the device\n", "cuda_error", "no kernel image", ""},
		"a client's":                            {"Namespace(backend='sglang', num_prompts=10)\n" + strings.ReplaceAll(program, "launch_server", "bench_serving") + "ValueError: no such data set\n", "", "", ""},
		"a parent that waits":                   {program + "EOFError\n[2026-01-01 00:00:30] Rank 0 scheduler is dead. Please check if there are relevant logs.\n[2026-01-01 00:00:31] Exit code: -9\n", "killed_sigkill", "Exit code", ""},
	} {
		t.Run(name, v.check)
	}
}

// Of eight ranks the first cause counts, however their lines are mixed.
func TestCrash_Ranks(t *testing.T) {
	peer := "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]:4242"
	timeouts := ""
	for r := range 8 {
		if r != 5 {
			timeouts += torchAt(r, "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE) ran for 600049 milliseconds before timing out.")
		}
	}
	mixed := make([]string, 8)
	for r := range mixed {
		exception := "AttributeError: 'EagleDraftInput' object has no attribute 'x'"
		if r != 3 {
			exception = "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3356, remote process exited or there was a network error"
		}
		at := fmt.Sprintf("(Worker_TP%d pid=%d) ERROR 01-01 00:00:20 [multiproc_executor.py:597] ", r, 100+r)
		mixed[r] = within(at, fmt.Sprintf("WorkerProc hit an exception.\nTraceback (most recent call last):\n  File \"/x/vllm/worker_%d.py\", line %d, in f\n    x()\n%s", r, 10+r, exception))
	}
	var rows strings.Builder
	rows.WriteString(vllmHead + "(APIServer pid=11) INFO:     Application startup complete.\n")
	for line := range 5 {
		for _, r := range []int{3, 0, 1, 2, 4, 5, 6, 7} {
			rows.WriteString(strings.Split(mixed[r], "\n")[line] + "\n")
		}
	}
	capture := "[2026-01-01 00:00:10 TP%d] Capture cuda graph begin. This can take up to several minutes. avail mem=3.02 GB\n"
	for name, v := range map[string]variant{
		"timeouts behind an exception": {args + ready + decode + failing(5, "KeyError: 'kv_indptr'") + timeouts + quit2, "scheduler_exception", "TP5] Scheduler", "running"},
		"captures behind a peer's end": {args + fmt.Sprintf(capture, 0) + failing(0, "Exception: Capture cuda graph failed: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.9.0.4]:51014") +
			failing(4, memory) + failing(1, peer) + sigquit, "cuda_oom", "torch.OutOfMemoryError", "capture"},
		"network behind an exception": {args + ready + failing(2, "AssertionError: page size") + failing(0, "torch.distributed.DistBackendError: NCCL error in: x.cpp:77, ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.") + quit2,
			"scheduler_exception", "TP2] Scheduler", "running"},
		"interleaved lines": {rows.String(), "scheduler_exception", "Worker_TP3 pid=103) ERROR 01-01 00:00:20 [multiproc_executor.py:597] WorkerProc hit", "running"},
	} {
		t.Run(name, v.check)
	}
	rep, err := metrics.Parse(strings.NewReader(rows.String()), "x.log")
	if err != nil {
		t.Fatal(err)
	}
	if c := rep.Crash; c == nil || c.Rank != "TP3" || c.InFile != "worker_3.py" || c.InLine != 13 || c.Exception != "AttributeError" {
		t.Errorf("interleaved: %+v", rep.Crash)
	}
}

// The same crash, whatever stands before or around its lines.
func TestCrash_Wrapped(t *testing.T) {
	crash := args + ready + decode + failing(1, illegal) + quit2
	// In what has a prefix of its own SGLang's stamps stay.
	for name, prefix := range map[string]string{
		"ray":             "\x1b[36m(RayWorkerWrapper pid=20911, ip=10.0.0.3)\x1b[0m ",
		"ray, old":        "(pid=20911) ",
		"two actors":      "(EngineCore_DP0 pid=1) (Worker_TP1 pid=2) ",
		"torchrun":        "[default1]:",
		"mpirun":          "[1,1]<stderr>:",
		"journal":         "2026-01-01T00:02:30+0100 gpu-1 python3[812]: ",
		"syslog":          "Jan  1 00:02:30 gpu-1 sglang[812]: ",
		"kubectl":         "[pod/sgl-6f7c9-abcde/engine] 2026-01-01T00:02:30.000411Z ",
		"cri":             "2026-01-01T00:02:30.217487080+08:00 stdout F ",
		"compose":         "\x1b[36msglang-1  | \x1b[0m",
		"python's logger": "2026-01-01 00:02:30,697 - __main__ - INFO - ",
		"progress bar":    "Capturing batches (bs=1 avail_mem=3.02 GB):  40%|####      | 2/5 [00:01<00:02]\r",
		"colour":          "\x1b[1;31m",
		"carriage return": "\r\x1b[K",
	} {
		t.Run(name, variant{log: within(prefix, crash), kind: "cuda_error", cause: "torch.AcceleratorError", phase: "running"}.check)
	}
	t.Run("cut at its beginning", variant{log: "tn/backends/flashinfer.py\", line 1081, in build\n    x()\n" + illegal + quit2, kind: "cuda_error", cause: "torch.AcceleratorError"}.check)
	t.Run("long bar before", variant{log: strings.Repeat("=", 200_000) + "\r" + crash, kind: "cuda_error", cause: "torch.AcceleratorError", phase: "running"}.check)
	t.Run("long line before", variant{log: "server_args=ServerArgs(" + strings.Repeat("x='CUDA error: y', ", 12_000) + ")\n" + failing(0, memory) + quit2, kind: "cuda_oom", cause: "torch.OutOfMemoryError"}.check)
}

// A request that is accepted behind the marker may never be answered: that it was
// accepted is no life to a server that stands still, tokens are.
func TestFollower_SuspectBehindAnAcceptedRequest(t *testing.T) {
	const accepted = "[2026-01-01 00:02:31] INFO:     127.0.0.1:56304 - \"POST /generate HTTP/1.1\" 200 OK\n"
	const zero = "(APIServer pid=11) INFO 01-01 00:02:40 [loggers.py:208] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.1%, Prefix cache hit rate: 0.0%\n"
	oom := "[2026-01-01 00:02:30 TP1] " + memory + "\n"
	for name, c := range map[string]struct {
		log     string
		suspect bool
	}{
		"accepted":            {args + ready + decode + oom + accepted, true},
		"accepted, idle line": {vllmHead + ready + oom + accepted + zero, true},
		"answered":            {args + ready + decode + oom + accepted + decode, false},
		"answered before":     {args + ready + accepted + decode + oom, true},
	} {
		f := metrics.NewFollower()
		f.Write([]byte(c.log))
		if got := f.Suspect(); (got != nil) != c.suspect || got != nil && (got.Kind != "cuda_oom" || got.Phase != "running") {
			t.Errorf("%s: %+v", name, got)
		}
		if got := f.Crash(); got != nil {
			t.Errorf("%s: %+v though nothing says that the process ends", name, got)
		}
	}
}
