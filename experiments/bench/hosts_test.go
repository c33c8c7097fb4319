package bench_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"

	"specrun/experiments/bench"
	"specrun/remote"
	"specrun/remote/loopback"
)

var _ bench.Host = (*remote.Host)(nil)

// TestWorker_InEachShell runs the scripts in the shells that this machine has;
// hosts have one of them as /bin/sh.
func TestWorker_InEachShell(t *testing.T) {
	onLinux(t)
	for _, shell := range [][]string{{"/bin/sh"}, {"dash"}, {"bash"}, {"busybox", "sh"}} {
		path, err := exec.LookPath(shell[0])
		if err != nil {
			continue
		}
		t.Run(shell[0], func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			h := remote.Local(remote.LocalConfig{Name: "here", Dir: t.TempDir(), Shell: append([]string{path}, shell[1:]...)})
			t.Cleanup(func() { h.Close() })
			state := t.TempDir()
			worker, err := bench.EnsureWorker(ctx, h, state, func(string, string) (string, error) { return self(t), nil })
			if err != nil {
				t.Fatal(err)
			}
			f := newFake(t, five)
			dir := filepath.Join(state, "run")
			await(t, h, dir, bench.StateAbsent)
			if err := bench.Start(ctx, h, worker, dir, job(f)); err != nil {
				t.Fatal(err)
			}
			if p := await(t, h, dir, bench.StateDone, bench.StateDead); p.Report == nil || p.Report.Completed != 6 {
				t.Errorf("%+v", p)
			}

			asked := make(chan struct{}, 8)
			hangs := newFake(t, func(_ int, _ map[string]any, w *writer) {
				asked <- struct{}{}
				<-w.r.Context().Done()
			})
			dir = filepath.Join(state, "stopped run")
			if err := bench.Start(ctx, h, worker, dir, job(hangs)); err != nil {
				t.Fatal(err)
			}
			<-asked
			await(t, h, dir, bench.StateRunning)
			if err := bench.Stop(ctx, h, dir); err != nil {
				t.Fatal(err)
			}
			await(t, h, dir, bench.StateDead)
		})
	}
}

// TestWorker_OutlivesTheConnection closes the SSH connection, and with it all
// that the server started for it, in the middle of a benchmark.
func TestWorker_OutlivesTheConnection(t *testing.T) {
	onLinux(t)
	ctx := context.Background()
	dir := t.TempDir()
	server, err := loopback.Start(t.Context(), loopback.Options{Dir: filepath.Join(dir, "ssh")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	dial := func() *remote.Host {
		h, err := remote.Dial(ctx, server.Config("gpu-01"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { h.Close() })
		return h
	}
	release, asked := make(chan struct{}), make(chan struct{}, 8)
	f := newFake(t, func(n int, b map[string]any, w *writer) {
		asked <- struct{}{}
		<-release
		five(n, b, w)
	})
	h := dial()
	worker, err := bench.EnsureWorker(ctx, h, "~/state of mine", func(string, string) (string, error) { return self(t), nil })
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(dir, "ssh", "state of mine", "bin"); filepath.Dir(worker) != want {
		t.Errorf("worker %s, want it in %s", worker, want)
	}
	run := filepath.Join(dir, "run")
	if err := bench.Start(ctx, h, worker, run, job(f)); err != nil {
		t.Fatal(err)
	}
	<-asked
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	close(release)
	if p := await(t, dial(), run, bench.StateDone, bench.StateDead); p.Report == nil || p.Report.Completed != 6 {
		t.Errorf("%+v, log %q", p, p.Log)
	}
}
