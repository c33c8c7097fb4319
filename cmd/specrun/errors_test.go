package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"specrun/deploy"
	"specrun/experiments"
	"specrun/remote"
)

func TestExitCode(t *testing.T) {
	refused := &remote.Error{Host: "h1", Op: "authenticate", Kind: remote.ErrAuth, Next: "add the key", Err: errors.New("no key was accepted")}
	locked := &deploy.LockedError{Host: "h2", PID: 7}
	for name, c := range map[string]struct {
		err     error
		started bool
		code    int
		lines   int // of the report
	}{
		"nothing":                   {nil, true, 0, 0},
		"plain":                     {errors.New("x"), true, 1, 1},
		"found by cobra":            {errors.New("unknown flag"), false, 2, 1},
		"typed, with two causes":    {refused, true, 5, 2},
		"wrapped, with two causes":  {fmt.Errorf("a: %w: %w", fs.ErrNotExist, locked), true, 6, 2},
		"several hosts":             {errors.Join(locked, refused), true, 5, 4},
		"joins of joins":            {errors.Join(errors.Join(errors.New("x"), locked), refused), true, 5, 5},
		"the worst of several wins": {errors.Join(refused, &deploy.DriftError{Host: "h3", Path: "/p"}), true, 4, 4},
	} {
		var out, text bytes.Buffer
		a := &app{env: &env{stderr: &text}, printer: &printer{out: &out, err: &text}, started: c.started}
		code := exitCode(c.err, c.started)
		if code != c.code {
			t.Errorf("%s: exit %d, want %d", name, code, c.code)
		}
		if c.err == nil {
			continue
		}
		a.report(c.err, code)
		if got := strings.Count(text.String(), "\n"); got != c.lines {
			t.Errorf("%s: %d lines, want %d:\n%s", name, got, c.lines, text.String())
		}
	}
}

func TestInterrupted_NamesTheSignalOnlyWhenNothingWorseHappened(t *testing.T) {
	cut := &remote.Error{Host: "h1", Op: "script commit", Kind: remote.ErrLost, Err: context.Canceled}
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"cancelled":                     {context.Canceled, true},
		"a connection given up for it":  {cut, true},
		"left to be done by hand":       {errors.Join(cut, &deploy.RollbackFailedError{Host: "h1", Err: context.Canceled}), false},
		"a failure of its own":          {errors.New("x"), false},
		"somebody else's edit, as well": {errors.Join(context.Canceled, &deploy.DriftError{Host: "h1", Path: "/p"}), false},
	} {
		if got := interrupted(c.err, exitCode(c.err, true)); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// How Go says that a context ended is nothing for the user.
func TestInterruptedSweep_IsSaidInWords(t *testing.T) {
	if got := (&experiments.InterruptedError{SweepID: "k3v7", Cause: context.Canceled}).Error(); got != "sweep k3v7 was interrupted" {
		t.Error(got)
	}
}
