package experiments

import (
	"context"
	"errors"
	"time"
)

func (x *execution) connect(ctx context.Context) error {
	outer, err := x.deps.Hosts(ctx, x.plan.Host.Name)
	if err != nil {
		return err
	}
	h, err := x.enter(ctx, outer)
	if err != nil {
		if outer.Close != nil {
			err = errors.Join(err, outer.Close())
		}
		return err
	}
	x.host = h
	x.shared.Store(h)
	return nil
}

func (x *execution) disconnect() {
	if x.host != nil && x.host.Close != nil {
		// Nothing is left to do over it, so an error in closing says nothing.
		_ = x.host.Close()
	}
}

// reconnect makes a lost connection anew; a host that stays away is fatal.
func (x *execution) reconnect(ctx context.Context, lost error) error {
	x.disconnect()
	deadline := x.deps.Now().Add(x.deps.Reconnect)
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := x.connect(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !hostLost(err) || x.deps.Now().After(deadline) {
			return &fatalError{errors.Join(lost, err)}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// maxReconnects bounds how often in a row what is repeated survives a connection
// that is lost at once.
const maxReconnects = 5

// steady is how long a connection must have lasted to count as one that works:
// over a bad line a start of an hour may lose many of those.
const steady = 10 * time.Second

// patiently repeats what may be repeated over a connection that gets lost.
func (x *execution) patiently(ctx context.Context, f func() error) error {
	for lost := 0; ; lost++ {
		began := x.deps.Now()
		err := f()
		if x.deps.Now().Sub(began) >= steady {
			lost = 0
		}
		if err == nil || !hostLost(err) || lost == maxReconnects || ctx.Err() != nil {
			return err
		}
		if err := x.reconnect(ctx, err); err != nil {
			return err
		}
	}
}
