package server

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestMark_NothingStartsUntilTheStopIsProved(t *testing.T) {
	b := newBench(t)
	apps := fakeSMI(t, b)
	bad := b.start(b.launch("bad", freePort(t)))
	line := strconv.Itoa(bad.Identity.PID) + ", GPU-a, 1234, [Not Found]\n"
	if err := os.WriteFile(apps, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.stop("bad", StopOptions{GPUWait: 10 * time.Millisecond}); !errors.As(err, new(*SurvivorError)) {
		t.Fatalf("stop: %v", err)
	}
	next := b.launch("next", freePort(t))
	_, err := Start(t.Context(), b.h, next)
	var marked *MarkedError
	if !errors.As(err, &marked) || len(marked.Marks) != 1 || marked.Marks[0].Launch != b.id("bad") {
		t.Fatalf("start on a marked host: %v", err)
	}
	if m := marked.Marks[0]; len(m.GPU) != 1 || m.GPU[0].MiB != "1234" || m.When.IsZero() || !strings.Contains(err.Error(), "1234 MiB of GPU-a") || !strings.Contains(marked.Hint(), "server stop "+b.id("bad")) {
		t.Errorf("%+v: %v", m, err)
	}
	if st := b.look("next"); st.Phase != Absent {
		t.Errorf("it was started: %v", st.Phase)
	}
	seen, err := Marks(t.Context(), b.h, b.state)
	if err != nil || len(seen) != 1 || seen[0].Why() != marked.Marks[0].Why() {
		t.Errorf("marks: %+v, %v", seen, err)
	}
	if err := os.WriteFile(apps, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.stop("bad", StopOptions{}); err != nil {
		t.Fatal(err)
	}
	if seen, err := Marks(t.Context(), b.h, b.state); err != nil || len(seen) != 0 {
		t.Errorf("after the proof: %+v, %v", seen, err)
	}
	b.start(next)
}

func TestMark_OfAnEarlierBootOrClearedByHand(t *testing.T) {
	b := newBench(t)
	write := func(boot string) {
		t.Helper()
		if err := os.MkdirAll(b.state+"/mark", 0o700); err != nil {
			t.Fatal(err)
		}
		text := "when 1700000000\nboot " + boot + "\nleft 5 D nv_wait python -m x\nunowned\nport 30000\n"
		if err := os.WriteFile(b.state+"/mark/gone", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	now, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	write("00000000-dead-beef-0000-000000000000")
	if seen, err := Marks(t.Context(), b.h, b.state); err != nil || len(seen) != 0 {
		t.Errorf("of an earlier boot: %+v, %v", seen, err)
	}
	l := b.launch("next", freePort(t))
	b.start(l)
	write(strings.TrimSpace(string(now)))
	cleared, err := ClearMarks(t.Context(), b.h, b.state)
	if err != nil || len(cleared) != 1 || cleared[0].Launch != "gone" || cleared[0].Port != 30000 || len(cleared[0].Processes) != 1 {
		t.Errorf("cleared: %+v, %v", cleared, err)
	}
	if seen, err := Marks(t.Context(), b.h, b.state); err != nil || len(seen) != 0 {
		t.Errorf("after it: %+v, %v", seen, err)
	}
}

func TestStop_GivesBackTheLaunchesLeases(t *testing.T) {
	b := newBench(t)
	l := b.launch("leased", freePort(t))
	names := []string{PortLease(l.Port), "gpu-0"}
	if err := AcquireLease(t.Context(), b.h, b.state, names, Owner{Launch: l.ID}, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := AcquireLease(t.Context(), b.h, b.state, []string{"gpu-1"}, Owner{Launch: "other"}, time.Minute); err != nil {
		t.Fatal(err)
	}
	b.start(l)
	proof, err := b.stop("leased", StopOptions{Release: true})
	if err != nil || !proof.Released {
		t.Fatalf("%+v, %v", proof, err)
	}
	left, err := Leases(t.Context(), b.h, b.state)
	if err != nil || len(left) != 1 || left[0].Owner.Launch != "other" {
		t.Errorf("left: %+v, %v", left, err)
	}
	if proof, err := b.stop("leased", StopOptions{Release: true}); err != nil || proof.Released {
		t.Errorf("again: %+v, %v", proof, err)
	}
}

// Memory of a process that cannot be seen from here is somebody's all the same.
func TestStart_MemoryWithoutAProcessIsABusyGPU(t *testing.T) {
	b := newBench(t)
	fakeSMI(t, b)
	if err := os.WriteFile(b.cards, []byte("0, GPU-a, 40000\n1, GPU-b, 600\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := b.launch("gpu", freePort(t))
	l.gpuWait = 10 * time.Millisecond
	l.GPUs = []string{"0"}
	if _, err := Start(t.Context(), b.h, l); !errors.As(err, new(*GPUBusyError)) || !strings.Contains(err.Error(), "40000 MiB of GPU-a by no process that can be seen") {
		t.Errorf("a card whose memory is used: %v", err)
	}
	l.GPUs = []string{"7"}
	var refused *RefusedError
	if _, err := Start(t.Context(), b.h, l); !errors.As(err, &refused) || refused.Reason != "gpus" || !strings.Contains(refused.Detail, "no GPU 7") {
		t.Errorf("a card that is not there: %v", err)
	}
	l.GPUs = []string{"GPU-b"} // its 600 MiB are the driver's
	b.start(l)
	b.sees("gpu", "CUDA_VISIBLE_DEVICES", "GPU-b")
}
