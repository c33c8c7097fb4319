package experiments

import (
	"context"
	"errors"
	"fmt"
	"time"

	"specrun/deploy/server"
)

// StepWait is waiting for GPUs, a port or a patch set that others have.
const StepWait = "wait"

// waitPoll is the time between two questions whether it is our turn.
const waitPoll = time.Second

// WaitedError says that somebody else had what was needed for as long as it was
// waited for.
type WaitedError struct {
	After time.Duration
	Err   error // a *server.HeldError
}

func (e *WaitedError) Error() string { return fmt.Sprintf("waited for %v: %v", e.After, e.Err) }

func (e *WaitedError) Unwrap() error { return e.Err }

// Hint says what to do next.
func (e *WaitedError) Hint() string {
	return "--wait with a longer time, or specrun lock status to see who is at work"
}

// waiting repeats try, which asks for leases, while somebody else has them, for as
// long as may be waited at all. What is asked for keeps its place in the queue
// meanwhile. a is the launch that waits, nil when it is the sweep.
func (x *execution) waiting(ctx context.Context, a *attempt, try func() error) error {
	deadline := x.deps.Now().Add(x.deps.Wait)
	said := ""
	for {
		err := try()
		var held *server.HeldError
		switch {
		case !errors.As(err, &held), errors.As(err, new(*AbandonedError)), x.deps.Wait <= 0:
			return err
		case !x.deps.Now().Before(deadline):
			return &WaitedError{After: x.deps.Wait, Err: err}
		}
		phase, text := PhaseNote, waitText(held)
		if text != said {
			phase, said = PhaseBegin, text
		}
		x.tellWaiting(a, phase, text)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(min(waitPoll, 10*x.deps.Poll)):
		}
	}
}

func (x *execution) tellWaiting(a *attempt, phase Phase, text string) {
	if a != nil {
		a.progress(StepWait, phase, text)
		return
	}
	x.deps.OnEvent(Progress{SweepID: x.sweepID, Host: x.plan.Host.Name, Step: StepWait, Phase: phase, Message: x.hider().text(text)})
}

// waitText says what is waited for, and whose it is.
func waitText(e *server.HeldError) string {
	l := e.Lease
	what := l.Name
	switch {
	case l.Unowned:
		return "waiting for " + what + ", which somebody is leasing"
	case l.Queued():
		what = l.Needs()
	case l.Set != "":
		what = "the engine's files, which have " + l.Set
	}
	who := l.Owner.Who()
	if l.Owner.What != "" {
		who = l.Owner.What + " by " + who
	}
	if l.Alive {
		who += ", whose server runs"
	}
	return "waiting for " + what + ": " + who
}
