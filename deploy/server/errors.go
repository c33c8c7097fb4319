package server

import (
	"fmt"
	"strings"
)

// Holder is who listens on a port.
type Holder struct {
	Port    int
	Address string // IP it is bound to
	Socket  string // its inode: another socket on the same port has another one
	PID     int    // 0 when the owner cannot be seen: another user's process
	UID     int
	User    string
	Command string // one line, shortened; "?" when it cannot be seen
}

func (h Holder) String() string {
	if h.PID == 0 {
		return "a process of user " + h.User + " that this user cannot see"
	}
	return fmt.Sprintf("pid %d of user %s: %s", h.PID, h.User, h.Command)
}

// PortError says that somebody else listens on the port of a launch.
type PortError struct {
	Host   string
	Holder Holder
	Of     int // the port it is derived from; 0: it is the server's own
}

func (e *PortError) Error() string {
	if e.Of != 0 {
		return fmt.Sprintf("%s: port %d, which a server on port %d needs too, is held by %s", e.Host, e.Holder.Port, e.Of, e.Holder)
	}
	return fmt.Sprintf("%s: port %d is held by %s", e.Host, e.Holder.Port, e.Holder)
}

// Hint says what the user can do.
func (e *PortError) Hint() string {
	hint := "it was left alone; use another port (server.port: auto finds one)"
	if e.Holder.PID == 0 {
		return hint + ", or ask for its end"
	}
	return fmt.Sprintf("%s, or end it: specrun server stop --pid %d --host %s", hint, e.Holder.PID, e.Host)
}

// GPUHolder is a process that holds memory on a GPU.
type GPUHolder struct {
	GPU     string // UUID
	PID     int    // 0: memory that no process holds which can be seen, in another container for example
	MiB     string // as nvidia-smi prints it; it may be "[N/A]"
	User    string
	Command string
}

// GPUBusyError says that others use the GPUs of a launch.
type GPUBusyError struct {
	Host    string
	Holders []GPUHolder
}

func (e *GPUBusyError) Error() string {
	var parts []string
	for _, h := range e.Holders {
		if h.PID == 0 {
			parts = append(parts, fmt.Sprintf("%s MiB of %s by no process that can be seen from here", h.MiB, h.GPU))
			continue
		}
		parts = append(parts, fmt.Sprintf("%s by pid %d of user %s (%s MiB, %s)", h.GPU, h.PID, h.User, h.MiB, h.Command))
	}
	return fmt.Sprintf("%s: GPU memory is held: %s", e.Host, strings.Join(parts, "; "))
}

// Hint says what the user can do.
func (e *GPUBusyError) Hint() string {
	hint := "what holds it was left alone; choose other GPUs (server.gpus), or end them"
	if len(e.Holders) > 0 && e.Holders[0].PID > 0 {
		hint += fmt.Sprintf(": specrun server stop --pid %d --host %s", e.Holders[0].PID, e.Host)
	}
	return hint
}

// RefusedError says why the host could not start the server at all.
type RefusedError struct {
	Host   string
	Launch string
	Reason string // state_dir, setsid, cwd, program, env_file, launcher
	Detail string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s: start %s: %s", e.Host, e.Launch, e.Detail)
}

// Hint says what the user can do.
func (e *RefusedError) Hint() string {
	switch e.Reason {
	case "setsid":
		return "install util-linux or busybox, or put setsid into PATH"
	case "cwd":
		return "server.cwd is a folder on the host"
	case "program":
		return "server.python (or server.prefix) is a path on the host; ~/ is the home folder there"
	case "login_env":
		return "leave out server.login_env, or check that \"$SHELL -l -c env\" works on the host"
	case "gpus":
		return "server.gpus are indexes as nvidia-smi counts them"
	case "unit":
		return "server.unit names a service unit of the host that may be changed and started: systemctl status shows it"
	case "running":
		return "end it first by its own stop command; specrun ends no server that it did not start"
	case "env_file":
		return "server.env_file is a file on the host with one KEY=VALUE on each line"
	}
	return "the state folder (state_dir) must be writable and on a file system with hard links and free space"
}

// StoppedError says that a launch id was stopped and so never starts again.
type StoppedError struct{ Host, Launch string }

func (e *StoppedError) Error() string {
	return fmt.Sprintf("%s: launch %s was stopped before", e.Host, e.Launch)
}

// Hint says what the caller can do.
func (e *StoppedError) Hint() string { return "use a new launch id" }

// ElsewhereError says that a launch was started on another machine or in
// another PID namespace that shares the state folder; its processes cannot be
// judged from here.
type ElsewhereError struct {
	Host, Launch string
	Identity     Identity
	HereID       string
}

func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("%s: launch %s runs as pid %d on %s, this is %s", e.Host, e.Launch, e.Identity.PID, e.Identity.HostID, e.HereID)
}

// Hint says what the user can do.
func (e *ElsewhereError) Hint() string {
	return "run the command on that machine or in that container, or give each one its own state_dir"
}
