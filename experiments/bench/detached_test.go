package bench_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"specrun/experiments/bench"
	"specrun/remote"
)

// TestMain lets the test binary be the worker, as specrun itself is.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "bench-worker" && os.Args[2] == "--dir" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := bench.Serve(ctx, os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	os.Exit(m.Run())
}

func onLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the worker needs linux")
	}
}

func local(t *testing.T) *remote.Host {
	t.Helper()
	h := remote.Local(remote.LocalConfig{Name: "here", Dir: t.TempDir()})
	t.Cleanup(func() { h.Close() })
	return h
}

// runDir is a worker's folder. A worker that came too late may still write its
// last line there when the test is over.
func runDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "specrun-run")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			err := os.RemoveAll(dir)
			if err == nil {
				return
			}
			if time.Now().After(deadline) {
				t.Error(err)
				return
			}
		}
	})
	return filepath.Join(dir, "run")
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// await polls until the benchmark is in one of the states.
func await(t *testing.T, h bench.Host, dir string, states ...bench.State) bench.Progress {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		p, err := bench.Poll(context.Background(), h, dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range states {
			if p.State == s {
				return p
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("still %s, log %q", p.State, p.Log)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestWorker_WholeLife(t *testing.T) {
	onLinux(t)
	ctx := context.Background()
	h, state := local(t), t.TempDir()
	find := func(goos, goarch string) (string, error) {
		if goos != "linux" || goarch != runtime.GOARCH {
			t.Errorf("asked for %s/%s", goos, goarch)
		}
		return self(t), nil
	}
	path, err := bench.EnsureWorker(ctx, h, state, find)
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := bench.EnsureWorker(ctx, h, state, find)
	if err != nil || again != path {
		t.Fatalf("pushed again to %s, %v", again, err)
	}
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Error("the worker was pushed a second time")
	}
	if entries, _ := os.ReadDir(filepath.Join(state, "bin")); len(entries) != 1 {
		t.Errorf("bin holds %v", entries)
	}

	f := newFake(t, five)
	dir := filepath.Join(state, "runs", "it's a run")
	if p := await(t, h, dir, bench.StateAbsent); p.Report != nil {
		t.Error("a report before the start")
	}
	j := job(f)
	j.Stall = time.Minute
	if err := bench.Start(ctx, h, path, dir, j); err != nil {
		t.Fatal(err)
	}
	p := await(t, h, dir, bench.StateDone, bench.StateDead)
	if p.State != bench.StateDone || p.Report == nil {
		t.Fatalf("state %s, log %q", p.State, p.Log)
	}
	if p.Report.Completed != 6 || p.Report.Job.Stall != time.Minute || p.Done != 6 || p.AtUs == 0 {
		t.Errorf("report %+v, progress %+v", p.Report, p)
	}
	if err := bench.Start(ctx, h, path, dir, j); err != nil { // adopts what is done
		t.Fatal(err)
	}
	if len(f.bodies) != 6 {
		t.Errorf("%d requests, want 6: a second start measured again", len(f.bodies))
	}
}

func TestWorker_ManyStartsRunOne(t *testing.T) {
	onLinux(t)
	release := make(chan struct{})
	f := newFake(t, func(n int, b map[string]any, w *writer) {
		<-release
		five(n, b, w)
	})
	h, dir := local(t), runDir(t)
	j := job(f)
	j.Requests = 1
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := bench.Start(context.Background(), h, self(t), dir, j); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	close(release)
	await(t, h, dir, bench.StateDone)
	if len(f.bodies) != 1 {
		t.Errorf("%d workers sent a request, want 1", len(f.bodies))
	}
}

func TestWorker_StopEndsItAndNothingStartsAfterwards(t *testing.T) {
	onLinux(t)
	ctx := context.Background()
	asked := make(chan struct{}, 8)
	f := newFake(t, func(_ int, _ map[string]any, w *writer) {
		asked <- struct{}{}
		<-w.r.Context().Done()
	})
	h, dir := local(t), runDir(t)
	if err := bench.Start(ctx, h, self(t), dir, job(f)); err != nil {
		t.Fatal(err)
	}
	<-asked
	await(t, h, dir, bench.StateRunning)
	for range 2 {
		if err := bench.Stop(ctx, h, dir); err != nil {
			t.Fatal(err)
		}
	}
	if p := await(t, h, dir, bench.StateDead, bench.StateDone); p.State != bench.StateDead || !strings.Contains(p.Log, "stopped") {
		t.Errorf("state %s, log %q", p.State, p.Log)
	}
	other := filepath.Join(t.TempDir(), "never")
	if err := bench.Stop(ctx, h, other); err != nil {
		t.Fatal(err)
	}
	var refused *bench.RefusedError
	if err := bench.Start(ctx, h, self(t), other, job(f)); !errors.As(err, &refused) {
		t.Errorf("start after stop: %v", err)
	}
}

func TestWorker_KilledIsDeadNotDone(t *testing.T) {
	onLinux(t)
	ctx := context.Background()
	asked := make(chan struct{}, 8)
	f := newFake(t, func(_ int, _ map[string]any, w *writer) {
		asked <- struct{}{}
		<-w.r.Context().Done()
	})
	h, dir := local(t), runDir(t)
	if err := bench.Start(ctx, h, self(t), dir, job(f)); err != nil {
		t.Fatal(err)
	}
	<-asked
	raw, err := os.ReadFile(filepath.Join(dir, "identity"))
	if err != nil {
		t.Fatal(err)
	}
	var boot string
	var pid int
	if _, err := fmt.Sscan(string(raw), &boot, &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, h, dir, bench.StateDead)
	if err := bench.Start(ctx, h, self(t), dir, job(f)); err != nil { // adopts: whoever asks must see it dead
		t.Fatal(err)
	}
	await(t, h, dir, bench.StateDead)
}

func TestStart_WorkerThatCannotRunIsRefusedWithItsOutput(t *testing.T) {
	onLinux(t)
	h, dir := local(t), t.TempDir()
	broken := filepath.Join(dir, "worker")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\necho no such luck\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	f := newFake(t, five)
	err := bench.Start(context.Background(), h, broken, filepath.Join(dir, "run"), job(f))
	var refused *bench.RefusedError
	if !errors.As(err, &refused) || !strings.Contains(refused.Log, "no such luck") || !strings.Contains(err.Error(), "status 3") {
		t.Fatalf("error %v", err)
	}
}

func TestFindWorker(t *testing.T) {
	dir := t.TempDir()
	running := filepath.Join(dir, "specrun")
	_, err := bench.FindWorker(running, "")("linux", "arm64")
	var missing *bench.NoWorkerError
	if !errors.As(err, &missing) || !strings.Contains(missing.Hint(), "make build") || !strings.Contains(err.Error(), "specrun-linux-arm64") {
		t.Fatalf("error %v", err)
	}
	if runtime.GOOS != "linux" {
		return
	}
	if got, err := bench.FindWorker(self(t), "")("linux", runtime.GOARCH); err != nil || got != self(t) {
		t.Errorf("running binary: %s, %v", got, err)
	}
	beside := filepath.Join(dir, "specrun-linux-"+runtime.GOARCH)
	if err := os.Symlink(self(t), beside); err != nil {
		t.Fatal(err)
	}
	if got, err := bench.FindWorker(running, "")("linux", runtime.GOARCH); err != nil || got != beside {
		t.Errorf("beside: %s, %v", got, err)
	}
	wrong := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	if _, err := bench.FindWorker(running, self(t))("linux", wrong); err == nil || !strings.Contains(err.Error(), "built for") {
		t.Errorf("a worker of another architecture: %v", err)
	}
}
