package detach

import (
	"context"
	"errors"
	"fmt"
	"time"

	"specrun/remote"
)

// Connection is a Host that can be closed.
type Connection interface {
	Host
	Close() error
}

// Follower watches a sweep through connections that may get lost.
type Follower struct {
	Dir  string // of the sweep, on the host
	Dial func(ctx context.Context) (Connection, error)
	// On is told of each event once, in order; of what is going on with now set,
	// when it has changed. It may use the connection. Its error ends Follow.
	On func(ctx context.Context, h Host, e Event, now bool) error
	// Lost is told that a connection was lost and is being made anew; nil: nobody.
	Lost func(err error)

	Poll     time.Duration // between two looks; 0 = half a second
	Patience time.Duration // how long a host may stay away; 0 = ten minutes
}

// Follow returns when the sweep does not run any more, with all its events told:
// the Status says how it stands. It blocks until then, until ctx ends, or until
// the host has stayed away for too long. The sweep notices nothing of all that.
func (f Follower) Follow(ctx context.Context, h Connection) (Status, error) {
	poll, patience := f.Poll, f.Patience
	if poll == 0 {
		poll = 500 * time.Millisecond
	}
	if patience == 0 {
		patience = 10 * time.Minute
	}
	defer func() { _ = h.Close() }() // nothing is left to do over it
	var at int64
	var told string
	for {
		st, err := Look(ctx, h, f.Dir, at)
		if err == nil {
			err = f.tell(ctx, h, st, &at, &told)
		}
		if err != nil && HostLost(err) && ctx.Err() == nil {
			if f.Lost != nil {
				f.Lost(err)
			}
			_ = h.Close() // it is lost already; a new one follows
			if h, err = f.again(ctx, poll, patience, err); err != nil {
				return Status{}, err
			}
			continue
		}
		if err != nil {
			return Status{}, err
		}
		if st.More {
			continue
		}
		if st.State != Running {
			return st, nil
		}
		if err := pause(ctx, poll); err != nil {
			return Status{}, err
		}
	}
}

// tell tells the events of a look. The position moves with each, so that none is
// told twice when the connection is lost between two.
func (f Follower) tell(ctx context.Context, h Host, st Status, at *int64, told *string) error {
	for _, e := range st.Events {
		*at = e.end
		if err := f.On(ctx, h, e, false); err != nil {
			return err
		}
	}
	*at = st.At
	if st.Now == nil || st.State != Running || st.More {
		return nil
	}
	if text := fmt.Sprint(st.Now.AtUs, st.Now.Message); text != *told {
		*told = text
		return f.On(ctx, h, *st.Now, true)
	}
	return nil
}

// again makes a lost connection anew.
func (f Follower) again(ctx context.Context, wait, patience time.Duration, lost error) (Connection, error) {
	ctx, done := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the host has stayed away for %v: %w", patience, lost))
	defer done()
	for ; ; wait = min(2*wait, 10*time.Second) {
		h, err := f.Dial(ctx)
		if err == nil {
			return h, nil
		}
		if !HostLost(err) && ctx.Err() == nil {
			return closed{}, err
		}
		if err := pause(ctx, wait); err != nil {
			return closed{}, err
		}
	}
}

// closed is a connection that is none.
type closed struct{ Connection }

func (closed) Close() error { return nil }

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// HostLost says that an error is of a connection, which may be made anew.
func HostLost(err error) bool {
	for _, kind := range []error{remote.ErrLost, remote.ErrUnreachable, remote.ErrThrottled, remote.ErrClosed, remote.ErrTimeout} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}
