package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// grace is how long servers get to end by themselves: they drain requests.
const grace = 3 * time.Second

// Options of a practice host.
type Options struct {
	// Dir holds everything of it: environment, state, keys, settings. What is
	// there from an earlier time is used again, patches included. "" makes a
	// folder below TempDir that Close removes.
	Dir     string
	TempDir string // "" is the system's
	// Settings replace those in Dir; nil keeps them, or takes the defaults.
	Settings *Settings
	Python   string // interpreter to build the environment with; "" looks for python3
	Port     int    // of the SSH server; 0 takes the one from the last time, or a free one
}

// Lab is a running practice host. It is safe for concurrent use.
type Lab struct {
	layout    layout
	temporary bool
	lock      *os.File
	host      Host
	server    sshServer
}

// Start runs a practice host in this process: an SSH server on the loopback
// interface, whose sessions have the practice environment. It blocks until the
// server listens; the caller must Close it. Errors: *PythonError, *BusyError.
func Start(ctx context.Context, o Options) (*Lab, error) {
	if err := supported(); err != nil {
		return nil, err
	}
	dir, temporary := o.Dir, o.Dir == ""
	var err error
	if temporary {
		dir, err = os.MkdirTemp(o.TempDir, "specrun-lab-")
	} else if dir, err = filepath.Abs(dir); err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("practice host: %w", err)
	}
	l := &Lab{layout: layout(dir), temporary: temporary}
	if err := l.start(ctx, o); err != nil {
		return nil, errors.Join(err, l.Close(context.WithoutCancel(ctx)))
	}
	return l, nil
}

func (l *Lab) start(ctx context.Context, o Options) error {
	dir := string(l.layout)
	lock, held, err := lockFile(l.layout.lock())
	if err != nil {
		return fmt.Errorf("practice host in %s: %w", dir, err)
	}
	if held {
		return &BusyError{dir}
	}
	l.lock = lock
	for _, d := range []string{l.layout.home(), l.layout.ssh()} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return fmt.Errorf("practice host: %w", err)
		}
	}
	if err := l.prepareSettings(o.Settings); err != nil {
		return err
	}
	if err := writeModels(l.layout.home()); err != nil {
		return err
	}
	e, fresh, err := install(ctx, l.layout.venv(), o.Python)
	if err != nil {
		return err
	}
	if fresh { // what the state says is about files that are no more
		if err := os.RemoveAll(l.layout.state()); err != nil {
			return fmt.Errorf("practice host: %w", err)
		}
	}
	l.host = Host{
		Address: "127.0.0.1", Python: e.python(), Cwd: l.layout.home(), StateDir: l.layout.state(),
		Env: map[string]string{settingsEnv: l.layout.settings()},
	}
	l.server, err = startSSH(ctx, l.layout, o.Port, sessionEnv(l.layout), &l.host)
	return err
}

func (l *Lab) prepareSettings(s *Settings) error {
	if s != nil {
		return l.SetSettings(*s)
	}
	kept, err := ReadSettings(l.layout.settings())
	if err == nil { // of an earlier start, which may have been another version
		return l.layout.writeSMI(kept)
	}
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	d, err := DefaultSettings()
	if err != nil {
		return err
	}
	return l.SetSettings(d)
}

// sessionEnv is what a login to the practice host finds: nothing of the user
// who started it but where programs are.
func sessionEnv(l layout) map[string]string {
	return map[string]string{
		"PATH":      l.bin() + string(os.PathListSeparator) + l.path("venv", "bin") + string(os.PathListSeparator) + os.Getenv("PATH"),
		"HOME":      l.home(),
		"LC_ALL":    "C.UTF-8",
		settingsEnv: l.settings(),
	}
}

// Host is how to reach it.
func (l *Lab) Host() Host { return l.host }

// Dir is the folder that holds everything of it.
func (l *Lab) Dir() string { return string(l.layout) }

// Settings are the present ones.
func (l *Lab) Settings() (Settings, error) { return ReadSettings(l.layout.settings()) }

// SetSettings holds from the next start of a server on.
func (l *Lab) SetSettings(s Settings) error { return l.layout.writeSettings(s) }

// Close ends all sessions and every process that came from one, servers
// included, and removes the folder if Start made it. Closing again does nothing.
func (l *Lab) Close(ctx context.Context) error {
	if l.lock == nil && !l.temporary {
		return nil
	}
	var errs []error
	if l.server != nil {
		errs = append(errs, l.server.Close())
		l.server = nil
	}
	if l.lock != nil { // without it, nothing here is ours
		errs = append(errs, endAll(ctx, l.layout.mark(), grace))
	}
	if l.temporary {
		errs = append(errs, os.RemoveAll(string(l.layout)))
		l.temporary = false
	}
	if l.lock != nil {
		errs = append(errs, l.lock.Close())
		l.lock = nil
	}
	return errors.Join(errs...)
}
