package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

// dialTries bounds the tries for a server that hangs up before its banner:
// sshd does so when many log in at once (MaxStartups).
const dialTries = 5

// Dial connects to a host over SSH. It returns once the host's key is verified
// and the user is logged in; every hop of c.Jump is verified alike. It tries
// again, with growing pauses, only when the server hung up before its banner.
// When a connection is lost later, the next operation dials anew; the one that
// was under way fails.
func Dial(ctx context.Context, c Config) (*Host, error) {
	d := &sshDriver{c: c.withDefaults(), turn: make(chan struct{}, 1)}
	if err := d.c.check(); err != nil {
		return nil, err
	}
	if _, err := d.connection(ctx); err != nil {
		return nil, err
	}
	return &Host{name: c.Name, driver: d}, nil
}

// connect makes one connection through all hops.
func connect(ctx context.Context, c Config) (*sshConn, error) {
	hops, err := c.route(ctx)
	if err != nil {
		return nil, err
	}
	conn := &sshConn{c: c, lost: make(chan struct{})}
	for _, hop := range append(hops, c) {
		client, err := dialHop(ctx, hop, conn.clients)
		if err != nil {
			conn.closeTransport()
			return nil, err
		}
		conn.clients = append(conn.clients, client)
	}
	conn.begin()
	return conn, nil
}

// dialHop dials one hop through those before it, again while it is throttled.
func dialHop(ctx context.Context, c Config, through []*ssh.Client) (*ssh.Client, error) {
	for try := 1; ; try++ {
		client, err := dialOnce(ctx, c, through)
		if err == nil || !errors.Is(err, ErrThrottled) || try == dialTries {
			return client, err
		}
		// 0.2 s, 0.4 s, 0.8 s, 1.6 s and up to as much again, so that those
		// who were thrown out together do not come back together.
		pause := 100 * time.Millisecond << try
		select {
		case <-time.After(pause + rand.N(pause)):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w (%w)", err, context.Cause(ctx))
		}
	}
}

func dialOnce(ctx context.Context, c Config, through []*ssh.Client) (*ssh.Client, error) {
	op := "dial " + c.hostPort()
	dial, cancel := context.WithTimeoutCause(ctx, c.DialTimeout,
		&TimeoutError{Host: c.Name, Op: op, After: c.DialTimeout, Next: "check the address, the network and the firewall"})
	defer cancel()
	var raw net.Conn
	var err error
	if len(through) == 0 {
		raw, err = new(net.Dialer).DialContext(dial, "tcp", c.hostPort())
	} else {
		raw, err = through[len(through)-1].DialContext(dial, "tcp", c.hostPort())
	}
	switch {
	case err == nil:
	case dial.Err() != nil && ctx.Err() == nil:
		return nil, context.Cause(dial)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s: %s: %w", c.Name, op, context.Cause(ctx))
	default:
		return nil, &Error{Host: c.Name, Op: op, Kind: ErrUnreachable, Err: err, Next: "check the address, and that sshd runs there"}
	}
	return handshake(ctx, c, quickAck(raw), through)
}

// handshake verifies the host and logs in. A deadline on the connection would
// not do: a channel through a jump host has none, so a timer closes it, and
// with it the hops before, which a mute one leaves hanging too.
func handshake(ctx context.Context, c Config, raw net.Conn, through []*ssh.Client) (*ssh.Client, error) {
	conn := &bannerConn{Conn: raw}
	op := "handshake with " + c.hostPort()
	keys, err := newHostKeys(c)
	if err != nil {
		raw.Close()
		return nil, err
	}
	ring := &keyring{c: c}
	defer ring.close()

	limit, cancel := context.WithTimeoutCause(ctx, c.HandshakeTimeout,
		&TimeoutError{Host: c.Name, Op: op, After: c.HandshakeTimeout, Next: "something accepts connections there and does not answer as an SSH server does"})
	defer cancel()
	stop := context.AfterFunc(limit, func() {
		raw.Close()
		for _, hop := range slices.Backward(through) {
			hop.Close()
		}
	})
	algorithms := ssh.SupportedAlgorithms()
	sshConn, channels, requests, err := ssh.NewClientConn(conn, c.hostPort(), &ssh.ClientConfig{
		Config:            ssh.Config{KeyExchanges: curveFirst(algorithms.KeyExchanges)},
		User:              c.User,
		Auth:              []ssh.AuthMethod{ssh.PublicKeysCallback(func() ([]ssh.Signer, error) { return ring.signers(limit), nil })},
		HostKeyCallback:   keys.verify,
		HostKeyAlgorithms: keys.algorithms(),
		ClientVersion:     "SSH-2.0-specrun",
	})
	stopped := stop()
	if err == nil && stopped {
		return ssh.NewClient(sshConn, channels, requests), nil
	}
	if err == nil {
		sshConn.Close()
	}
	raw.Close()
	if limit.Err() != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%s: %s: %w", c.Name, op, context.Cause(ctx))
		}
		return nil, context.Cause(limit)
	}
	return nil, classify(c, op, conn, keys, ring, err)
}

// classify is the one place that reads the text of the library's errors: for a
// refused login it offers nothing else.
func classify(c Config, op string, conn *bannerConn, keys *hostKeys, ring *keyring, err error) error {
	var negotiation *ssh.AlgorithmNegotiationError
	text := err.Error()
	switch {
	case keys.refused != nil:
		return keys.refused
	case errors.As(err, &negotiation) && strings.Contains(negotiation.What, "host key"):
		return keys.noCommonType(negotiation)
	case strings.Contains(text, "unable to authenticate"), strings.Contains(text, "Too many authentication failures"),
		strings.Contains(text, "too many authentication attempts"):
		return ring.refused(err)
	}
	e := &Error{Host: c.Name, Op: op, Kind: ErrUnreachable, Err: err}
	said, banner := conn.before()
	gone := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.ErrUnexpectedEOF)
	switch {
	case !banner && strings.Contains(said, "Not allowed at this time"):
		// PerSourcePenalties: each further try makes it longer.
		e.Err = fmt.Errorf("it said %q", said)
		e.Next = "the server has blocked this address for a while after failed logins: wait some minutes"
	case !banner && (gone && said == "" || strings.Contains(said, "MaxStartups")):
		e.Kind = ErrThrottled
		e.Next = "the server limits connections that are logging in (MaxStartups), or refuses this address: try again later"
	case !banner && said != "":
		e.Err = fmt.Errorf("no SSH server: it said %q", said)
		e.Next = "check the port"
	}
	return e
}

// curveFirst puts curve25519 before the rest: of those that every OpenSSH has
// it costs the least time.
func curveFirst(all []string) []string {
	first := []string{"curve25519-sha256", "curve25519-sha256@libssh.org"}
	rest := slices.DeleteFunc(slices.Clone(all), func(a string) bool { return slices.Contains(first, a) })
	return append(first, rest...)
}

// bannerConn remembers the first bytes read, to tell a server that never said
// it was one.
type bannerConn struct {
	net.Conn
	full atomic.Bool
	mu   sync.Mutex
	head []byte
}

func (c *bannerConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.full.Load() && n > 0 {
		c.mu.Lock()
		c.head = append(c.head, p[:min(n, 512-len(c.head))]...)
		c.full.Store(len(c.head) >= 512)
		c.mu.Unlock()
	}
	return n, err
}

// before returns what came before the banner, and whether the banner came.
func (c *bannerConn) before() (said string, banner bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	head := append([]byte("\n"), c.head...)
	if i := bytes.Index(head, []byte("\nSSH-")); i >= 0 {
		return printable(head[:i]), true
	}
	return printable(head), false
}
