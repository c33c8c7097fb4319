package server

import (
	"context"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"specrun/remote"
)

//go:embed scripts/foreign.sh
var foreignText string

// Process is what /proc says of one process of the host, whoever started it.
type Process struct {
	Identity Identity
	User     string
	UID      int
	// Argv is its argument vector; a process that sets its own title has that in
	// the first word, and nothing else.
	Argv []string
	// Environ is what it was started with, less what a title may have
	// overwritten; nil when it is hidden.
	Environ       map[string]string
	EnvironHidden bool // another user's process, which this one may not read
	Cwd, Exe      string
	// Program is the path of the first word of Argv, looked up in the process's
	// own PATH and folder: unlike Exe, which is the file itself, it is the
	// virtual environment's interpreter. "" when it cannot be found.
	Program string
	Started time.Time // host's clock, a second's resolution
	Age     time.Duration
	// Listens has the TCP ports on which it listens, in order, and then those of
	// its descendants.
	Listens []int
	GPUs    []GPUHolder    // what it and its descendants hold
	Devices map[string]int // index of each GPU of the host by UUID, as nvidia-smi counts
	// Log is the file behind its standard output, else that behind its standard
	// error; "" when neither is a file. Gone: it was deleted or replaced.
	Log       string
	LogGone   bool
	Container string // id of the container that it is in and this session is not
	Unit      string // systemd service that it is in and this session is not
	// OtherNetwork: its ports are not those of the same numbers here.
	OtherNetwork bool
	CPUs         string // it may run on, when that is not what this session may
	Ancestors    []int  // from its parent on
	Children     []int  // direct ones, sorted
}

// GoneError says that there is no process of this pid, or that it ended while it
// was looked at. It wraps ErrGone.
type GoneError struct {
	Host   string
	PID    int
	Leader int  // the process of which PID is a thread; 0 when it is none
	Kernel bool // PID is a part of the kernel
}

func (e *GoneError) Error() string {
	switch {
	case e.Leader != 0:
		return fmt.Sprintf("%s: %d is no process but a thread of process %d", e.Host, e.PID, e.Leader)
	case e.Kernel:
		return fmt.Sprintf("%s: process %d is a part of the kernel", e.Host, e.PID)
	}
	return fmt.Sprintf("%s: no process %d", e.Host, e.PID)
}

func (e *GoneError) Unwrap() error { return ErrGone }

// Hint says what the user can do.
func (e *GoneError) Hint() string {
	if e.Leader != 0 {
		return fmt.Sprintf("--pid %d is the process", e.Leader)
	}
	return fmt.Sprintf("specrun server status --host %s lists what serves there and who holds its GPUs", e.Host)
}

// Describe reads one process of the host from /proc; it changes nothing. What
// this user may not see is left out. *GoneError when there is none.
func Describe(ctx context.Context, h Host, pid int) (Process, error) {
	if pid < 1 {
		return Process{}, &GoneError{Host: h.Name(), PID: pid}
	}
	res, err := h.Run(ctx, script("foreign", foreignText, remote.Var{Name: "PID", Value: strconv.Itoa(pid)}))
	var exit *remote.ExitError
	if errors.As(err, &exit) && exit.Code == 3 {
		return Process{}, &GoneError{Host: h.Name(), PID: pid}
	}
	if err != nil {
		return Process{}, fmt.Errorf("describe process %d: %w", pid, err)
	}
	lines := remote.Lines(res.Stdout)
	for _, l := range lines[:min(1, len(lines))] {
		switch l.Key {
		case "thread":
			leader, err := strconv.Atoi(l.Value)
			if err != nil {
				return Process{}, fmt.Errorf("%s: describe process %d: its leader: %w", h.Name(), pid, err)
			}
			return Process{}, &GoneError{Host: h.Name(), PID: pid, Leader: leader}
		case "kernel":
			return Process{}, &GoneError{Host: h.Name(), PID: pid, Kernel: true}
		}
	}
	p, err := parseProcess(lines)
	if err != nil {
		return Process{}, fmt.Errorf("%s: describe process %d: %w", h.Name(), pid, err)
	}
	return p, nil
}

func parseProcess(lines []remote.Line) (Process, error) {
	p := Process{Devices: map[string]int{}}
	var (
		fds          [2]string
		hz           = 100.0
		up           float64
		now          int64
		cgroup, here string
		cpus         = map[string]string{} // by pid: the process's and the script's
		err          error
	)
	text := func(s string) string {
		b, e := hex.DecodeString(s)
		err = e
		return string(b)
	}
	number := func(s string) int {
		n, e := strconv.Atoi(s)
		err = e
		return n
	}
	for _, l := range lines {
		switch l.Key {
		case "identity":
			p.Identity, err = parseIdentity(l.Value)
		case "uid":
			p.UID = number(l.Value)
		case "user":
			p.User = l.Value
		case "argv":
			if raw := text(l.Value); raw != "" {
				p.Argv = strings.Split(strings.TrimSuffix(raw, "\x00"), "\x00")
			}
		case "environ":
			p.Environ = parseEnviron([]byte(text(l.Value)))
		case "environ_hidden":
			p.EnvironHidden = true
		case "cwd":
			p.Cwd = text(l.Value)
		case "exe":
			p.Exe = text(l.Value)
		case "program":
			p.Program = path.Clean(text(l.Value))
		case "fd1":
			fds[0] = text(l.Value)
		case "fd2":
			fds[1] = text(l.Value)
		case "hz":
			hz, err = strconv.ParseFloat(l.Value, 64)
		case "up":
			up, err = strconv.ParseFloat(l.Value, 64)
		case "now":
			now, err = strconv.ParseInt(l.Value, 10, 64)
		case "cgroup":
			cgroup = text(l.Value)
		case "cgroup_here":
			here = text(l.Value)
		case "cpus":
			who, list, _ := strings.Cut(l.Value, " ")
			cpus[who] = list
		case "other_network":
			p.OtherNetwork = true
		case "ancestor":
			p.Ancestors = append(p.Ancestors, number(l.Value))
		case "child":
			p.Children = append(p.Children, number(l.Value))
		case "listens":
			if port := number(l.Value); !slices.Contains(p.Listens, port) {
				p.Listens = append(p.Listens, port)
			}
		case "device":
			index, uuid, _ := strings.Cut(l.Value, " ")
			p.Devices[uuid] = number(index)
		case "gpu":
			var g GPUHolder
			g, err = parseGPU(l.Value, true)
			p.GPUs = append(p.GPUs, g)
		}
		if err != nil {
			return Process{}, fmt.Errorf("line %s: %w", l.Key, err)
		}
	}
	if p.Identity.PID == 0 {
		return Process{}, errors.New("no identity in the answer")
	}
	slices.Sort(p.Children)
	p.Age = time.Duration((up - float64(p.Identity.StartTicks)/hz) * float64(time.Second)).Truncate(time.Second)
	p.Started = time.Unix(now, 0).Add(-p.Age)
	p.Log, p.LogGone = logFile(fds)
	if own := containerOf(cgroup); own != containerOf(here) {
		p.Container = own
	}
	if own := unitOf(cgroup); own != unitOf(here) {
		p.Unit = own
	}
	own := cpus[strconv.Itoa(p.Identity.PID)]
	for _, list := range cpus {
		if list != own {
			p.CPUs = own
		}
	}
	return p, nil
}

// logFile is the first of the descriptors that leads to a file.
func logFile(fds [2]string) (file string, gone bool) {
	for _, fd := range fds {
		if !strings.HasPrefix(fd, "/") || strings.HasPrefix(fd, "/dev/") || strings.HasPrefix(fd, "/memfd:") {
			continue
		}
		file, gone = strings.CutSuffix(fd, " (deleted)")
		return file, gone
	}
	return "", false
}

// containerID is how the engines name the control group of a container:
// docker-ID.scope, docker/ID, libpod-ID.scope, cri-containerd-ID.scope.
var containerID = regexp.MustCompile(`(?:^|[/-])([0-9a-f]{64})(?:\.scope)?(?:/|$)`)

// containerOf reads a container's id out of /proc/PID/cgroup, "" when there is
// none: on a machine of its own, or as seen from inside.
func containerOf(cgroup string) string {
	for line := range strings.Lines(cgroup) {
		if m := containerID.FindAllStringSubmatch(strings.TrimSpace(line), -1); m != nil {
			return m[len(m)-1][1]
		}
	}
	return ""
}

// unitOf reads a service's name out of /proc/PID/cgroup; a user's manager is
// none of the user's services.
func unitOf(cgroup string) string {
	for line := range strings.Lines(cgroup) {
		parts := strings.Split(strings.TrimSpace(line), "/")
		for _, part := range slices.Backward(parts) {
			if strings.HasSuffix(part, ".service") && !strings.HasPrefix(part, "user@") {
				return part
			}
		}
	}
	return ""
}
