package main

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// The process on a host goes on undoing however often it is asked to end: the script
// that asks may have been cut off, and asks again.
func TestSignals_APatientProcessIsNotCutOff(t *testing.T) {
	begin := time.Now()
	var looked atomic.Int64 // at the clock: once for each signal
	later := func() time.Time { return begin.Add(time.Duration(looked.Add(1)) * time.Minute) }
	var said bytes.Buffer
	a := &app{env: &env{now: later, stderr: &said}, printer: &printer{err: &said}}
	a.patient.Store(true)
	ctx, caught, stop := a.signals()
	defer stop()
	for n := range int64(4) { // the second would end this test's process
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		for looked.Load() == n {
			time.Sleep(time.Millisecond)
		}
	}
	<-ctx.Done()
	if caught() != syscall.SIGTERM {
		t.Errorf("caught %v", caught())
	}
}

// How a sweep ended is kept in files of its folder: values of secrets that the
// process knows are in no text of it, whatever stands before them.
func TestSaid_WithoutValuesOfSecrets(t *testing.T) {
	text, hint := said(errors.Join(errors.New("the server said: open-sesame-99 is wrong"), &codedError{code: 1, msg: "more", hint: "not open-sesame-99"}),
		map[string]string{"TOKEN": "open-sesame-99", "EMPTY": ""})
	if strings.Contains(text+hint, "sesame") || !strings.Contains(text, "the server said: (secret") || !strings.Contains(text, "more") || !strings.HasPrefix(hint, "not (secret") {
		t.Errorf("%q, %q", text, hint)
	}
}
