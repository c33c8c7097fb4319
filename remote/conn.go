package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

// sshDriver is the driver over SSH: one connection for everything, dialled
// anew when it was lost.
type sshDriver struct {
	c    Config
	turn chan struct{} // holds one token: whose turn it is to dial

	mu     sync.Mutex
	conn   *sshConn
	closed bool
}

// connection returns the live connection; it dials when there is none.
func (d *sshDriver) connection(ctx context.Context) (*sshConn, error) {
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: dial: %w", d.c.Name, context.Cause(ctx))
	}
	d.mu.Lock()
	conn, closed := d.conn, d.closed
	d.mu.Unlock()
	switch {
	case closed:
		return nil, &Error{Host: d.c.Name, Op: "dial", Kind: ErrClosed}
	case conn != nil && conn.alive():
		return conn, nil
	}
	conn, err := connect(ctx, d.c)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		conn.closeTransport()
		return nil, &Error{Host: d.c.Name, Op: "dial", Kind: ErrClosed}
	}
	d.conn = conn
	return conn, nil
}

// on runs f on the live connection, and once more on a new one when it finds
// the connection dead: for f that does nothing but open a channel.
func (d *sshDriver) on(ctx context.Context, f func(*sshConn) error) error {
	for try := 0; ; try++ {
		conn, err := d.connection(ctx)
		if err != nil {
			return err
		}
		err = f(conn)
		if try > 0 || ctx.Err() != nil || !errors.Is(err, ErrLost) {
			return err
		}
		conn.shut(err)
	}
}

// full says that the next session has to wait for one that ends.
func (d *sshDriver) full() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.conn != nil && d.conn.alive() && d.conn.sessions.free() < 1
}

func (d *sshDriver) close() error {
	d.mu.Lock()
	conn := d.conn
	d.closed, d.conn = true, nil
	d.mu.Unlock()
	if conn == nil {
		return nil
	}
	conn.shut(ErrClosed)
	conn.work.Wait()
	return nil
}

func (d *sshDriver) files(ctx context.Context) (ops fileOps, done func(), err error) {
	err = d.on(ctx, func(c *sshConn) error {
		ops, done, err = c.sftp.use(ctx)
		return err
	})
	return ops, done, err
}

func (d *sshDriver) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if network != "tcp" {
		return nil, fmt.Errorf("%s: connect to %s: network %q is not supported", d.c.Name, addr, network)
	}
	if host, port, err := net.SplitHostPort(addr); err != nil || host == "" {
		return nil, fmt.Errorf("%s: connect to %s: not host:port", d.c.Name, addr)
	} else if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return nil, fmt.Errorf("%s: connect to %s: port %q is not a number", d.c.Name, addr, port)
	}
	var c net.Conn
	err := d.on(ctx, func(conn *sshConn) (err error) {
		c, err = conn.dial(ctx, network, addr)
		return err
	})
	return c, err
}

func (c *sshConn) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	op := "connect to " + addr
	ctx, cancel := context.WithTimeoutCause(ctx, c.c.ChannelTimeout, &TimeoutError{Host: c.c.Name, Op: op, After: c.c.ChannelTimeout})
	defer cancel()
	to, err := c.client().DialContext(ctx, network, addr)
	if err == nil {
		return to, nil
	}
	var refused *ssh.OpenChannelError
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s: %s: %w", c.c.Name, op, context.Cause(ctx))
	case errors.As(err, &refused) && refused.Reason == ssh.Prohibited:
		return nil, &Error{Host: c.c.Name, Op: op, Kind: syscall.EACCES, Err: err,
			Next: "the server forbids forwarding: set AllowTcpForwarding in its sshd_config"}
	case errors.As(err, &refused):
		return nil, &Error{Host: c.c.Name, Op: op, Kind: syscall.ECONNREFUSED, Err: err}
	}
	return nil, c.lostError(op, err)
}

// start opens a session and sends the exec line without waiting for its
// confirmation, which would cost a round trip: that the script began is seen
// by its mark. A server that refuses the line shows by the script's timeout.
func (d *sshDriver) start(ctx context.Context, line string, urgent bool) (process, error) {
	how := patient
	if urgent {
		how = pressing
	}
	var p process
	err := d.on(ctx, func(conn *sshConn) (err error) {
		p, err = conn.start(ctx, line, how)
		return err
	})
	if !urgent || !errors.Is(err, ErrTooManySessions) {
		return p, err
	}
	// The server takes no second session on this connection: on another.
	second, err := connect(ctx, d.c)
	if err != nil {
		return nil, err
	}
	if p, err = second.start(ctx, line, pressing); err != nil {
		second.shut(ErrClosed)
		return nil, err
	}
	return &lastProcess{p, second}, nil
}

// lastProcess is the only one on its connection and takes it along.
type lastProcess struct {
	process
	conn *sshConn
}

func (p *lastProcess) release() {
	p.process.release()
	p.conn.shut(ErrClosed)
}

func (c *sshConn) start(ctx context.Context, line string, how manner) (process, error) {
	if line == execLine && how == patient {
		if p := c.takeSpare(); p != nil {
			return p, nil
		}
	}
	ch, requests, err := c.session(ctx, how)
	if err != nil {
		return nil, err
	}
	if _, err := ch.SendRequest("exec", false, ssh.Marshal(struct{ Command string }{line})); err != nil {
		ch.Close()
		c.spawn(func() { ssh.DiscardRequests(requests); c.sessions.release() })
		return nil, c.lostError("start /bin/sh", err)
	}
	return newSSHProcess(c, ch, requests), nil
}

// sshConn is one connection and all that lives on it.
type sshConn struct {
	c        Config
	clients  []*ssh.Client // the hops, the host last
	sessions *slots
	sftp     *sftpSession
	lost     chan struct{} // closed when the connection has ended
	work     sync.WaitGroup

	mu    sync.Mutex
	cause error // why it ended
	ended bool
	spare *sshProcess // an idle /bin/sh -s, see spare.go
}

func (c *sshConn) begin() {
	c.sessions = newSlots(c.c.MaxSessions)
	c.sftp = newSFTPSession(c)
	c.work.Go(func() {
		err := c.client().Wait()
		c.shut(err)
		close(c.lost)
	})
	c.work.Go(c.keepAlive)
}

func (c *sshConn) client() *ssh.Client { return c.clients[len(c.clients)-1] }

func (c *sshConn) alive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.ended
}

// spawn runs f in a goroutine that ends with the connection.
func (c *sshConn) spawn(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		go f() // on a dead connection it ends at once
		return
	}
	c.work.Go(f)
}

// shut ends the connection; the first cause counts.
func (c *sshConn) shut(cause error) {
	c.mu.Lock()
	first := !c.ended
	if first {
		c.ended, c.cause = true, cause
	}
	c.mu.Unlock()
	if first {
		c.closeTransport()
	}
}

func (c *sshConn) closeTransport() {
	for _, client := range slices.Backward(c.clients) {
		client.Close() // it is given up: nothing to learn from an error
	}
}

// lostError is the error of an operation that the connection failed.
func (c *sshConn) lostError(op string, err error) error {
	c.mu.Lock()
	cause := c.cause
	c.mu.Unlock()
	e := &Error{Host: c.c.Name, Op: op, Kind: ErrLost, Err: err}
	switch {
	case errors.Is(cause, ErrClosed):
		e.Kind, e.Err = ErrClosed, nil
	case cause != nil:
		e.Err = cause
	}
	return e
}

// keepAlive ends a connection whose other side is silent: without it, reads on
// a dead link wait for ever. It is dead when a probe stays without an answer
// for two intervals, so at most three after the last sign of life.
func (c *sshConn) keepAlive() {
	tick := time.NewTicker(c.c.KeepAlive)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-c.lost:
			return
		}
		answer := make(chan error, 1)
		c.spawn(func() {
			_, _, err := c.client().SendRequest("keepalive@openssh.com", true, nil)
			answer <- err
		})
		limit := time.NewTimer(2 * c.c.KeepAlive)
		select {
		case <-answer: // a refusal is an answer, too
		case <-limit.C:
			c.shut(fmt.Errorf("no answer for %v", 3*c.c.KeepAlive))
		case <-c.lost:
		}
		limit.Stop()
	}
}
