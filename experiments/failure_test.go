package experiments

import (
	"errors"
	"strings"
	"testing"

	"specrun/deploy/server"
	"specrun/experiments/record"
)

// Memory that ran out is told apart by what the server did.
func TestCrashClass(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		crash server.Crash
		ready bool
		want  record.Class
	}{
		{server.Crash{Kind: "cuda_oom", OOM: "loading"}, false, record.ClassOOMLoading},
		{server.Crash{Kind: "cuda_oom", OOM: "kv_pool"}, false, record.ClassOOMLoading},
		{server.Crash{Kind: "cuda_oom", OOM: "capture"}, false, record.ClassOOMCapture},
		{server.Crash{Kind: "cuda_graph_capture", OOM: "capture"}, false, record.ClassOOMCapture},
		{server.Crash{Kind: "cuda_graph_capture"}, false, "cuda_graph_capture"},
		{server.Crash{Kind: "cuda_oom", OOM: "running"}, false, record.ClassOOMRunning},
		{server.Crash{Kind: "cuda_oom", OOM: "unknown"}, true, record.ClassOOMRunning},
		{server.Crash{Kind: "cuda_oom", OOM: "unknown"}, false, "cuda_oom"},
		{server.Crash{Kind: "nccl_error"}, true, "nccl_error"},
	} {
		if got := crashClass(c.crash, c.ready); got != c.want {
			t.Errorf("%+v, ready %v: %s", c.crash, c.ready, got)
		}
	}
}

func TestBlamePatch(t *testing.T) {
	t.Parallel()
	state := PatchState{Files: []PatchedFile{{Path: "/x/eagle_worker.py", Patches: []string{"profiling-v4"}}, {Path: "/x/scheduler.py"}}}
	hint := func(kind, file string) string {
		err := blamePatch(&server.CrashError{Crash: server.Crash{Kind: kind, File: file, Line: 402, Advice: "as ever"}}, state)
		var crash *server.CrashError
		if !errors.As(err, &crash) {
			t.Fatal(err)
		}
		return crash.Hint()
	}
	if got := hint("import_error", "eagle_worker.py"); !strings.Contains(got, "line 402 of /x/eagle_worker.py") || !strings.Contains(got, "profiling-v4") {
		t.Error(got)
	}
	for _, other := range [][2]string{{"import_error", "scheduler.py"}, {"import_error", ""}, {"cuda_oom", "eagle_worker.py"}} {
		if got := hint(other[0], other[1]); got != "as ever" {
			t.Errorf("%v: %s", other, got)
		}
	}
}
