package metrics

import (
	"regexp"
	"slices"
)

// Crash kinds, as the log samples name them.
const (
	kindCUDAOOM     = "cuda_oom"
	kindCapture     = "cuda_graph_capture"
	kindCUDA        = "cuda_error"
	kindNCCL        = "nccl_error"
	kindNCCLTimeout = "nccl_timeout"
	kindWatchdog    = "watchdog"
	kindPort        = "port_in_use"
	kindSigkill     = "killed_sigkill"
	kindHostOOM     = "host_oom"
	kindScheduler   = "scheduler_exception"
	kindImport      = "import_error"
	kindStart       = "engine_start_failed"
	kindDisk        = "disk_full"
	kindUnreachable = "server_unreachable"
	kindDriver      = "gpu_driver"
)

// force says what a matched rule proves on its own.
type force int

const (
	// suspect lines are a cause only when something else says that the process
	// ended: the same words also stand in warnings of servers that live.
	suspect force = iota
	// fatal lines say themselves that the process ends.
	fatal
	// outcome lines prove an end but are consequences, never the cause when
	// there is another finding.
	outcome
)

// crashRule is one marker: text as data, so that adding one needs no code.
type crashRule struct {
	kind   string
	re     *regexp.Regexp
	force  force
	client bool     // counts in a client's output only, never in a server log
	port   int      // group of re that holds a port
	words  []string // one of them is in every line that re matches
}

func rule(kind, re string, f force) crashRule {
	r := crashRule{kind: kind, re: regexp.MustCompile(re), force: f}
	r.words = literals(r.re)
	return r
}

// portRule is one whose first group may hold the port.
func portRule(re string, f force) crashRule {
	r := rule(kindPort, re, f)
	r.port = 1
	return r
}

// clientRule is one for the output of a client.
func clientRule(kind, re string) crashRule {
	r := rule(kind, re, suspect)
	r.client = true
	return r
}

// match is what the rule finds in a message, nil when it is none of its.
func (r *crashRule) match(msg string) []string {
	if !containsAny(msg, r.words) {
		return nil
	}
	return r.re.FindStringSubmatch(msg)
}

// crashRules in the order in which they are tried; the first that matches a
// line names it.
var crashRules = []crashRule{
	rule(kindCapture, `Capture .{0,60}cuda graph failed|Capture .{0,60}CUDA graph failed|CUDA graph capture failed`, fatal),
	rule(kindCapture, `when stream is capturing|cudaErrorStreamCapture|previous error during capture|stream capture was invalidated|during CUDA graph capture\. If you need`, suspect),
	rule(kindNCCLTimeout, `due to ProcessGroupNCCL watchdog hang`, fatal),
	rule(kindNCCLTimeout, `Watchdog caught collective operation timeout|collective operation timeout: WorkNCCL|due to a collective timeout from|watchdog got stuck for \d+ seconds|Timed out waiting \d+ms for .*(?:send|recv|store)|Some NCCL operations have failed or timed out|DistStoreError: |The client socket has timed out after \d+`, suspect),
	rule(kindNCCL, `NCCL error(?: in)?:|NCCL Error \d+:|ncclUnhandledCudaError|ncclSystemError|ncclInternalError|ncclRemoteError|ncclInvalidUsage|ncclInvalidArgument|DistBackendError.*NCCL|NCCL WARN .*(?:failed|[Ee]rror)`, suspect),
	rule(kindWatchdog, `[Ww]atchdog [Tt]imeout \(|scheduler watchdog timeout|RPC call to \w+ timed out`, suspect),
	rule(kindCUDAOOM, `(?:CUDA|HIP|XPU|NPU) out of memory\. Tried to allocate|OutOfMemoryError: (?:CUDA|HIP) out of memory|OutOfMemoryError: Allocation on device|^Not enough memory\. Please try to increase --mem-fraction-static|RuntimeError: Not enough memory|[Oo]ut of memory even after retracting|(?:Prefill|Decode) out of memory\. Try to lower|Cuda failure \d* ?'out of memory'|(?:CUDA|HIP) [Ee]rror: out of memory|CUDA error \d+ at .*: out of memory|CUDA runtime error in .*out of memory|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|hipErrorOutOfMemory|cudaMalloc failed: out of memory|Triton Error \[CUDA\]: out of memory|CUDA out of memory occurred when|CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED|No available memory for the cache blocks|Free memory on device .* is less than desired GPU memory utilization|Requested amount of GPU memory \(.*could not be allocated`, suspect),
	rule(kindHostOOM, `[Oo]ut of memory: Kill(?:ed)? process|Killed process \d+ \(.*total-vm|oom-kill:|result 'oom-kill'|oom_reaper: reaped process|Memory cgroup out of memory|has been killed by the OOM killer|systemd-oomd killed|running low on memory|killed due to memory pressure|^MemoryError\b|ArrayMemoryError: |DefaultCPUAllocator: (?:can't|not enough memory)|Cannot allocate memory|OOMKilled(?:"?[:=] ?true|[ ,.;)]|$)|std::bad_alloc`, suspect),
	rule(kindDriver, `Failed to initialize NVML|NVMLError_(?:LibRmVersionMismatch|DriverNotLoaded|GpuIsLost|LibraryNotFound|Unknown)|couldn't communicate with the NVIDIA driver|could not select device driver|nvml error: |No devices were found|NVRM: Xid|GPU is lost|GPU_IS_LOST|NVRM:.*fallen off the bus|has fallen off the bus|CUDA driver version is insufficient|no CUDA-capable device is detected|CUDA_ERROR_(?:NO_DEVICE|SYSTEM_)|Driver/library version mismatch|NVML/RM version mismatch|No CUDA GPUs are available|Found no NVIDIA driver|Unexpected error from cudaGetDeviceCount|CUDA unknown error|Error 80[23]: system |CUDA error: system (?:not yet initialized|has unsupported)`, suspect),
	rule(kindCUDA, `(?:CUDA|HIP) [Ee]rror: |CUDA driver error: |CUDA runtime error in |CUDA_ERROR_|[Cc]uda error \S+:\d+|Triton Error \[CUDA\]|GPUassert: |device-side assert triggered|an illegal memory access was encountered|Memory access fault by GPU|cudaErrorIllegalAddress|cudaErrorLaunchFailure|CUBLAS_STATUS_[A-Z_]+ when calling|CUBLAS_STATUS_(?:EXECUTION_FAILED|INTERNAL_ERROR|NOT_INITIALIZED)|cuDNN error:|CUDNN_STATUS_(?:EXECUTION_FAILED|INTERNAL_ERROR|NOT_INITIALIZED)`, suspect),
	rule(kindNCCL, `(?:NCCL|Process group) watchdog thread terminated with exception`, suspect),
	rule(kindDisk, `No space left on device|\[Errno 28\]|Disk quota exceeded|\(os error 28\)|ENOSPC`, suspect),
	portRule(`failed to bind to [^\s]*:(\d+) \(errno: 98`, suspect),
	portRule(`\[Errno 98\](?:[^(]*\('[^']*', (\d+))?`, fatal),
	portRule(`[Pp]ort(?: is)? already in use.*?(\d{2,5})?`, suspect),
	portRule(`[Aa]ddress already in use(?:.*[Pp]ort:? (\d+))?|EADDRINUSE(?:.*[Pp]ort:? (\d+))?|ZMQError: Address in use|[Pp]ort is already allocated`, suspect),
	portRule(`couldn't bind (?:HTTP server|to) ?(?:server )?socket.*port: ?(\d+)`, suspect),
	portRule(`[Pp]ort (\d+) is (?:already )?(?:in use|used|occupied)|rpc_port .* is used by a process already| at (\d+) is not available in \d+ seconds`, suspect),
	rule(kindSigkill, `Exit code: -9\b|[Ff]ailed core proc\(s\): .*: -9\b|exited with (?:code|status) 137\b|exit(?:ed with)? ?(?:code|status):? ?(?:-9|137)\b|exitcode *[:=] ?-9\b|code -9\b|^Killed$|^\[\d+\][+-]? +(?:\d+ )?Killed\b|zsh: killed |line \d+: +\d+ Killed\b|killed by signal 9|killed by signal: Killed|[Ss]ignal 9 \(SIGKILL\)|code=killed, status=9/KILL|died with <?Signals\.SIGKILL|received SIGKILL`, fatal),
	rule(kindScheduler, `(?:Scheduler|DataParallelController|DetokenizerManager|TokenizerManager|MultiTokenizerRouter) hit an exception: Traceback`, fatal),
	rule(kindStart, `EngineCore failed to start|Engine core initialization failed|Engine process failed to start|WorkerProc failed to start|WorkerProc hit an exception|Exception in worker \S+ while processing method|EngineCore encountered a fatal error|EngineCore hit an exception: Traceback|AsyncLLM output_handler failed|EngineDeadError|exiting due to model loading error`, fatal),
	// Behind the program's name and nothing else: a server that works may quote such words.
	rule(kindStart, `launch_server\.py: error: |^[\w./ -]{1,120}: error: (?:unrecognized arguments|ambiguous option: |the following arguments are required: |argument (?:--?[\w./-]+|[a-z_]+): |.{0,80}expected (?:one|at least one) argument)`, fatal),
	rule(kindScheduler, `Subprocess \S+ \(pid=\d+\) crashed with exit code|Child process unexpectedly failed with an exit code|[Mm]em(?:ory)? [Ll]eak [Dd]etected!|Fatal Python error:|Segmentation fault|Segfault encountered|SIGSEGV received|SIGABRT received|core dumped|code=dumped, status=|^Bus error|GGML_ASSERT\(.*failed`, fatal),
	rule("", `Received sigquit from a child process|SIGQUIT received\.|Rank \d+ scheduler is dead|scheduler died during initialization|terminate called after throwing|taking the entire process down|(?:Worker|Engine core) proc \S+ died unexpectedly|A worker died or was killed while executing|because its worker process has died|ActorDiedError`, outcome),
	clientRule(kindUnreachable, `Connection refused|ConnectionRefusedError|Max retries exceeded|Cannot connect to host|ServerDisconnectedError|Connection reset by peer|RemoteDisconnected|All connection attempts failed|Couldn't connect to server|Failed to connect to`),
}

// Consequences of another process's death: never a cause.
var reConsequence = regexp.MustCompile(`Connection closed by peer|Connection reset by peer|Broken pipe|See root cause above|See stack trace for root cause|EOFError|BrokenPipeError|ConnectionResetError|[Rr]emote process exited|Received sigquit|another process has|process group .* destroyed|remote process exiting prematurely|See stack trace(?: \(above\))? for the root cause`)

// Words that look like a crash and are none.
var reHarmless = regexp.MustCompile(`Ignore import error|Fail to set RLIMIT|(?i)\bwarning:? |soft=True|UserWarning|SyntaxWarning|FutureWarning|DeprecationWarning|already in use(?:, trying port \d|\. Retrying with a new port)`)

var (
	reFrame     = regexp.MustCompile(`^\s*File "([^"]+)", line (\d+)`)
	reException = regexp.MustCompile(`^((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Timeout|Warning)?)(?:: |:?$)(.*)`)
	reChained   = regexp.MustCompile(`^(?:During handling of the above exception|The above exception was the direct cause)`)
	reDeadRank  = regexp.MustCompile(`Rank (\d+) scheduler is dead`)
	reExited    = regexp.MustCompile(`^(\S+) exited with code \d+`)
	reErrPort   = regexp.MustCompile(`(?i)port:? ?(\d+)|:(\d{2,5})\b|\('[^']*', (\d+)`)
	reFlags     = regexp.MustCompile(`: error: `)
	reStopped   = regexp.MustCompile(`^(?:KeyboardInterrupt|SystemExit|CancelledError)$`)
	reImportErr = regexp.MustCompile(`^(?:SyntaxError|IndentationError|TabError|ImportError|ModuleNotFoundError)$`)
)

// crashWords are in every line that a rule can match: most lines have none.
var crashWords = wordsOf(crashRules)

// wordsOf joins the words of rules, without those that hold another one.
func wordsOf(rules []crashRule) []string {
	var all []string
	for _, r := range rules {
		all = append(all, r.words...)
	}
	slices.Sort(all)
	return dropHolders(slices.Compact(all))
}

// readyWords are printed when start-up is over.
var readyWords = []string{"fired up and ready to roll", "Application startup complete", "Starting vLLM server", "Starting vLLM API server", "Uvicorn running on"}

// stopWords are printed when a stop was asked for.
var stopWords = []string{"Gracefully exiting", "SIGTERM received", "Shutting down", "Finished server process"}

// crashHints are what usually helps, by kind.
var crashHints = map[string]string{
	kindCUDAOOM:     "lower mem-fraction-static, or the batch and context sizes",
	kindCapture:     "lower mem-fraction-static or cuda-graph-max-bs",
	kindNCCLTimeout: "look for the rank that stopped first; the others only waited for it",
	kindPort:        "stop what holds the port, or let specrun choose one (port: auto)",
	kindSigkill:     "killed by SIGKILL; the host running out of memory is the usual reason: see the kernel log",
	kindHostOOM:     "the host ran out of memory: fewer processes, or more memory for the container",
	kindImport:      "the server could not be imported: check the patched file and the packages",
	kindDisk:        "free space on the host",
	kindUnreachable: "the server was gone: the reason stands in the server's log",
	kindDriver:      "the GPU driver does not answer; its state is unknown, not free",
}
