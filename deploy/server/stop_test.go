package server

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

func TestStop_ServerThatIgnoresTermIsKilled(t *testing.T) {
	b := newBench(t)
	port := freePort(t)
	st := b.start(b.launch("deaf", port, "--ignore-term"))
	if _, err := b.waitReady(st, port); err != nil {
		t.Fatal(err)
	}
	proof, err := b.stop("deaf", StopOptions{Grace: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if !proof.Terminated || len(proof.Killed) != 1 || proof.Killed[0] != st.Identity.PID || proof.Signal != 9 {
		t.Errorf("proof = %+v", proof)
	}
	if living(st.Identity.PID) {
		t.Error("it lives on")
	}
}

// The worker left the session, was orphaned and ignores TERM, as schedulers do
// that outlive their launcher.
func TestStop_EscapedWorkerIsFoundByItsRunID(t *testing.T) {
	b := newBench(t)
	port := freePort(t)
	st := b.start(b.launch("fork", port, "--double-fork"))
	ready, err := b.waitReady(st, port)
	if err != nil {
		t.Fatal(err)
	}
	worker := ready.Listener.PID
	if worker == st.Identity.PID {
		t.Fatal("the stand-in did not fork")
	}
	proof, err := b.stop("fork", StopOptions{Grace: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if len(proof.Killed) != 1 || proof.Killed[0] != worker || living(worker) || living(st.Identity.PID) {
		t.Errorf("proof = %+v, worker is pid %d", proof, worker)
	}
	if h, err := PortHolder(t.Context(), b.h, port); h != nil || err != nil {
		t.Errorf("port holder = %v, %v", h, err)
	}
}

func TestStop_WorkerThatOutlivedItsServer(t *testing.T) {
	b := newBench(t)
	port := freePort(t)
	st := b.start(b.launch("orphan", port, "--double-fork"))
	ready, err := b.waitReady(st, port)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(st.Identity.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "server seen dead", func() bool { return b.look("orphan").Phase == Exited })
	proof, err := b.stop("orphan", StopOptions{})
	if err != nil || proof.Terminated || living(ready.Listener.PID) {
		t.Errorf("proof = %+v, %v", proof, err)
	}
}

func TestStop_WaitsForAGracefulEnd(t *testing.T) {
	b := newBench(t)
	port := freePort(t)
	st := b.start(b.launch("slow", port, "--slow-exit", "0.3"))
	if _, err := b.waitReady(st, port); err != nil {
		t.Fatal(err)
	}
	proof, err := b.stop("slow", StopOptions{})
	if err != nil || len(proof.Killed) != 0 || proof.ExitCode != 0 || proof.Signal != 0 {
		t.Errorf("proof = %+v, %v", proof, err)
	}
}

func TestStop_StoppedProcessEnds(t *testing.T) {
	b := newBench(t)
	port := freePort(t)
	st := b.start(b.launch("frozen", port))
	if _, err := b.waitReady(st, port); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(st.Identity.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if proof, err := b.stop("frozen", StopOptions{Grace: 10 * time.Second}); err != nil || len(proof.Killed) != 0 {
		t.Errorf("proof = %+v, %v", proof, err)
	}
}

// A pid that the kernel gave to somebody else since is not ours.
func TestStop_ReusedPidIsLeftAlone(t *testing.T) {
	b := newBench(t)
	stranger := exec.Command("sleep", "600")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { stranger.Process.Kill(); stranger.Wait() }()
	b.start(b.launch("reused", freePort(t), "--exit", "0"))
	eventually(t, "exit", func() bool { return b.look("reused").Phase == Exited })
	id := b.look("reused").Identity
	pid := strconv.Itoa(stranger.Process.Pid)
	forged := id.HostID + " " + id.BootID + " " + pid + " " + strconv.FormatUint(id.StartTicks, 10) + " " + pid + "\n"
	if err := os.WriteFile(filepath.Join(b.state, "runs", b.id("reused"), "identity"), []byte(forged), 0o600); err != nil {
		t.Fatal(err)
	}
	if st := b.look("reused"); st.Phase != Exited {
		t.Errorf("a stranger counts as %v", st.Phase)
	}
	if proof, err := b.stop("reused", StopOptions{}); err != nil || proof.Terminated || len(proof.Killed) != 0 {
		t.Errorf("proof = %+v, %v", proof, err)
	}
	if !living(stranger.Process.Pid) {
		t.Error("the stranger was ended")
	}
}

func TestLook_OtherMachineCannotBeJudged(t *testing.T) {
	b := newBench(t)
	b.start(b.launch("there", freePort(t), "--exit", "0"))
	eventually(t, "exit", func() bool { return b.look("there").Phase == Exited })
	path := filepath.Join(b.state, "runs", b.id("there"), "identity")
	own, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.WriteFile(path, own, 0o600) })
	if err := os.WriteFile(path, append([]byte("other"), own...), 0o600); err != nil {
		t.Fatal(err)
	}
	var elsewhere *ElsewhereError
	if _, err := Look(t.Context(), b.h, b.state, b.id("there")); !errors.As(err, &elsewhere) {
		t.Errorf("look: %v", err)
	}
	if _, err := b.stop("there", StopOptions{}); !errors.As(err, &elsewhere) {
		t.Errorf("stop: %v", err)
	}
	// put back before the clean-up of the launch
	if err := os.WriteFile(path, own, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestLook_AfterARestartOfTheHost(t *testing.T) {
	b := newBench(t)
	l := b.launch("reboot", freePort(t))
	st := b.start(l)
	path := filepath.Join(b.state, "runs", l.ID, "identity")
	own, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	id := st.Identity
	old := id.HostID + " 00000000-dead-beef-0000-000000000000 " + strconv.Itoa(id.PID) + " " + strconv.FormatUint(id.StartTicks, 10) + " " + strconv.Itoa(id.SID) + "\n"
	if err := os.WriteFile(path, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	if st := b.lookID(l.ID); st.Phase != Exited || st.ExitCode != -1 || st.Signal != 0 {
		t.Errorf("state = %+v", st)
	}
	if err := os.WriteFile(path, own, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestStop_GPUMemoryThatStaysIsASurvivor(t *testing.T) {
	b := newBench(t)
	apps := fakeSMI(t, b)
	port := freePort(t)
	st := b.start(b.launch("memory", port))
	line := strconv.Itoa(st.Identity.PID) + ", GPU-a, 1234, [Not Found]\n1, GPU-a, 5, other\n"
	if err := os.WriteFile(apps, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := b.stop("memory", StopOptions{GPUWait: 10 * time.Millisecond})
	var left *SurvivorError
	if !errors.As(err, &left) || len(left.GPU) != 1 || left.GPU[0].PID != st.Identity.PID || left.GPU[0].MiB != "1234" {
		t.Fatalf("err = %v", err)
	}
	if err := os.WriteFile(apps, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestParseProof_NamesWhatCannotBeKilled(t *testing.T) {
	_, err := parseProof("h", "l", []byte("term 5\nkill 5\nkill 5\nidentity m/1 b 5 77 5\nleft 5 D nv_wait python -m x\nstate done\n"))
	var left *SurvivorError
	if !errors.As(err, &left) || len(left.Processes) != 1 {
		t.Fatalf("err = %v", err)
	}
	if p := left.Processes[0]; p != (Survivor{PID: 5, State: "D", Waits: "nv_wait", Command: "python -m x"}) {
		t.Errorf("survivor = %+v", p)
	}
	if _, err := parseProof("h", "l", []byte("term 5\n")); err == nil {
		t.Error("an answer without its end counts as proof")
	}
}
