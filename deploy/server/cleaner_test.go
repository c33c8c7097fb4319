package server

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// sharing is an engine's API process with a worker of its own: what they share is
// named in a file.
const sharing = `
import os, sys, time
from multiprocessing import shared_memory
segment = shared_memory.SharedMemory(create=True, size=4096)
if os.fork() == 0:
    time.sleep(600)
with open(sys.argv[1] + ".new", "w") as f:
    f.write(segment.name)
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(600)
`

// An API process that is killed leaves its worker and Python's tracker of shared
// memory. Killed with the worker, the tracker could not remove the segments.
func TestStop_SharedMemoryOfAKilledServerGoes(t *testing.T) {
	b := newBench(t)
	name := filepath.Join(t.TempDir(), "segment")
	l := b.launch("shared", 0)
	l.Argv = []string{b.python, "-c", sharing, name}
	st := b.start(l)
	var segment string
	eventually(t, "a segment", func() bool {
		text, err := os.ReadFile(name)
		segment = filepath.Join("/dev/shm", strings.TrimPrefix(string(text), "/"))
		return err == nil
	})
	t.Cleanup(func() {
		if err := os.Remove(segment); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
	if _, err := os.Stat(segment); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(st.Identity.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "server seen dead", func() bool { return b.look("shared").Phase == Exited })
	proof, err := b.stop("shared", StopOptions{})
	if err != nil || len(proof.Killed) == 0 {
		t.Errorf("proof = %+v, %v; want the worker killed", proof, err)
	}
	if _, err := os.Stat(segment); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left: %v", segment, err)
	}
}
