package server

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"specrun/remote"
)

//go:embed scripts/foreignstop.sh
var foreignStopText string

// ProcessStop says how a server that specrun did not start is stopped.
type ProcessStop struct {
	StopOptions
	StateDir string
	// Save keeps what it takes to start it again under this id, before the first
	// signal; "" keeps nothing.
	Save  string
	About string // one line kept with it, for people
}

// ProcessProof is what the stop of a process saw.
type ProcessProof struct {
	Identity   Identity `json:"identity"`
	Killed     []int    `json:"killed,omitempty"` // pids that needed SIGKILL
	Port       int      `json:"port"`             // 0 when it listened on none
	Other      *Holder  `json:"other,omitempty"`  // who listens on it now; nil when it is free
	GPUChecked bool     `json:"gpu_checked"`
	// Again is the process of the same command line that Parent has started
	// meanwhile; 0 when there is none yet.
	Again   int    `json:"again,omitempty"`
	Parent  int    `json:"parent,omitempty"`
	Saved   string `json:"saved,omitempty"`   // id under which it is kept
	Service string `json:"service,omitempty"` // that ran it, as Saved.Unit
}

// StopProcess ends a server that specrun did not start, named by what Describe
// said of it, and proves it as Stop does: SIGTERM to the process, after the grace
// SIGKILL to it, its descendants, and its session when it leads one, each judged
// by its identity right before each signal; then none of them lives and no GPU
// memory is held for one. What left the session and was orphaned before shows as
// Other, the holder of the port.
//
// It blocks until then; the script goes on by itself when the connection is lost.
// Errors: *GoneError, *DeniedError, *ProtectedError and *UnsavedError with nothing done;
// *SurvivorError, and the host is marked until what was left has ended.
func StopProcess(ctx context.Context, h Host, p Process, o ProcessStop) (ProcessProof, error) {
	if o.Save != "" {
		if err := checkID(o.Save); err != nil {
			return ProcessProof{}, err
		}
	}
	limits := o.withDefaults()
	s := script("stop-process", savedText+stopText+foreignStopText,
		append(processVars(p, o.About),
			remote.Var{Name: "STATE", Value: o.StateDir},
			remote.Var{Name: "ID", Value: o.Save},
			remote.Var{Name: "SAVE", Value: flag(o.Save != "")},
			remote.Var{Name: "GRACE", Value: centis(limits.Grace)},
			remote.Var{Name: "KILL_WAIT", Value: centis(limits.KillWait)},
			remote.Var{Name: "GPU_WAIT", Value: centis(limits.GPUWait)})...)
	s.Timeout = limits.Grace + limits.KillWait + limits.GPUWait + time.Minute
	res, err := h.Run(ctx, s)
	if err != nil {
		return ProcessProof{}, fmt.Errorf("stop process %d: %w", p.Identity.PID, err)
	}
	return parseProcessProof(h.Name(), p, res.Stdout)
}

// processVars name a process, the service that it is in, and what is kept of it.
func processVars(p Process, about string) []remote.Var {
	return []remote.Var{
		{Name: "PID", Value: strconv.Itoa(p.Identity.PID)},
		{Name: "TICKS", Value: strconv.FormatUint(p.Identity.StartTicks, 10)},
		{Name: "BOOT", Value: p.Identity.BootID},
		{Name: "PORT", Value: strconv.Itoa(p.Port())},
		{Name: "LOG", Value: p.Log},
		{Name: "ABOUT", Value: about},
		{Name: "UNIT", Value: p.Unit},
	}
}

// Port is the first one on which a process listens, 0 when there is none.
func (p Process) Port() int {
	if len(p.Listens) == 0 {
		return 0
	}
	return p.Listens[0]
}

func parseProcessProof(host string, process Process, out []byte) (ProcessProof, error) {
	pid := process.Identity.PID
	p := ProcessProof{Identity: process.Identity}
	seen := stopAnswer{left: SurvivorError{Host: host, PID: pid}}
	var me, detail string
	for _, f := range remote.Lines(out) {
		var err error
		switch f.Key {
		case "me":
			me = f.Value
		case "detail":
			detail = f.Value
		case "saved":
			p.Saved = f.Value
		case "again":
			_, err = fmt.Sscan(f.Value, &p.Again, &p.Parent)
		case "service":
			p.Service = f.Value
		default:
			err = seen.take(f)
		}
		if err != nil {
			return p, fmt.Errorf("%s: stop process %d: %w", host, pid, err)
		}
	}
	p.Killed, p.Port, p.Other, p.GPUChecked = seen.killed, seen.port, seen.other, seen.gpuChecked
	switch seen.state {
	case "gone":
		return p, &GoneError{Host: host, PID: pid}
	case "denied":
		return p, &DeniedError{Host: host, PID: pid, Owner: process.User, Me: me}
	case "first", "above":
		return p, &ProtectedError{Host: host, PID: pid, First: seen.state == "first"}
	case "unsaved":
		return p, &UnsavedError{Host: host, PID: pid, Detail: detail}
	case "done":
		return p, seen.survivors()
	}
	return p, fmt.Errorf("%s: stop process %d: unexpected answer %q", host, pid, out)
}

// DeniedError says that a process is not ours to signal.
type DeniedError struct {
	Host      string
	PID       int
	Owner, Me string
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("%s: process %d is user %s's, and user %s may not end it; nothing was done", e.Host, e.PID, e.Owner, e.Me)
}

// Hint says what the user can do.
func (e *DeniedError) Hint() string {
	return "ask " + e.Owner + ", or connect as that user or as root: a host entry with user: " + e.Owner
}

// ProtectedError says that a stop of the process would end more than a server.
type ProtectedError struct {
	Host  string
	PID   int
	First bool // of its machine or container; else the stop itself would be ended too
}

func (e *ProtectedError) Error() string {
	if e.First {
		return fmt.Sprintf("%s: process %d is the first one, with which all others end; nothing was done", e.Host, e.PID)
	}
	return fmt.Sprintf("%s: this specrun runs below process %d or in its session, and would end with it; nothing was done", e.Host, e.PID)
}

// Hint says what the user can do.
func (e *ProtectedError) Hint() string {
	if e.First {
		return "in a container: stop the container, from its host"
	}
	return fmt.Sprintf("name the server itself: specrun server status --host %s lists what serves there", e.Host)
}

// UnsavedError says that what it takes to start a server again could not be kept.
type UnsavedError struct {
	Host   string
	PID    int
	Detail string
}

func (e *UnsavedError) Error() string {
	return fmt.Sprintf("%s: how process %d was started cannot be kept: %s; it was not stopped", e.Host, e.PID, e.Detail)
}

// Hint says what the user can do.
func (e *UnsavedError) Hint() string {
	return "--no-save stops it all the same; start it again by hand then"
}
