package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"specrun/configs"
	"specrun/deploy"
	"specrun/deploy/server"
	"specrun/experiments"
	"specrun/experiments/engine"
	"specrun/experiments/lab"
	"specrun/experiments/origin"
	"specrun/experiments/report"
	"specrun/experiments/store"
	"specrun/patches"
	"specrun/remote"
)

// Exit codes. This file is the only place that knows them.
const (
	exitOK             = 0
	exitFailed         = 1
	exitUsage          = 2 // wrong usage or spec
	exitPartial        = 3 // some runs done, some failed
	exitConflict       = 4 // conflict or drift
	exitUnreachable    = 5 // host not reachable or refused
	exitLocked         = 6 // lock held
	exitRolledBack     = 7 // health failed and rolled back
	exitRollbackFailed = 8 // rollback failed, act by hand
	exitRegression     = 9 // --fail-on-regression
	exitInterrupted    = 130
)

// worst orders the codes of several hosts: the first one present wins.
var worst = []int{exitRollbackFailed, exitRolledBack, exitConflict, exitUnreachable, exitLocked, exitFailed, exitPartial, exitUsage, exitInterrupted}

// usageError is a wrong flag, argument or combination of them.
type usageError struct{ msg, hint string }

func (e *usageError) Error() string { return e.msg }
func (e *usageError) Hint() string  { return e.hint }

func usagef(hint, format string, args ...any) error {
	return &usageError{msg: fmt.Sprintf(format, args...), hint: hint}
}

// codedError carries an exit code that does not come from an error type, such
// as the outcome of a sweep. silent: the command has already said everything.
type codedError struct {
	code   int
	msg    string
	hint   string
	silent bool
}

func (e *codedError) Error() string { return e.msg }
func (e *codedError) Hint() string  { return e.hint }

// hinter is implemented by errors that know what to do next.
type hinter interface{ Hint() string }

// exitCode maps an error to the exit code. started is false while cobra was
// still reading the command line: such an error is one of usage.
func exitCode(err error, started bool) int {
	if err == nil {
		return exitOK
	}
	codes := map[int]bool{}
	for _, e := range flatten(err) {
		codes[codeOf(e)] = true
	}
	for _, c := range worst {
		if codes[c] && len(codes) > 1 {
			return c
		}
	}
	if !started {
		return exitUsage
	}
	for c := range codes {
		return c
	}
	return exitFailed
}

// interrupted says that err is how a signal ended a command. What is left to do
// by hand, or a file that is not what it was taken for, is more important.
func interrupted(err error, code int) bool {
	switch code {
	case exitInterrupted:
		return true
	case exitRollbackFailed, exitRolledBack, exitConflict:
		return false
	}
	return errors.Is(err, context.Canceled)
}

// flatten splits errors.Join of several hosts into its parts. An error that says
// more than its parts, such as a typed one with two causes, stands for itself.
func flatten(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	var texts []string
	for _, e := range joined.Unwrap() {
		all = append(all, flatten(e)...)
		texts = append(texts, e.Error())
	}
	if err.Error() != strings.Join(texts, "\n") {
		return []error{err}
	}
	return all
}

func codeOf(err error) int {
	var coded *codedError
	if errors.As(err, &coded) {
		return coded.code
	}
	for _, k := range kinds {
		if k.is(err) {
			return k.code
		}
	}
	if errors.Is(err, context.Canceled) {
		return exitInterrupted
	}
	return exitFailed
}

// as returns a matcher for an error type.
func as[T error]() func(error) bool {
	return func(err error) bool {
		var t T
		return errors.As(err, &t)
	}
}

// is returns a matcher for a sentinel.
func is(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

// emptyStore says that nothing was named wrongly: there is nothing yet.
func emptyStore(err error) bool {
	var absent *store.NotFoundError
	return errors.As(err, &absent) && absent.ID == ""
}

// report prints an error with its hint, and with --json the closing summary.
func (a *app) report(err error, code int) {
	for _, e := range flatten(err) {
		var coded *codedError
		if e == nil || errors.As(e, &coded) && coded.silent {
			continue
		}
		hint := ""
		var h hinter
		if errors.As(e, &h) {
			hint = experiments.ShownText("", h.Hint())
		}
		text := experiments.ShownText("", e.Error()) // may quote a server, or whose process is in the way
		if a.flags.json {
			a.line("error", struct {
				Code    int    `json:"code"`
				Message string `json:"message"`
				Hint    string `json:"hint,omitempty"`
			}{codeIn(e, code), text, hint})
			continue
		}
		fmt.Fprintf(a.stderr, "error: %s\n", text)
		if hint != "" {
			fmt.Fprintf(a.stderr, "hint: %s\n", strings.ReplaceAll(hint, "\n", "\n      "))
		}
	}
	if a.flags.json && (a.started || err != nil) {
		a.line("summary", struct {
			OK   bool `json:"ok"`
			Exit int  `json:"exit"`
		}{code == exitOK, code})
	}
}

// codeIn is the code of one error among several; a usage error found by cobra
// has no type of its own.
func codeIn(err error, overall int) int {
	if c := codeOf(err); c != exitFailed {
		return c
	}
	return overall
}

// exitStatus is the block of a command's help about its exit codes.
func exitStatus(codes ...int) string {
	var b strings.Builder
	b.WriteString("\n\nEXIT STATUS\n")
	for _, c := range codes {
		b.WriteString(exitLine(c, meaning[c]))
	}
	return strings.TrimRight(b.String(), "\n")
}

// exitLine is a line of that block.
func exitLine(code int, meaning string) string { return fmt.Sprintf("  %-4d%s\n", code, meaning) }

var meaning = map[int]string{
	exitOK:             "done",
	exitFailed:         "failed",
	exitUsage:          "wrong usage or spec",
	exitPartial:        "some runs are done, some failed",
	exitConflict:       "conflict or drift: a file is not what it was taken for",
	exitUnreachable:    "host not reachable or refused",
	exitLocked:         "another specrun holds the lock or the claim",
	exitRolledBack:     "health failed and rolled back",
	exitRollbackFailed: "rollback failed: act by hand",
	exitRegression:     "regression found",
}

// kinds says which errors have which exit code; the first match counts.
var kinds = []struct {
	is   func(error) bool
	code int
}{
	{as[*usageError](), exitUsage},
	{as[*deploy.RollbackFailedError](), exitRollbackFailed},
	{as[*deploy.LockedError](), exitLocked},
	{as[*deploy.SweepError](), exitLocked},
	{as[*server.HeldError](), exitLocked},
	{as[*server.MarkedError](), exitConflict},
	{as[*experiments.NoGPUError](), exitUsage},
	{as[*server.NotSavedError](), exitUsage},
	{as[*server.ProtectedError](), exitUsage},
	{as[*experiments.SeveralServersError](), exitUsage},
	{as[*store.ClaimedError](), exitLocked},
	{as[*deploy.ClaimedError](), exitConflict},
	{as[*deploy.DriftError](), exitConflict},
	{as[*deploy.ConflictError](), exitConflict},
	{as[*deploy.OpenTransactionError](), exitConflict},
	{as[*patches.Conflict](), exitConflict},
	{as[*deploy.NoInterpreterError](), exitUsage},
	{as[*deploy.FolderError](), exitUsage},
	{as[*deploy.NoEngineError](), exitUsage},
	{as[*patches.NotFoundError](), exitUsage},
	{as[*patches.LoadError](), exitUsage},
	{as[*experiments.SpecError](), exitUsage},
	{as[*experiments.ArgError](), exitUsage},
	{as[*experiments.CellError](), exitUsage},
	{as[*configs.UnknownHostError](), exitUsage},
	{as[*configs.FileError](), exitUsage},
	{as[*engine.UnknownError](), exitUsage},
	{as[*report.FormatError](), exitUsage},
	{as[*origin.ScriptError](), exitUsage},
	{as[*origin.InvalidError](), exitUsage},
	{as[*server.GoneError](), exitUsage},
	{as[*experiments.SecretError](), exitUsage},
	{as[*experiments.ClaimedError](), exitLocked},
	{as[*experiments.InterruptedError](), exitInterrupted},
	{emptyStore, exitFailed},
	{as[*store.NotFoundError](), exitUsage},
	{as[*store.AmbiguousError](), exitUsage},
	{as[*store.TagNameError](), exitUsage},
	{as[*report.CellError](), exitUsage},
	{as[*report.UnlikeError](), exitUsage},
	{as[*report.NothingError](), exitUsage},
	{as[*report.RegressionError](), exitRegression},
	{as[*lab.NotRunningError](), exitUnreachable},
	{as[*lab.BusyError](), exitLocked},
	{as[*remote.HostKeyError](), exitUnreachable},
	{as[*remote.ContainerError](), exitUnreachable},
	{is(remote.ErrUnreachable), exitUnreachable},
	{is(remote.ErrThrottled), exitUnreachable},
	{is(remote.ErrAuth), exitUnreachable},
	{is(remote.ErrTooManySessions), exitUnreachable},
	{is(remote.ErrNoise), exitUnreachable},
	{is(remote.ErrLost), exitUnreachable},
	{is(remote.ErrTimeout), exitUnreachable},
}
