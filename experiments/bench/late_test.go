package bench

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"specrun/remote"
)

// A worker that hangs before it has an identity cannot be adopted or stopped by
// anyone: whoever started it ends it and says so.
func TestStart_WorkerThatNeverBeginsIsEndedAndRefused(t *testing.T) {
	dir := t.TempDir()
	pidFile := filepath.Join(dir, "pid")
	worker := filepath.Join(dir, "worker")
	if err := os.WriteFile(worker, []byte("#!/bin/sh\ntrap '' TERM\necho $$ >'"+pidFile+"'\necho stuck\nexec sleep 600\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	h := remote.Local(remote.LocalConfig{})
	defer h.Close()
	j := Job{BaseURL: "http://127.0.0.1:1", Endpoint: EndpointChat, Prompts: "builtin:chat", Requests: 1, Concurrency: 1, MaxTokens: 1}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := start(ctx, h, worker, filepath.Join(dir, "run"), j, 500*time.Millisecond)
	var refused *RefusedError
	if !errors.As(err, &refused) || !strings.Contains(refused.Reason, "did not begin") || !strings.Contains(refused.Log, "stuck") {
		t.Fatalf("error %v", err)
	}
	raw, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		syscall.Kill(pid, syscall.SIGKILL)
		t.Errorf("worker %d lives on: %v", pid, err)
	}
}
