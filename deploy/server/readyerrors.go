package server

import (
	"fmt"
	"strings"
	"time"
)

// ExitedError says that the server process ended before it was ready.
type ExitedError struct {
	Host    string
	Code    int    // -1 when unknown or ended by a signal
	Signal  int    // 0 when not ended by one
	Cause   *Cause // what the host knows beside that; nil for nothing
	LogPath string
	Tail    string
	// Start says that it is the user's own start command that ended so: how a
	// server that it left behind ends nobody sees.
	Start bool
}

func (e *ExitedError) Error() string {
	var msg string
	switch {
	case e.Start && e.Signal != 0:
		msg = fmt.Sprintf("%s: the start command (server.commands.start) was ended by %s before the server was ready", e.Host, SignalName(e.Signal))
	case e.Start && e.Code == 0:
		msg = fmt.Sprintf("%s: the start command (server.commands.start) ended with status 0, and no server of it runs", e.Host)
	case e.Start && e.Code > 0:
		msg = fmt.Sprintf("%s: the start command (server.commands.start) ended with status %d before the server was ready", e.Host, e.Code)
	case e.Signal != 0:
		msg = fmt.Sprintf("%s: server was ended by %s before it was ready", e.Host, SignalName(e.Signal))
	case e.Code < 0:
		msg = fmt.Sprintf("%s: server ended before it was ready, its exit status is not known", e.Host)
	default:
		msg = fmt.Sprintf("%s: server exited with status %d before it was ready", e.Host, e.Code)
	}
	if c := e.Cause; c != nil && c.Kind != KindSignal {
		msg += ": " + c.Evidence
	}
	return msg + lastOf(e.Tail)
}

// Kind is the cause's, "" when only the end is known for sure.
func (e *ExitedError) Kind() string {
	if e.Cause != nil && !e.Cause.Unsure {
		return e.Cause.Kind
	}
	return ""
}

// Hint says what the user can do.
func (e *ExitedError) Hint() string {
	if e.Cause != nil && e.Cause.Advice != "" && !e.Cause.Unsure {
		return e.Cause.Advice + "; its log is " + e.LogPath + " on " + e.Host
	}
	return "see " + e.LogPath + " on " + e.Host
}

// NotReadyError says that the time for the start was over.
type NotReadyError struct {
	Host      string
	After     time.Duration
	Milestone string // last one seen; "" for none
	Probe     error  // what the last generation failed with; nil when none was tried
	LogPath   string
	Tail      string
}

func (e *NotReadyError) Error() string {
	msg := fmt.Sprintf("%s: server not ready after %v", e.Host, e.After)
	if e.Milestone != "" {
		msg += " (last seen: " + e.Milestone + ")"
	}
	if e.Probe != nil {
		msg += ": " + e.Probe.Error()
	}
	return msg
}

// Hint says what the user can do.
func (e *NotReadyError) Hint() string {
	return "raise server.ready.timeout, or see " + e.LogPath + " on " + e.Host
}

func (e *NotReadyError) Unwrap() error { return e.Probe }

// StalledError says that nothing was seen of a starting server for too long: no
// byte of log, no CPU time, nothing read or written, no change of GPU memory.
type StalledError struct {
	Host      string
	Silent    time.Duration
	Milestone string
	Ended     []EndedChild // processes of it that ended meanwhile
	Probe     error        // what the last generation failed with; nil when none was tried
	LogPath   string
	Tail      string
}

func (e *StalledError) Error() string {
	msg := fmt.Sprintf("%s: server is starting but nothing was seen of it for %v: no log, no CPU time, no reading, no change of GPU memory", e.Host, e.Silent)
	if e.Milestone != "" {
		msg += " (last seen: " + e.Milestone + ")"
	}
	for _, p := range e.Ended {
		msg += fmt.Sprintf("; its process %d (%s) has ended", p.PID, p.Name)
	}
	if e.Probe != nil {
		msg += "; the last probe: " + e.Probe.Error()
	}
	return msg
}

// Hint says what the user can do.
func (e *StalledError) Hint() string {
	return "raise server.ready.stall, or see " + e.LogPath + " on " + e.Host
}

// lastLines of a log are quoted in an error.
const lastLines = 3

// lastOf returns ": " and the last lines that are not blank, or "".
func lastOf(tail string) string {
	var last []string
	lines := strings.Split(tail, "\n")
	for i := len(lines) - 1; i >= 0 && len(last) < lastLines; i-- {
		line := strings.TrimSpace(lines[i][strings.LastIndexByte(strings.TrimRight(lines[i], "\r"), '\r')+1:])
		if line == "" {
			continue
		}
		if r := []rune(line); len(r) > 300 {
			line = string(r[:300]) + "..."
		}
		last = append([]string{line}, last...)
	}
	if len(last) == 0 {
		return ""
	}
	return ": " + strings.Join(last, "\n  ")
}
