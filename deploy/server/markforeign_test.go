package server

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"specrun/remote"
)

// What a foreign stop left keeps starts away for as long as it lives.
func TestMark_OfAProcessGoesWithTheLastOneLeft(t *testing.T) {
	b := newBench(t)
	f := b.foreign(nil)
	home := t.TempDir()
	must(t, writeFile(home+"/deaf", deaf))
	h := remote.Local(remote.LocalConfig{Env: []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "BASH_ENV=" + home + "/deaf"}, Dir: home, Shell: []string{"bash"}})
	defer h.Close()
	_, err := StopProcess(t.Context(), h, b.describe(f.pid), ProcessStop{StateDir: b.state, StopOptions: StopOptions{Grace: 10 * time.Millisecond, KillWait: 10 * time.Millisecond}})
	if !errors.As(err, new(*SurvivorError)) {
		t.Fatalf("stop: %v", err)
	}
	l := b.launch("next", freePort(t))
	var marked *MarkedError
	if _, err := Start(t.Context(), b.h, l); !errors.As(err, &marked) || marked.Marks[0].PID != f.pid || !strings.Contains(err.Error(), "the stop of process "+itoa(f.pid)) {
		t.Fatalf("start beside it: %v", err)
	}
	if hint := marked.Hint(); !strings.Contains(hint, "have ended") {
		t.Errorf("hint %q", hint)
	}
	if _, err := b.stopForeign(f, ""); err != nil {
		t.Fatal(err)
	}
	if marks, err := Marks(t.Context(), b.h, b.state); err != nil || len(marks) != 0 {
		t.Errorf("after its end: %+v, %v", marks, err)
	}
	b.start(l)
}

// That a host could not be marked is said with what was left.
func TestMark_ThatCannotBeWrittenIsSaid(t *testing.T) {
	b := newBench(t)
	apps := fakeSMI(t, b)
	bad := b.start(b.launch("bad", freePort(t)))
	must(t, writeFile(apps, itoa(bad.Identity.PID)+", GPU-a, 1234, [Not Found]\n"))
	must(t, writeFile(b.state+"/mark", "no folder")) // root writes everywhere else
	_, err := b.stop("bad", StopOptions{GPUWait: 10 * time.Millisecond})
	var left *SurvivorError
	if !errors.As(err, &left) || !left.Unmarked || !strings.Contains(err.Error(), "could not be marked") {
		t.Errorf("%v", err)
	}
	must(t, writeFile(apps, ""))
}
