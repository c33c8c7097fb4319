package remote

import (
	"context"
	"io"
	"io/fs"
	"net"
	"sync"
	"time"
)

// Host is one machine: the far end of an SSH connection, or this one. It is
// safe for concurrent use. Close it when done.
type Host struct {
	name    string
	driver  driver
	handles handles // open files of ReadAt

	mu     sync.Mutex
	closed bool
	work   sync.WaitGroup // goroutines that the driver's end ends
}

// driver is what differs between SSH and this machine. Errors it returns name
// the host and carry one of the kinds of errors.go.
type driver interface {
	// start begins one of the two exec lines. It blocks until the host lets it
	// begin or ctx ends. urgent does not queue: it is for ending a script,
	// which may hold the last place.
	start(ctx context.Context, line string, urgent bool) (process, error)
	// files returns the host's file operations and a func to call when done
	// with them; ErrNoSFTP when scripts must do instead.
	files(ctx context.Context) (fileOps, func(), error)
	dial(ctx context.Context, network, addr string) (net.Conn, error)
	// warm prepares for the next start, as well as it can.
	warm(ctx context.Context)
	close() error
}

// process is one exec line running on the host.
type process interface {
	io.WriteCloser // its standard input; Close ends the input only
	stdout() io.Reader
	stderr() io.Reader
	signal(name string) error // to the whole process group
	// exited is closed when the shell's end is known or the connection is lost;
	// status is valid from then on.
	exited() <-chan struct{}
	status() exitStatus
	release() // gives up the streams; idempotent
}

// exitStatus says how the shell of a process ended.
type exitStatus struct {
	code   int
	signal string // "KILL", when a signal ended it
	lost   error  // not nil: the connection went, nothing is known
}

// fileOps is the part of SFTP that this package needs.
type fileOps interface {
	// create makes a new file (O_EXCL) that has its mode before its first byte.
	create(path string, mode fs.FileMode) (file, error)
	open(path string) (file, error)
	stat(path string) (fs.FileInfo, error)
	remove(path string) error
	canSync() bool
}

// file is an open file; *os.File and *sftp.File are.
type file interface {
	io.Reader
	io.ReaderAt
	io.WriterAt
	io.Closer
	Stat() (fs.FileInfo, error)
	Sync() error
}

// Name is the host's name as the user gave it.
func (h *Host) Name() string { return h.name }

// Close ends the connection. Scripts still running on the host are not ended:
// cancel their contexts first. Processes they detached live on.
func (h *Host) Close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.handles.closeAll()
	err := h.driver.close()
	h.work.Wait()
	return err
}

// spawn runs f in a goroutine that Close waits for.
func (h *Host) spawn(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed { // all that f can try fails at once
		go f()
		return
	}
	h.work.Go(f)
}

// DialContext connects to addr as seen from the host, "127.0.0.1:30000" being
// the host's own port. Only "tcp" is supported. Over SSH the connection has no
// deadlines: end it by closing it, as an http.Transport does.
func (h *Host) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	return h.driver.dial(ctx, network, addr)
}

// CheckSFTP says why files go through scripts rather than by SFTP (or directly,
// on this machine): ErrNoSFTP; nil when they do not. It opens the SFTP session
// when there is none yet.
func (h *Host) CheckSFTP(ctx context.Context) error {
	_, done, err := h.driver.files(ctx)
	if err != nil {
		return err
	}
	done()
	return nil
}

// WarmRun starts an idle /bin/sh in the background for the next Run without a
// payload, which then costs one round trip instead of three. It returns at
// once; where the server has no place to spare nothing happens. A second call
// before that Run changes nothing. It stops when ctx ends.
func (h *Host) WarmRun(ctx context.Context) {
	h.spawn(func() { h.driver.warm(ctx) })
}

// cleanupContext returns a context for cleaning up after ctx has ended.
func cleanupContext(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), limit)
}
