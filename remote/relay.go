package remote

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

//go:embed scripts/relay.sh
var relayText string

// relay connects to a port inside of a container through a process there, which
// copies between the connection and its own standard streams.
func (d *containerDriver) relay(ctx context.Context, host, port string) (net.Conn, error) {
	addr := net.JoinHostPort(host, port)
	op := fmt.Sprintf("connect to %s in container %s", addr, d.in.Name)
	marker := newMarker()
	// Not framed as other scripts are: what follows is the connection's bytes.
	var text strings.Builder
	for _, v := range []Var{{"specrun_marker", marker}, {"HOST", host}, {"PORT", port}} {
		quoted, err := Quote(v.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", d.base.name, op, err)
		}
		fmt.Fprintf(&text, "%s=%s\n", v.Name, quoted)
	}
	text.WriteString(relayText + "\n{ main; exit $?; }\n.\n")
	p, err := d.start(ctx, execPayloadLine, false)
	if err != nil {
		return nil, err
	}
	c := &relayConn{p: p, addr: relayAddr(addr)}
	go io.Copy(io.Discard, p.stderr()) // ends with the process's streams
	answer := make(chan error, 1)
	go func() { answer <- c.open(text.String(), marker) }()
	select {
	case err = <-answer:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err == nil {
		return c, nil
	}
	c.Close() // it failed already
	var next string
	switch {
	case errors.Is(err, errNoRelay):
		next = "let the server listen on 0.0.0.0 instead of 127.0.0.1, or have python3, bash or nc in the container"
	case ctx.Err() == nil && !errors.Is(err, syscall.ECONNREFUSED):
		err = d.unstarted(ctx, &Error{Host: d.base.name, Op: op, Kind: ErrNoise, Err: err})
		return nil, err
	}
	return nil, &Error{Host: d.base.name, Op: op, Kind: err, Next: next}
}

var errNoRelay = errors.New("the container has nothing that can forward it")

// relayConn is a connection through the standard streams of a relay. It has no
// deadlines: end it by closing it.
type relayConn struct {
	p    process
	addr relayAddr
	head []byte // read behind the marker's line
	once sync.Once
}

// open sends the relay's script and waits for its word.
func (c *relayConn) open(text, marker string) error {
	if _, err := io.WriteString(c.p, text); err != nil {
		return err
	}
	var seen []byte
	buf := make([]byte, 4096)
	for {
		n, err := c.p.stdout().Read(buf)
		seen = append(seen, buf[:n]...)
		if _, rest, ok := strings.Cut(string(seen), "\n"+marker+" "); ok {
			if word, rest, ok := strings.Cut(rest, "\n"); ok {
				c.head = []byte(rest)
				switch word {
				case "connected":
					return nil
				case "refused":
					return syscall.ECONNREFUSED
				case "none":
					return errNoRelay
				}
				return fmt.Errorf("the relay said %q", word)
			}
		}
		if err != nil {
			return fmt.Errorf("the relay ended: %w (%s)", err, printable(seen))
		}
		if len(seen) > noiseCap {
			return fmt.Errorf("%w: %s", ErrNoise, printable(seen))
		}
	}
}

func (c *relayConn) Read(b []byte) (int, error) {
	if len(c.head) > 0 {
		n := copy(b, c.head)
		c.head = c.head[n:]
		return n, nil
	}
	n, err := c.p.stdout().Read(b)
	if errors.Is(err, os.ErrClosed) {
		err = net.ErrClosed
	}
	return n, err
}

func (c *relayConn) Write(b []byte) (int, error) { return c.p.Write(b) }

// Close ends the relay: it stops at the end of its input.
func (c *relayConn) Close() error {
	c.once.Do(func() {
		c.p.Close() // its input: nothing is left to send
		c.p.release()
	})
	return nil
}

func (c *relayConn) LocalAddr() net.Addr              { return relayAddr("relay") }
func (c *relayConn) RemoteAddr() net.Addr             { return c.addr }
func (c *relayConn) SetDeadline(time.Time) error      { return errNoDeadline }
func (c *relayConn) SetReadDeadline(time.Time) error  { return errNoDeadline }
func (c *relayConn) SetWriteDeadline(time.Time) error { return errNoDeadline }

var errNoDeadline = fmt.Errorf("a connection into a container: %w", os.ErrNoDeadline)

type relayAddr string

func (relayAddr) Network() string  { return "tcp" }
func (a relayAddr) String() string { return string(a) }
