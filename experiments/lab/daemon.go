package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// startLimit is how long a detached practice host may take to listen; making
// the environment for the first time is the slow part.
const startLimit = 60 * time.Second

// Running describes a practice host that runs as a process of its own.
type Running struct {
	Dir       string    `json:"dir"`
	Process   Process   `json:"process"`
	StartedAt time.Time `json:"started_at"`
	Host      Host      `json:"host"`
}

// PID is its process.
func (r Running) PID() int { return r.Process.PID }

// Serve runs the practice host of o.Dir until ctx ends, then ends everything
// that came from it. It is the body of the process that StartDaemon starts.
func Serve(ctx context.Context, o Options) error {
	if o.Dir == "" {
		return errors.New("practice host: no folder given")
	}
	l, err := Start(ctx, o)
	if err != nil {
		return err
	}
	err = serve(ctx, l)
	return errors.Join(err, os.RemoveAll(l.layout.running()), l.Close(context.WithoutCancel(ctx)))
}

func serve(ctx context.Context, l *Lab) error {
	me, err := self()
	if err != nil {
		return fmt.Errorf("practice host: %w", err)
	}
	r := Running{Dir: l.Dir(), Process: me, StartedAt: time.Now().UTC(), Host: l.Host()}
	if err := writeJSON(l.layout.running(), r); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// DaemonOptions of StartDaemon.
type DaemonOptions struct {
	Dir      string
	Settings *Settings // nil keeps those in Dir, or takes the defaults
	// Command is the process to start, which must call Serve on Dir; it gets
	// this process's environment and an end of its own session.
	Command []string
}

// StartDaemon starts a practice host that outlives this process, and returns
// when it can be reached. One that runs already is left running and gets the
// settings, if any; started says whether this call started it.
func StartDaemon(ctx context.Context, o DaemonOptions) (r Running, started bool, err error) {
	if err := supported(); err != nil {
		return r, false, err
	}
	dir, err := realDir(o.Dir)
	if err != nil {
		return r, false, err
	}
	l := layout(dir)
	if o.Settings != nil {
		if err := l.writeSettings(*o.Settings); err != nil {
			return r, false, err
		}
	}
	if r, err = Status(ctx, dir); err == nil {
		return r, false, nil
	}
	log, err := os.OpenFile(l.log(), os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		return r, false, fmt.Errorf("start practice host: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(o.Command[0], o.Command[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = dir
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return r, false, fmt.Errorf("start practice host: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // ends with the process, or with ours

	var failed error
	await(ctx, startLimit, func() bool {
		if r, err = Status(ctx, dir); err == nil {
			return true
		}
		select {
		case e := <-ended:
			// Another call may have been faster; then its practice host is the one.
			if r, err = Status(ctx, dir); err != nil {
				failed = fmt.Errorf("practice host ended at once (%v): %s", e, tail(log))
			}
			return true
		default:
			return false
		}
	})
	if failed != nil {
		return r, false, failed
	}
	if err != nil {
		if cerr := cmd.Process.Kill(); cerr != nil {
			err = errors.Join(err, cerr)
		}
		if ctx.Err() != nil {
			return r, false, ctx.Err()
		}
		return r, false, fmt.Errorf("practice host does not listen after %s: %s", startLimit, tail(log))
	}
	return r, r.PID() == cmd.Process.Pid, nil
}

// Status finds the practice host that runs in dir by its identity.
// *NotRunningError when there is none.
func Status(_ context.Context, dir string) (Running, error) {
	var r Running
	dir, err := resolve(dir)
	if err != nil {
		return r, err
	}
	text, err := os.ReadFile(layout(dir).running())
	if errors.Is(err, os.ErrNotExist) {
		return r, &NotRunningError{dir}
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return r, fmt.Errorf("practice host in %s: %w", dir, err)
	}
	if !r.Process.alive() {
		return Running{}, &NotRunningError{dir}
	}
	return r, nil
}

// Stop ends the practice host of dir and every process that came from it, also
// those that an earlier one left behind. stopped says whether it was running.
func Stop(ctx context.Context, dir string) (stopped bool, err error) {
	if err := supported(); err != nil {
		return false, err
	}
	dir, err = resolve(dir)
	if err != nil {
		return false, err
	}
	l := layout(dir)
	r, err := Status(ctx, dir)
	var none *NotRunningError
	if err != nil && !errors.As(err, &none) {
		return false, err
	}
	if err == nil {
		stopped = true
		// It ends its servers first, each with its own grace.
		if err := r.Process.end(ctx, 3*grace); err != nil {
			return stopped, err
		}
	}
	if err := endAll(ctx, l.mark(), grace); err != nil {
		return stopped, err
	}
	if err := os.RemoveAll(l.running()); err != nil {
		return stopped, fmt.Errorf("stop practice host: %w", err)
	}
	return stopped, nil
}

// resolve gives a folder the one name that marks its processes; it need not exist.
func resolve(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("practice host: %w", err)
	}
	real, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, os.ErrNotExist) {
		return dir, nil
	}
	return real, err
}

func realDir(dir string) (string, error) {
	if dir == "" {
		return "", errors.New("practice host: no folder given")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("practice host: %w", err)
	}
	return resolve(dir)
}

// tail is the end of what a failed practice host wrote.
func tail(f *os.File) string {
	const most = 2000
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err.Error()
	}
	data := make([]byte, min(size, most))
	if _, err := f.ReadAt(data, size-int64(len(data))); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(data))
}
