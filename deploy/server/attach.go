package server

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"

	"specrun/remote"
)

//go:embed scripts/attached.sh
var attachedText string

//go:embed scripts/attach.sh
var attachText string

// AttachTo names a server that somebody else runs, for a launch that measures it
// as it is.
type AttachTo struct {
	StateDir string
	Launch   string
	PID      int    // of the server process; 0 is found by Port
	Port     int    // on which it listens
	Log      string // path on the host; "" is found through the process
}

// Attachment is such a server as it was found.
type Attachment struct {
	State   State
	Holder  Holder // who listens; its PID is 0 when that cannot be seen
	Process *Process
	// Unread says of each thing that could not be read what it is and why.
	Unread []string
}

// AttachError says why there is nothing to attach to.
type AttachError struct {
	Host   string
	To     AttachTo
	Holder *Holder // who listens instead; nil: nobody does
}

func (e *AttachError) Error() string {
	if e.Holder != nil {
		return fmt.Sprintf("%s: port %d is held by %s, not by process %d", e.Host, e.To.Port, e.Holder, e.To.PID)
	}
	return fmt.Sprintf("%s: nobody listens on port %d", e.Host, e.To.Port)
}

// Hint says what the user can do.
func (e *AttachError) Hint() string {
	if e.Holder != nil {
		return "leave server.attach.pid out: the process is found by its port"
	}
	return "server.attach.url is as seen from the host, and the server runs on it"
}

// Attach binds launch t.Launch to a server that somebody else runs: from now on
// Look says how that one stands, by its process and by the socket with which it
// listens, so that one that was started anew in between is not taken for it.
// Nothing of the server is touched, now or by Stop, which only ends the binding.
// Called again it looks at the same server. It blocks for two or three round
// trips. Errors: *AttachError, *GoneError.
func Attach(ctx context.Context, h Host, t AttachTo) (Attachment, error) {
	if err := checkID(t.Launch); err != nil {
		return Attachment{}, err
	}
	var out Attachment
	pid := t.PID
	if pid == 0 {
		holder, err := PortHolder(ctx, h, t.Port)
		if err != nil {
			return out, err
		}
		if holder == nil {
			return out, &AttachError{Host: h.Name(), To: t}
		}
		pid = holder.PID
	}
	var ticks uint64
	log := t.Log
	if pid != 0 {
		p, err := Describe(ctx, h, pid)
		if err != nil {
			return out, err
		}
		out.Process, ticks = &p, p.Identity.StartTicks
		if log == "" && !p.LogGone {
			log = p.Log
		}
		out.unread(p, t)
	} else {
		out.Unread = append(out.Unread, "the process: it is another user's; server.attach.pid names it")
	}
	res, err := h.Run(ctx, script("attach", attachedText+attachText,
		remote.Var{Name: "STATE", Value: t.StateDir},
		remote.Var{Name: "ID", Value: t.Launch},
		remote.Var{Name: "PID", Value: strconv.Itoa(pid)},
		remote.Var{Name: "TICKS", Value: strconv.FormatUint(ticks, 10)},
		remote.Var{Name: "PORT", Value: strconv.Itoa(t.Port)},
		remote.Var{Name: "LOG", Value: log},
	))
	if err != nil {
		return out, fmt.Errorf("attach launch %s: %w", t.Launch, err)
	}
	return out, out.read(h.Name(), t, pid, res.Stdout)
}

// unread notes what this user may not know of a process.
func (a *Attachment) unread(p Process, t AttachTo) {
	add := func(text string) { a.Unread = append(a.Unread, text) }
	if p.EnvironHidden {
		add("its environment: the process is user " + p.User + "'s")
	}
	if t.Log != "" || p.Log != "" && !p.LogGone {
		return
	}
	switch {
	case p.LogGone:
		add("its log: " + p.Log + " was deleted or replaced")
	case p.EnvironHidden:
		add("its log: the process is user " + p.User + "'s; server.attach.log names one that can be read")
	default:
		add("its log: it prints to no file; server.attach.log names one")
	}
}

func (a *Attachment) read(host string, t AttachTo, pid int, out []byte) error {
	lines := remote.Lines(out)
	state := ""
	var holder *Holder
	for _, l := range lines {
		switch l.Key {
		case "state":
			state = l.Value
		case "listener":
			if holder != nil {
				continue
			}
			found, err := parseHolder(t.Port, l.Value)
			if err != nil {
				return fmt.Errorf("%s: attach launch %s: %w", host, t.Launch, err)
			}
			holder = &found
		case "unreadable":
			a.Unread = append(a.Unread, "its log: "+l.Value+" is no file that can be read")
		}
	}
	t.PID = pid
	switch state {
	case "attached":
	case "gone":
		return &GoneError{Host: host, PID: pid}
	case "silent":
		return &AttachError{Host: host, To: t}
	case "other":
		return &AttachError{Host: host, To: t, Holder: holder}
	case "launched":
		return fmt.Errorf("%s: launch %s has a server of its own", host, t.Launch)
	default:
		return fmt.Errorf("%s: attach launch %s: unexpected answer %q", host, t.Launch, out)
	}
	var err error
	if a.State, err = parseState(host, t.StateDir, t.Launch, 0, lines); err != nil {
		return err
	}
	if holder == nil || a.State.Phase != Running {
		return fmt.Errorf("%s: attach launch %s: %w", host, t.Launch, ErrGone)
	}
	a.Holder = *holder
	return nil
}
