package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/crypto/ssh"
)

// manner is how a session is asked for.
type manner int

const (
	patient  manner = iota // queue for a place
	pressing               // now or never: to end the script that holds a place
	sparing                // queue, but not for the only place there is: SFTP
	idle                   // do not queue: a spare
)

// session opens a session channel on a place of its own. When the server
// refuses, the limit sinks to what it takes and the caller queues; the SFTP
// session gives way when it holds the only place.
func (c *sshConn) session(ctx context.Context, how manner) (ssh.Channel, <-chan *ssh.Request, error) {
	pause := 10 * time.Millisecond
	for {
		if how == pressing {
			c.sessions.force()
		} else if how == idle && c.sessions.free() < 1 {
			return nil, nil, &Error{Host: c.c.Name, Op: "open a session", Kind: ErrTooManySessions}
		} else if err := c.sessions.acquire(ctx, c.makeRoom); err != nil {
			return nil, nil, fmt.Errorf("%s: wait for a session: %w", c.c.Name, err)
		}
		ch, requests, err := c.open(ctx)
		if err == nil {
			return ch, requests, nil
		}
		var refused *ssh.OpenChannelError
		if !errors.As(err, &refused) {
			return nil, nil, err
		}
		others := c.sessions.refused()
		tooMany := &Error{Host: c.c.Name, Op: "open a session", Kind: ErrTooManySessions, Err: err,
			Next: "raise MaxSessions in the server's sshd_config"}
		switch {
		case others == 1 && c.sftp.giveUp():
			how = patient // its place comes free soon
			continue
		case how == pressing, how == idle, how == sparing && c.sessions.single():
			return nil, nil, tooMany
		case others > 0:
			continue // acquire waits until one ends
		case pause > 2*time.Second:
			return nil, nil, tooMany
		}
		// None of ours is open: the server may be closing the last one yet.
		select {
		case <-time.After(pause):
			pause *= 2
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("%s: open a session: %w", c.c.Name, context.Cause(ctx))
		}
	}
}

// makeRoom frees what is held without need when someone waits: the spare, and
// the SFTP session where it holds the only place.
func (c *sshConn) makeRoom() {
	c.dropSpare()
	if c.sessions.single() {
		c.sftp.giveUp()
	}
}

// open asks for a session channel and gives up after ChannelTimeout. The place
// taken before is kept until the server has answered, however late.
func (c *sshConn) open(ctx context.Context) (ssh.Channel, <-chan *ssh.Request, error) {
	type answer struct {
		ch       ssh.Channel
		requests <-chan *ssh.Request
		err      error
	}
	op := "open a session"
	limit, cancel := context.WithTimeoutCause(ctx, c.c.ChannelTimeout,
		&TimeoutError{Host: c.c.Name, Op: op, After: c.c.ChannelTimeout, Next: "the server took the connection and answers no more: try again"})
	defer cancel()
	answered := make(chan answer, 1)
	c.spawn(func() {
		ch, requests, err := c.client().OpenChannel("session", nil)
		answered <- answer{ch, requests, err}
	})
	select {
	case a := <-answered:
		var refused *ssh.OpenChannelError
		if a.err != nil && !errors.As(a.err, &refused) {
			c.sessions.release()
			return nil, nil, c.lostError(op, a.err)
		}
		return a.ch, a.requests, a.err
	case <-limit.Done():
		c.spawn(func() {
			if a := <-answered; a.err == nil {
				a.ch.Close()
				ssh.DiscardRequests(a.requests)
			}
			c.sessions.release()
		})
		if ctx.Err() != nil {
			return nil, nil, fmt.Errorf("%s: %s: %w", c.c.Name, op, context.Cause(ctx))
		}
		return nil, nil, context.Cause(limit)
	}
}
