package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
)

// LocalConfig says how scripts run on this machine.
type LocalConfig struct {
	Name  string   // in every error; "" is "local"
	Env   []string // environment of scripts, nil is this process's
	Dir   string   // their working directory, "" is this process's
	Shell []string // the shell's argument list, nil is /bin/sh; for tests with others
}

// Local returns this machine as a Host: the same scripts through /bin/sh, each
// in a session of its own, and files without SFTP. It does not block.
func Local(c LocalConfig) *Host {
	if c.Name == "" {
		c.Name = "local"
	}
	if len(c.Shell) == 0 {
		c.Shell = []string{"/bin/sh"}
	}
	return &Host{name: c.Name, driver: &localDriver{LocalConfig: c, running: map[*localProcess]bool{}}}
}

type localDriver struct {
	LocalConfig
	mu      sync.Mutex
	closed  bool
	running map[*localProcess]bool
}

func (d *localDriver) start(ctx context.Context, line string, _ bool) (process, error) {
	fail := func(kind, err error) error {
		return &Error{Host: d.Name, Op: "start " + d.Shell[0], Kind: kind, Err: err}
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: start a script: %w", d.Name, context.Cause(ctx))
	}
	args := d.Shell[1:len(d.Shell):len(d.Shell)]
	switch line {
	case execLine:
		args = append(args, "-s")
	case execPayloadLine:
		args = append(args, "-c", payloadReader)
	default: // into a container
		args = append(args, "-c", "exec "+line)
	}
	cmd := exec.Command(d.Shell[0], args...)
	cmd.Env, cmd.Dir = d.Env, d.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p := &localProcess{driver: d, cmd: cmd, done: make(chan struct{})}
	if err := p.begin(); err != nil {
		return nil, fail(ErrUnreachable, err)
	}
	d.mu.Lock()
	closed := d.closed
	d.running[p] = !closed
	d.mu.Unlock()
	if closed {
		p.release()
		return nil, fail(ErrClosed, nil)
	}
	return p, nil
}

func (d *localDriver) files(context.Context) (fileOps, func(), error) {
	return localFiles{d.Dir}, func() {}, nil
}

func (d *localDriver) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, fmt.Errorf("%s: connect to %s: %w", d.Name, addr, err)
	}
	return conn, nil
}

func (d *localDriver) warm(context.Context) {}

// close gives up the streams of scripts that still run, which a lost SSH
// connection would do as well.
func (d *localDriver) close() error {
	d.mu.Lock()
	d.closed = true
	var all []*localProcess
	for p := range d.running {
		all = append(all, p)
	}
	d.mu.Unlock()
	for _, p := range all {
		p.release()
	}
	return nil
}

type localProcess struct {
	driver       *localDriver
	cmd          *exec.Cmd
	in, out, err *os.File
	done         chan struct{}
	end          exitStatus // written before done is closed
	once         sync.Once
}

// begin starts the command on plain pipes: with exec.Cmd's own, Wait would
// wait for every process that still holds one.
func (p *localProcess) begin() error {
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			f.Close()
		}
	}()
	pipe := func() (r, w *os.File, err error) {
		r, w, err = os.Pipe()
		if err != nil {
			p.release()
		}
		return r, w, err
	}
	stdin, in, err := pipe()
	if err != nil {
		return err
	}
	p.in, theirs = in, append(theirs, stdin)
	out, stdout, err := pipe()
	if err != nil {
		return err
	}
	p.out, theirs = out, append(theirs, stdout)
	errs, stderr, err := pipe()
	if err != nil {
		return err
	}
	p.err, theirs = errs, append(theirs, stderr)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = stdin, stdout, stderr
	if err := p.cmd.Start(); err != nil {
		p.release()
		return err
	}
	go func() {
		p.end = waitStatus(p.cmd.Wait())
		close(p.done)
	}()
	return nil
}

func waitStatus(err error) exitStatus {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return exitStatus{lost: err}
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return exitStatus{signal: signalName(ws.Signal())}
	}
	return exitStatus{code: exit.ExitCode()}
}

func signalName(s syscall.Signal) string {
	for name, known := range signals {
		if known == s {
			return name
		}
	}
	return fmt.Sprint(int(s))
}

var signals = map[string]syscall.Signal{
	"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL,
	"PIPE": syscall.SIGPIPE, "SEGV": syscall.SIGSEGV, "TERM": syscall.SIGTERM,
}

func (p *localProcess) Write(b []byte) (int, error) { return p.in.Write(b) }
func (p *localProcess) Close() error                { return p.in.Close() }
func (p *localProcess) stdout() io.Reader           { return p.out }
func (p *localProcess) stderr() io.Reader           { return p.err }
func (p *localProcess) exited() <-chan struct{}     { return p.done }
func (p *localProcess) status() exitStatus          { return p.end }

func (p *localProcess) signal(name string) error {
	select {
	case <-p.done:
		return nil // its pid may be another's by now
	default:
	}
	sig, ok := signals[strings.TrimPrefix(name, "SIG")]
	if !ok {
		return fmt.Errorf("no signal %s here", name)
	}
	return syscall.Kill(-p.cmd.Process.Pid, sig)
}

func (p *localProcess) release() {
	p.once.Do(func() {
		for _, f := range []*os.File{p.in, p.out, p.err} {
			if f != nil {
				f.Close()
			}
		}
		p.driver.mu.Lock()
		delete(p.driver.running, p)
		p.driver.mu.Unlock()
	})
}

// localFiles is the file system of this machine; relative names are below dir,
// as the scripts see them.
type localFiles struct{ dir string }

func (l localFiles) at(name string) string {
	if l.dir == "" || strings.HasPrefix(name, "/") {
		return name
	}
	return l.dir + "/" + name
}

func (l localFiles) create(path string, mode fs.FileMode) (file, error) {
	f, err := os.OpenFile(l.at(path), os.O_RDWR|os.O_CREATE|os.O_EXCL, mode&0o600)
	if err != nil {
		return nil, err
	}
	// The umask took bits away.
	if err := f.Chmod(mode); err != nil {
		f.Close()
		os.Remove(l.at(path))
		return nil, err
	}
	return f, nil
}

func (l localFiles) open(path string) (file, error)        { return os.Open(l.at(path)) }
func (l localFiles) stat(path string) (fs.FileInfo, error) { return os.Stat(l.at(path)) }
func (l localFiles) remove(path string) error              { return os.Remove(l.at(path)) }
func (l localFiles) canSync() bool                         { return true }
