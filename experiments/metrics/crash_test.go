package metrics_test

import (
	"strings"
	"testing"

	"specrun/experiments/metrics"
)

const (
	args    = "[2026-01-01 00:00:00] server_args=ServerArgs(model_path='/m', watchdog_timeout=300, dist_timeout=None)\n"
	ready   = "[2026-01-01 00:01:00] The server is fired up and ready to roll!\n"
	decode  = "[2026-01-01 00:02:00 TP0] Decode batch, #running-req: 1, #token: 96, token usage: 0.00, cuda graph: True, gen throughput (token/s): 90.00, #queue-req: 0\n"
	sigquit = "[2026-01-01 00:03:00] Received sigquit from a child process. It usually means the child failed.\n"
	hit     = "[2026-01-01 00:02:30 TP1] Scheduler hit an exception: Traceback (most recent call last):\n"
	frame   = "  File \"/opt/sglang/srt/speculative/eagle_worker.py\", line 77, in verify\n    x = y\n"
)

func TestCrash(t *testing.T) {
	tests := map[string]struct {
		log   string
		kind  string // "" = no crash
		line  int
		stage string
		check func(*metrics.Crash) bool
	}{
		"out of memory while serving": {args + ready + decode + hit + frame + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has\n" + sigquit,
			"cuda_oom", 7, "serving", func(c *metrics.Crash) bool { return c.Rank == "TP1" && c.InLine == 77 }},
		"no memory for the pool": {args + hit + frame + "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n" + sigquit,
			"cuda_oom", 5, "startup", nil},
		"plain exception": {args + ready + decode + hit + frame + "AttributeError: 'X' object has no attribute 'accept'\n\n" + sigquit,
			"scheduler_exception", 4, "serving", func(c *metrics.Crash) bool {
				return c.Exception == "AttributeError" && c.InFile == "eagle_worker.py" && strings.Contains(c.Message, "accept")
			}},
		"import fault in a scheduler": {args + hit + frame + "ModuleNotFoundError: No module named 'nothing'\n" + sigquit,
			"import_error", 5, "startup", func(c *metrics.Crash) bool { return c.Exception == "ModuleNotFoundError" }},
		"illegal access": {args + ready + decode + hit + frame + "RuntimeError: CUDA error: an illegal memory access was encountered\n" + sigquit,
			"cuda_error", 7, "serving", nil},
		"scheduler watchdog": {args + ready + decode + "[2026-01-01 00:02:20 TP0] Watchdog timeout (self.watchdog_timeout=300)\n" + "[2026-01-01 00:02:21] SIGQUIT received. signum=None, frame=None. It usually means one child failed.\n",
			"watchdog", 4, "serving", nil},
		"NCCL timeout": {args + ready + "[rank3]:[E101 00:02:00.100 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE) ran for 600000 milliseconds\n" + sigquit,
			"nccl_timeout", 3, "serving", func(c *metrics.Crash) bool { return c.Rank == "3" }},
		"HTTP port taken": {args + "[2026-01-01 00:01:00] INFO:     Started server process [12]\n[2026-01-01 00:01:00] ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 30000): address already in use\n",
			"port_in_use", 3, "startup", func(c *metrics.Crash) bool { return c.Port == 30000 }},
		"internal port taken": {args + hit + "RuntimeError: Port is already in use. dist_init_port=29501\n" + sigquit, "port_in_use", 3, "startup", nil},
		"killed by the shell's word": {args + "[2026-01-01 00:00:30] Load weight begin. avail mem=79 GB\nKilled\n",
			"killed_sigkill", 3, "startup", nil},
		"killed by itself after a child failed": {args + hit + frame + "RuntimeError: out of marbles\n\n" + sigquit + "Killed\n",
			"scheduler_exception", 2, "startup", func(c *metrics.Crash) bool {
				return c.Exception == "RuntimeError" && c.Message == "RuntimeError: out of marbles"
			}},
		"killed after a child was": {args + sigquit + "Killed\n", "killed_sigkill", 3, "startup", nil},
		"kernel's killer":          {args + "[ 1234.5] Out of memory: Killed process 4242 (python3) total-vm:99kB\n", "host_oom", 2, "startup", nil},
		"disk full":                {args + hit + frame + "OSError: [Errno 28] No space left on device: '/root/.cache/x'\n" + sigquit, "disk_full", 5, "startup", nil},
		"unknown flag":             {"usage: launch_server.py [-h] --model-path MODEL\nlaunch_server.py: error: unrecognized arguments: --speculative-steps 3\n", "engine_start_failed", 2, "startup", nil},
		"native crash":             {args + ready + decode + "[2026-01-01 00:02:20] Subprocess sglang::scheduler (pid=77) crashed with exit code -11. Triggering SIGQUIT for cleanup...\n", "scheduler_exception", 4, "serving", nil},
		"two starts, the first died": {args + hit + frame + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n" + sigquit + args + ready + decode,
			"cuda_oom", 5, "startup", func(c *metrics.Crash) bool { return c.Run == 1 }},

		"request too long": {args + ready + "[2026-01-01 00:01:30] Error in request: Traceback (most recent call last):\n" + frame + "ValueError: CUDA out of memory. Tried to allocate the words of a prompt\n" + decode, "", 0, "", nil},
		"survived":         {args + ready + "[2026-01-01 00:01:30 TP0] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.\n" + decode, "", 0, "", nil},
		"soft watchdog":    {args + ready + "[2026-01-01 00:01:30] tokenizer watchdog timeout (self.watchdog_timeout=300, self.soft=True)\nsoft=True\n" + decode, "", 0, "", nil},
		"clean stop": {args + ready + decode + "[2026-01-01 00:03:00] SIGTERM received. signum=None frame=None. Draining requests and shutting down...\n" +
			"[2026-01-01 00:03:01 TP0] RuntimeError: CUDA error: driver shutting down\n", "", 0, "", nil},
		"warnings at start": {args + "[2026-01-01 00:00:01] Ignore import error when loading sglang.srt.models.x: ImportError: No module named y\n[2026-01-01 00:00:01] Fail to set RLIMIT_NOFILE: x\n" + ready + decode, "", 0, "", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			rep, err := metrics.Parse(strings.NewReader(tt.log), "x.log")
			if err != nil {
				t.Fatal(err)
			}
			c := rep.Crash
			if tt.kind == "" {
				if c != nil {
					t.Fatalf("crash %+v in the log of a server that lives", c)
				}
				return
			}
			if c == nil || c.Kind != tt.kind || c.FirstLine != tt.line || c.Stage != tt.stage {
				t.Fatalf("crash %+v, want %s at line %d, %s", c, tt.kind, tt.line, tt.stage)
			}
			line := strings.Split(tt.log, "\n")[c.FirstLine-1]
			if !strings.Contains(line, c.Evidence) {
				t.Errorf("evidence %q does not stand in line %q", c.Evidence, line)
			}
			if tt.check != nil && !tt.check(c) {
				t.Errorf("crash %+v", c)
			}
		})
	}
}
