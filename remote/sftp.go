package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

// sftpSession is the SFTP session of a connection: opened when first needed,
// given up when the server takes one session only.
type sftpSession struct {
	conn *sshConn
	turn chan struct{} // whose turn it is to open it

	mu     sync.Mutex
	ops    *sftpOps
	users  int
	off    error // why there is none on this connection
	ending bool
}

func newSFTPSession(c *sshConn) *sftpSession {
	return &sftpSession{conn: c, turn: make(chan struct{}, 1)}
}

// use returns the session's file operations and a func to call afterwards.
func (s *sftpSession) use(ctx context.Context) (fileOps, func(), error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, nil, fmt.Errorf("%s: open sftp: %w", s.conn.c.Name, context.Cause(ctx))
	}
	s.mu.Lock()
	if s.off == nil && s.ops == nil && s.conn.sessions.single() {
		s.off = s.unavailable(errors.New("the server takes one session at a time, which scripts need"))
	}
	ops, off := s.ops, s.off
	s.mu.Unlock()
	if off != nil {
		return nil, nil, off
	}
	if ops == nil {
		var err error
		if ops, err = s.open(ctx); err != nil {
			return nil, nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		return nil, nil, s.off
	}
	s.ops = ops
	s.users++
	if s.conn.sessions.single() {
		// It got the only place, before that was known: for this once.
		s.endingLocked()
	}
	return ops, s.done, nil
}

func (s *sftpSession) unavailable(err error) error {
	return &Error{Host: s.conn.c.Name, Op: "open sftp", Kind: ErrNoSFTP, Err: err}
}

// open starts the subsystem: three round trips.
func (s *sftpSession) open(ctx context.Context) (*sftpOps, error) {
	ch, requests, err := s.conn.session(ctx, sparing)
	if err != nil {
		if errors.Is(err, ErrTooManySessions) {
			return nil, s.unavailable(err)
		}
		return nil, err
	}
	closed := make(chan struct{})
	s.conn.spawn(func() {
		ssh.DiscardRequests(requests)
		s.conn.sessions.release()
		close(closed)
	})
	// A stream that nobody reads stops the channel.
	s.conn.spawn(func() { io.Copy(io.Discard, ch.Stderr()) })

	type answer struct {
		client *sftp.Client
		err    error
	}
	answered := make(chan answer, 1)
	head := &headReader{r: ch}
	s.conn.spawn(func() {
		ok, err := ch.SendRequest("subsystem", true, ssh.Marshal(struct{ Name string }{"sftp"}))
		if err == nil && !ok {
			err = errors.New("subsystem refused")
		}
		if err != nil {
			answered <- answer{nil, err}
			return
		}
		client, err := sftp.NewClientPipe(head, ch, sftp.UseConcurrentWrites(true), sftp.UseFstat(true))
		answered <- answer{client, err}
	})
	limit := time.NewTimer(s.conn.c.ChannelTimeout)
	defer limit.Stop()
	select {
	case a := <-answered:
		if a.err == nil {
			ops := &sftpOps{client: a.client}
			s.conn.spawn(func() { s.watch(ops, closed) })
			return ops, nil
		}
		ch.Close()
		if !s.conn.alive() {
			return nil, s.conn.lostError("open sftp", a.err)
		}
		return nil, s.turnOff(a.err, head.text())
	case <-limit.C:
		ch.Close()
		return nil, s.turnOff(fmt.Errorf("no answer within %v", s.conn.c.ChannelTimeout), head.text())
	case <-ctx.Done():
		ch.Close()
		return nil, fmt.Errorf("%s: open sftp: %w", s.conn.c.Name, context.Cause(ctx))
	}
}

// turnOff makes this connection do without SFTP.
func (s *sftpSession) turnOff(err error, said string) error {
	if said != "" {
		err = fmt.Errorf("%w: instead of SFTP came %q: an rc file prints output, or a forced command answers", err, said)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.off = s.unavailable(err)
	return s.off
}

// watch forgets a session whose channel the server closed; the next use opens
// another.
func (s *sftpSession) watch(ops *sftpOps, closed <-chan struct{}) {
	<-closed
	ops.client.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ops == ops {
		s.ops = nil
	}
}

// giveUp ends the session for good, at once or when its last user is done. It
// returns false when there is none.
func (s *sftpSession) giveUp() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ops == nil || s.ending {
		return false
	}
	s.endingLocked()
	return true
}

func (s *sftpSession) endingLocked() {
	s.ending = true
	s.off = s.unavailable(errors.New("the server takes one session at a time, which scripts need"))
	if s.users == 0 {
		s.endLocked()
	}
}

func (s *sftpSession) done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users--
	if s.ending && s.users == 0 {
		s.endLocked()
	}
}

// endLocked closes the channel in the background: the client waits for the
// server's answer.
func (s *sftpSession) endLocked() {
	if ops := s.ops; ops != nil {
		s.ops = nil
		s.conn.spawn(func() { ops.client.Close() })
	}
}

// headReader remembers the first bytes read, which are text when an rc file
// printed into the stream.
type headReader struct {
	r    io.Reader
	mu   sync.Mutex
	head []byte
}

func (h *headReader) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	h.mu.Lock()
	defer h.mu.Unlock()
	if room := 256 - len(h.head); room > 0 {
		h.head = append(h.head, p[:min(n, room)]...)
	}
	return n, err
}

// text is what was read when it is no SFTP packet: those begin with a length
// below 16 MiB, so with a zero byte.
func (h *headReader) text() string {
	// The library gives up after four bytes; the rest of the line may be there.
	if h.isText() {
		read := make(chan struct{})
		go func() { // ends with the channel, which is being closed
			h.Read(make([]byte, 256))
			close(read)
		}()
		select {
		case <-read:
		case <-time.After(200 * time.Millisecond):
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.head) == 0 || h.head[0] == 0 {
		return ""
	}
	return printable(h.head)
}

func (h *headReader) isText() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.head) > 0 && h.head[0] != 0
}

// sftpOps is fileOps over SFTP.
type sftpOps struct{ client *sftp.Client }

func (o *sftpOps) create(path string, mode fs.FileMode) (file, error) {
	f, err := o.client.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return nil, err
	}
	// SFTP's open sends no mode: the file is as the server's umask has it, and
	// still empty.
	if err := f.Chmod(mode); err != nil {
		return nil, errors.Join(err, f.Close(), o.client.Remove(path))
	}
	return f, nil
}

func (o *sftpOps) open(path string) (file, error) {
	f, err := o.client.Open(path)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (o *sftpOps) stat(path string) (fs.FileInfo, error) { return o.client.Stat(path) }
func (o *sftpOps) remove(path string) error              { return o.client.Remove(path) }

func (o *sftpOps) canSync() bool {
	_, ok := o.client.HasExtension("fsync@openssh.com")
	return ok
}
