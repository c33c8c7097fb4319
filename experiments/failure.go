package experiments

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"specrun/deploy/server"
	"specrun/experiments/metrics"
	"specrun/experiments/record"
	"specrun/remote"
)

// failure is an outcome that is a result: it has a class and a reason, is
// stored with the runs it hits, and the sweep goes on.
type failure struct {
	class record.Class
	err   error
	// ends says that the server cannot measure anything any more.
	ends bool
}

func (f *failure) Error() string { return f.err.Error() }

func (f *failure) Unwrap() error { return f.err }

// reason is what, where and what next, for people.
func (f *failure) reason() string {
	text := f.err.Error()
	var h interface{ Hint() string }
	if errors.As(f.err, &h) && h.Hint() != "" {
		text += "\nnext: " + h.Hint()
	}
	return text
}

// fatalError ends the execution: the store, the host or the claim is lost, or a
// cleaning up could not be proved. What is open stays open for resume.
type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }

func (e *fatalError) Unwrap() error { return e.err }

// InterruptedError says that an execution was ended from outside, and how the
// sweep can be continued.
type InterruptedError struct {
	SweepID string
	Cause   error
}

func (e *InterruptedError) Error() string {
	if errors.Is(e.Cause, context.Canceled) { // by a signal, which says nothing more
		return fmt.Sprintf("sweep %s was interrupted", e.SweepID)
	}
	return fmt.Sprintf("sweep %s was interrupted: %v", e.SweepID, e.Cause)
}

func (e *InterruptedError) Unwrap() error { return e.Cause }

// Hint says what to do next.
func (e *InterruptedError) Hint() string { return "specrun resume " + e.SweepID + " continues it" }

// OpenError says that something could not be cleaned up or recorded, so that
// the sweep is open.
type OpenError struct {
	SweepID string
	Err     error
	// Unbegun says that no launch of it was ever begun: nothing is left of it.
	Unbegun bool
}

func (e *OpenError) Error() string {
	if e.Unbegun {
		return fmt.Sprintf("sweep %s was not begun: %v", e.SweepID, e.Err)
	}
	return fmt.Sprintf("sweep %s is left open: %v", e.SweepID, e.Err)
}

func (e *OpenError) Unwrap() error { return e.Err }

// Hint says what to do next.
func (e *OpenError) Hint() string {
	hint := "specrun resume " + e.SweepID + " looks at what is left, cleans up and goes on"
	if e.Unbegun {
		hint = "specrun resume " + e.SweepID + " begins it"
	}
	var h interface{ Hint() string }
	if errors.As(e.Err, &h) && h.Hint() != "" {
		return h.Hint() + "; then " + hint
	}
	return hint
}

// ClaimedError says that another controller works on the sweep.
type ClaimedError struct {
	SweepID    string
	Controller string
	Err        error // the recorder's
}

func (e *ClaimedError) Error() string {
	return fmt.Sprintf("sweep %s is worked on by %s", e.SweepID, e.Controller)
}

func (e *ClaimedError) Unwrap() error { return e.Err }

// Hint says what to do next.
func (e *ClaimedError) Hint() string {
	return "wait for it, or stop it; its claim ends by itself within a minute after it has ended"
}

// SecretError says that a secret the spec refers to is not set here.
type SecretError struct{ Name, From string }

func (e *SecretError) Error() string {
	return fmt.Sprintf("server.env.%s: %s is not set in the environment of specrun", e.Name, e.From)
}

// Hint says what to do next.
func (e *SecretError) Hint() string { return "export " + e.From + "=... before starting specrun" }

// hostLost says that the connection, not the host's answer, is the trouble.
func hostLost(err error) bool {
	// That a server does not answer is the host's answer.
	var late *server.NotReadyError
	if errors.As(err, &late) {
		return false
	}
	for _, kind := range []error{remote.ErrLost, remote.ErrUnreachable, remote.ErrThrottled, remote.ErrClosed} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// judge sorts what ended a step: a *failure that is a result, or an error that
// ends the execution.
func judge(ctx context.Context, step string, err error) error {
	var fatal *fatalError
	var f *failure
	var held *server.HeldError
	var marked *server.MarkedError
	switch {
	case errors.As(err, &fatal), errors.As(err, &held), errors.As(err, &marked): // what is at work on the host, or was left there, says nothing about the cell
		return err
	case ctx.Err() != nil && !errors.As(context.Cause(ctx), &f):
		return context.Cause(ctx)
	case ctx.Err() != nil:
		return f
	case hostLost(err):
		return &fatalError{err}
	case errors.As(err, &f):
		return f
	}
	return &failure{class: classOf(step, err), err: err, ends: true}
}

func classOf(step string, err error) record.Class {
	var (
		port    *server.PortError
		gpu     *server.GPUBusyError
		crash   *server.CrashError
		exited  *server.ExitedError
		late    *server.NotReadyError
		stalled *server.StalledError
		refused *server.RefusedError
		nobody  *server.AttachError
	)
	switch {
	case errors.As(err, &port):
		return record.ClassPortInUse
	case errors.As(err, &gpu):
		return record.ClassGPUBusy
	case errors.As(err, &crash):
		return crashClass(crash.Crash, false)
	case errors.As(err, &exited) && exited.Kind() != "":
		return record.Class(exited.Kind())
	case errors.As(err, &exited):
		return record.ClassExited
	case errors.As(err, &late):
		return record.ClassNotReady
	case errors.As(err, &stalled):
		return record.ClassStalled
	case errors.As(err, &refused):
		return record.ClassExited
	case step == stepAttach && (errors.As(err, &nobody) || errors.Is(err, server.ErrGone)):
		return record.ClassUnreachable
	case step == stepPatch:
		return record.ClassPatch
	}
	return record.ClassInternal
}

// crashClass is that of a crash in a server's log. Where GPU memory ran out it is
// told apart by what the server did: the advice is another each time. ready says
// that it had begun to serve.
func crashClass(c server.Crash, ready bool) record.Class {
	switch {
	case c.OOM == "":
	case ready || c.OOM == metrics.PhaseRunning:
		return record.ClassOOMRunning
	case c.OOM == metrics.PhaseCapture:
		return record.ClassOOMCapture
	case c.OOM == metrics.PhaseLoading, c.OOM == metrics.PhaseKVPool:
		return record.ClassOOMLoading
	}
	return record.Class(c.Kind)
}

// blamePatch says of a crash which patch changes the file that it came from.
func blamePatch(err error, state PatchState) error {
	var crash *server.CrashError
	if !errors.As(err, &crash) || crash.Crash.Kind != "import_error" && crash.Crash.Kind != "scheduler_exception" {
		return err
	}
	c := &crash.Crash
	for _, f := range state.Files {
		if c.File == "" || path.Base(f.Path) != c.File || len(f.Patches) == 0 {
			continue
		}
		c.Advice = fmt.Sprintf("line %d of %s is of a file that %s changes: patches=none tells whether that is the cause; specrun rollback puts it back",
			c.Line, f.Path, strings.Join(f.Patches, " and "))
	}
	return err
}
