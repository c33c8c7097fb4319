package remote

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync"
)

// Container names a container on a host. Engine is "docker" or "podman", Name
// its name or id.
type Container struct{ Engine, Name string }

// ParseContainer reads "NAME", "docker:NAME" or "podman:NAME"; docker is meant
// where no engine is named.
func ParseContainer(s string) (Container, error) {
	c := Container{Engine: "docker", Name: s}
	if engine, name, ok := strings.Cut(s, ":"); ok {
		c = Container{Engine: engine, Name: name}
	}
	return c, c.check()
}

var (
	containerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)
	containerID   = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

func (c Container) check() error {
	switch {
	case c.Engine != "docker" && c.Engine != "podman":
		return fmt.Errorf("container engine %q: want docker or podman", c.Engine)
	case !containerName.MatchString(c.Name):
		return fmt.Errorf("%q is no name of a container", c.Name)
	}
	return nil
}

func (c Container) String() string { return c.Engine + ":" + c.Name }

// Inside is what is known of the container that a Host is in.
type Inside struct {
	Container
	ID          string // pinned: another container of that name is another one
	PID         int    // of its first process, as the host sees it; 0 unknown
	HostNetwork bool   // its ports are the host's
	Address     string // its own, "" when it has none that is known
}

//go:embed scripts/container.sh
var containerText string

// Container returns the inside of a running container on h as a Host of its
// own: the same scripts, through "docker exec -i ID /bin/sh", with files going
// through them. What runs there has the container's processes, files and
// network, and the identities it writes name the container, so that after its
// restart every process of before is known to be gone.
//
// The id is resolved now and pinned. A container that was stopped, removed or
// replaced meanwhile shows as a *ContainerError in whatever is tried next. Ending
// a script ends its processes inside: the exec client's end would not.
//
// The result shares h's connection; closing it leaves h open. Not inside a
// container (they do not nest).
func (h *Host) Container(ctx context.Context, c Container) (*Host, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", h.name, err)
	}
	if _, nested := h.driver.(*containerDriver); nested {
		return nil, fmt.Errorf("%s: a container within a container is not supported", h.name)
	}
	in, err := h.inspect(ctx, c)
	if err != nil {
		return nil, err
	}
	d := &containerDriver{base: h, in: in, running: map[*containerProcess]bool{}}
	inner := &Host{name: fmt.Sprintf("%s (container %s)", h.name, c.Name), driver: d}
	// What cannot be entered shows now. Without setsid each script is an exec.
	res, err := inner.Run(ctx, Script{Name: "setsid", Text: "main() { command -v setsid >/dev/null 2>&1 && echo yes; :; }"})
	if err != nil {
		return nil, errors.Join(err, inner.Close())
	}
	d.works = strings.TrimSpace(string(res.Stdout)) == "yes"
	return inner, nil
}

// Inside tells which container the Host is; false when it is none.
func (h *Host) Inside() (Inside, bool) {
	if d, ok := h.driver.(*containerDriver); ok {
		return d.in, true
	}
	return Inside{}, false
}

// inspect asks the engine about a container that must be running.
func (h *Host) inspect(ctx context.Context, c Container) (Inside, error) {
	res, err := h.Run(ctx, Script{Name: "container", Text: containerText,
		Vars: []Var{{"ENGINE", c.Engine}, {"NAME", c.Name}}})
	if err != nil {
		return Inside{}, fmt.Errorf("look for container %s: %w", c.Name, err)
	}
	in := Inside{Container: c}
	state := ""
	failed := ContainerError{Host: h.name, Container: c}
	for _, l := range Lines(res.Stdout) {
		switch l.Key {
		case "problem":
			failed.Reason = ContainerReason(l.Value)
		case "detail":
			failed.Detail = strings.TrimSpace(failed.Detail + " " + l.Value)
		case "id":
			in.ID = l.Value
		case "state":
			state = l.Value
		case "pid":
			fmt.Sscan(l.Value, &in.PID) // 0 where it is no number: unknown
		case "network":
			in.HostNetwork = l.Value == "host"
		case "address":
			if in.Address == "" && net.ParseIP(l.Value) != nil {
				in.Address = l.Value
			}
		}
	}
	switch {
	case failed.Reason != "":
		return in, &failed
	case !containerID.MatchString(in.ID):
		return in, &Error{Host: h.name, Op: "look for container " + c.Name, Kind: ErrNoise, Err: fmt.Errorf("%s said %q", c.Engine, res.Stdout)}
	case state != "running":
		failed.Reason, failed.Detail = ContainerStopped, state
		return in, &failed
	}
	return in, nil
}

// ContainerReason says why a container cannot be entered.
type ContainerReason string

// Reasons why a container cannot be entered.
const (
	ContainerNoEngine ContainerReason = "no engine" // docker or podman is not there
	ContainerRefused  ContainerReason = "refused"   // the engine does not answer us
	ContainerAbsent   ContainerReason = "absent"    // no container has the name
	ContainerStopped  ContainerReason = "stopped"   // it does not run
	ContainerReplaced ContainerReason = "replaced"  // another one has its name now
)

// ContainerError says why a container cannot be entered.
type ContainerError struct {
	Host string
	Container
	Reason ContainerReason
	Detail string // what the engine said; of a replaced one its id now
}

func (e *ContainerError) Error() string {
	msg := fmt.Sprintf("%s: container %s ", e.Host, e.Name)
	switch e.Reason {
	case ContainerNoEngine:
		return fmt.Sprintf("%s: there is no %s in PATH", e.Host, e.Engine)
	case ContainerRefused:
		return fmt.Sprintf("%s: %s does not answer: %s", e.Host, e.Engine, e.Detail)
	case ContainerAbsent:
		return msg + "does not exist in " + e.Engine
	case ContainerReplaced:
		return msg + "was replaced: its name belongs to " + short(e.Detail) + " now"
	}
	return fmt.Sprintf("%sdoes not run (%s)", msg, e.Detail)
}

// Hint says what the user can do about it.
func (e *ContainerError) Hint() string {
	switch e.Reason {
	case ContainerNoEngine:
		return "name the other engine: container: podman:" + e.Name + " or docker:" + e.Name + "; or put it into PATH for sessions that are no login"
	case ContainerRefused:
		return "the account must be able to run \"" + e.Engine + " ps\" on the host (group docker, or its own podman)"
	case ContainerAbsent:
		return "\"" + e.Engine + " ps\" on the host lists those that run"
	case ContainerReplaced:
		return "what was patched and started in the old one went with it; run the command again for the new one"
	}
	return "start it again: " + e.Engine + " start " + e.Name
}

// Gone tells that the container of before, if there was one, and so every
// process in it, is gone.
func (e *ContainerError) Gone() bool {
	return e.Reason == ContainerAbsent || e.Reason == ContainerStopped || e.Reason == ContainerReplaced
}

// containerDriver runs everything through exec on the driver of another Host.
type containerDriver struct {
	base *Host
	in   Inside

	works bool // scripts run in workers; set before the Host is anybody's

	mu      sync.Mutex
	closed  bool
	running map[*containerProcess]bool
	idle    []*worker
	waiting int // execs that are being started
}

// line is the exec line inside of the container as one for the host. The id is
// hex, so that it holds nothing that a login shell could misread. Podman looks for its
// detach keys, two plain bytes, in all that goes in, files too, unless told not
// to.
func (d *containerDriver) line(inner string) string {
	keys := ""
	if d.in.Engine == "podman" {
		keys = "--detach-keys= "
	}
	return d.in.Engine + " exec -i " + keys + "-e " + containerVar + "=" + d.in.ID + " " + d.in.ID + " " + inner
}

// containerVar tells host.sh that it is in a container, and in which.
const containerVar = "SPECRUN_CONTAINER"

func (d *containerDriver) start(ctx context.Context, line string, urgent bool) (process, error) {
	d.mu.Lock()
	closed := d.closed
	d.mu.Unlock()
	if closed {
		return nil, &Error{Host: d.base.name, Op: "start a script in container " + d.in.Name, Kind: ErrClosed}
	}
	if line != execLine || !d.works {
		return d.exec(ctx, line, urgent)
	}
	if w := d.take(); w != nil {
		if p, err := d.begin(w, true); err == nil {
			return p, nil
		} // it had ended
	}
	p, err := d.exec(ctx, workerLine, urgent)
	if err != nil {
		return nil, err
	}
	return d.begin(&worker{p: p}, false)
}

// crowded is a driver that may have no place for another process until one ends.
type crowded interface{ full() bool }

// exec starts a line in the container by an exec of its own.
func (d *containerDriver) exec(ctx context.Context, line string, urgent bool) (process, error) {
	if c, ok := d.base.driver.(crowded); ok && c.full() {
		d.makeRoom()
	}
	d.mu.Lock()
	d.waiting++
	d.mu.Unlock()
	p, err := d.base.driver.start(ctx, d.line(line), urgent)
	d.mu.Lock()
	d.waiting--
	d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	c := &containerProcess{process: p, driver: d}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running[c] = true
	return c, nil
}

// files: there is no SFTP into a container.
func (d *containerDriver) files(context.Context) (fileOps, func(), error) {
	return nil, nil, &Error{Host: d.base.name, Op: "open sftp in container " + d.in.Name, Kind: ErrNoSFTP}
}

// warm does nothing: an exec that waits would hold a place of the engine's.
func (d *containerDriver) warm(context.Context) {}

func (d *containerDriver) close() error {
	d.mu.Lock()
	d.closed = true
	var all []*containerProcess
	for p := range d.running {
		all = append(all, p)
	}
	d.mu.Unlock()
	for _, p := range all {
		p.release()
	}
	return nil
}

// unstarted says why a script did not begin: what the engine's client printed
// matters only when the container is still the one that runs.
func (d *containerDriver) unstarted(ctx context.Context, err error) error {
	now, failed := d.base.inspect(ctx, Container{d.in.Engine, d.in.ID})
	var c *ContainerError
	switch {
	case failed == nil && now.ID == d.in.ID:
		var e *Error
		if errors.As(err, &e) && e.Kind == ErrNoise {
			e.Next = "the container needs /bin/sh, and the account must be allowed to exec into it"
		}
		return err
	case !errors.As(failed, &c):
		return errors.Join(err, failed)
	}
	c.Container = d.in.Container
	if c.Reason == ContainerAbsent {
		if other, err := d.base.inspect(ctx, d.in.Container); err == nil && other.ID != d.in.ID {
			c.Reason, c.Detail = ContainerReplaced, other.ID
		}
	}
	return c
}

// containerProcess is a process seen through the exec client, which is not the
// process: its end proves nothing, and a signal to it reaches nobody.
type containerProcess struct {
	process
	driver *containerDriver
	once   sync.Once
}

func (p *containerProcess) signal(string) error {
	return errors.New("the client of exec passes no signal on")
}

func (p *containerProcess) release() {
	p.once.Do(func() {
		p.driver.mu.Lock()
		delete(p.driver.running, p)
		p.driver.mu.Unlock()
	})
	p.process.release()
}

// dial reaches a port of the container: through the host where they share the
// network, else by the container's own address, and, since a server may listen
// on the container's loopback only, through a relay inside.
func (d *containerDriver) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if d.in.HostNetwork {
		return d.base.DialContext(ctx, network, addr)
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil || network != "tcp" {
		return nil, fmt.Errorf("%s: connect to %s in container %s: not host:port of tcp", d.base.name, addr, d.in.Name)
	}
	if ip := net.ParseIP(host); d.in.Address != "" && (host == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())) {
		conn, err := d.base.DialContext(ctx, network, net.JoinHostPort(d.in.Address, port))
		if err == nil || ctx.Err() != nil {
			return conn, err
		}
	}
	return d.relay(ctx, host, port)
}
