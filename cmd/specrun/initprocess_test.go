package main

import (
	"strings"
	"testing"

	"specrun/deploy/server"
)

// What cannot be read of another user's process is said, not taken for absent.
func TestCommandOf_SaysWhatCannotBeRead(t *testing.T) {
	hidden := commandOf(server.Process{Argv: []string{"python3", "-m", "sglang.launch_server"}, User: "alice", EnvironHidden: true}, nil)
	for _, want := range []string{"its environment cannot be read, since it is user alice's", "its folder cannot be read", "where its output goes cannot be read"} {
		if !strings.Contains(strings.Join(hidden.Notes, "\n"), want) {
			t.Errorf("no %q in %q", want, hidden.Notes)
		}
	}
	seen := commandOf(server.Process{Argv: []string{"python3"}, Cwd: "/d", Log: "/d/log", LogGone: true, Unit: "sglang.service", CPUs: "0-3", Listens: []int{30211, 30000},
		Environ: map[string]string{"SPECRUN_RUN_ID": "k3v7", "NCCL_DEBUG": "INFO", "TERM": "xterm"}}, map[string]string{})
	for _, want := range []string{"as launch k3v7", "/d/log was deleted or replaced", "unit: sglang.service", "CPUs 0-3 only"} {
		if !strings.Contains(strings.Join(seen.Notes, "\n"), want) {
			t.Errorf("no %q in %q", want, seen.Notes)
		}
	}
	if seen.Port != 30000 || len(seen.Env) != 1 || seen.Env["NCCL_DEBUG"] != "INFO" {
		t.Errorf("port %d, env %v", seen.Port, seen.Env)
	}
}
