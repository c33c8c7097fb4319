package remote

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kinds of failure, for errors.Is. Only ErrUnreachable, ErrThrottled and
// ErrLost can go away by trying again.
var (
	ErrUnreachable     = errors.New("host not reachable")
	ErrThrottled       = errors.New("server hung up before its banner")
	ErrAuth            = errors.New("authentication refused")
	ErrHostKeyUnknown  = errors.New("host key not known")
	ErrHostKeyChanged  = errors.New("host key changed")
	ErrHostKeyType     = errors.New("host key known in another type only")
	ErrTooManySessions = errors.New("server allows no further session")
	ErrNoise           = errors.New("output without its frame")
	ErrTimeout         = errors.New("timed out")
	ErrLost            = errors.New("connection lost")
	ErrNoSFTP          = errors.New("server offers no sftp")
	ErrMismatch        = errors.New("content differs from what was sent")
	ErrOutputTooLong   = errors.New("more output than allowed")
	ErrDiskFull        = errors.New("disk full")
	ErrReadOnly        = errors.New("file system is read-only")
	ErrClosed          = errors.New("host closed")
	ErrBadScript       = errors.New("script cannot be sent")
)

// Error is a failure of one operation on one host. Kind is one of the
// sentinels above; errors.Is sees both Kind and the cause.
type Error struct {
	Host string
	Op   string // "dial 10.0.0.7:22", "script facts", "put /x"
	Kind error
	Err  error  // cause, nil when Kind says it all
	Next string // what the user can do, may be empty
}

func (e *Error) Error() string {
	msg := fmt.Sprintf("%s: %s: %v", e.Host, e.Op, e.Kind)
	if e.Err != nil {
		msg += ": " + e.Err.Error()
	}
	return msg
}

// Hint says what the user can do about it; it may be empty.
func (e *Error) Hint() string { return e.Next }

func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// ExitError says that a script ran to its end with a status other than 0.
type ExitError struct {
	Host   string
	Script string
	Code   int
	Stderr []byte // whole, up to the cap of Run
}

func (e *ExitError) Error() string {
	msg := fmt.Sprintf("%s: script %s: exit %d", e.Host, e.Script, e.Code)
	if line := lastLine(e.Stderr); line != "" {
		msg += ": " + line
	}
	return msg
}

// TimeoutError says that a step took longer than its limit. For a script,
// Ended tells whether its processes were seen gone afterwards.
type TimeoutError struct {
	Host  string
	Op    string
	After time.Duration
	Ended bool
	Next  string
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("%s: %s: %v after %v", e.Host, e.Op, ErrTimeout, e.After)
}

// Hint says what the user can do about it; it may be empty.
func (e *TimeoutError) Hint() string { return e.Next }

// Is makes the error an ErrTimeout.
func (e *TimeoutError) Is(target error) bool { return target == ErrTimeout }

// SurvivorError says that processes of a cancelled script are still there, or
// that the host could no longer be asked (PIDs is empty then).
type SurvivorError struct {
	Host   string
	Script string
	PIDs   []string
	Cause  error // why the script was ended: the context's cause
	Err    error // why it could not be checked
}

func (e *SurvivorError) Error() string {
	if len(e.PIDs) > 0 {
		return fmt.Sprintf("%s: script %s was ended (%v), but these processes are still there: %s",
			e.Host, e.Script, e.Cause, strings.Join(e.PIDs, " "))
	}
	return fmt.Sprintf("%s: script %s was ended (%v), but whether its processes are gone could not be checked: %v",
		e.Host, e.Script, e.Cause, e.Err)
}

// Hint says what the user can do about it.
func (e *SurvivorError) Hint() string {
	if len(e.PIDs) > 0 {
		return "look at them with: ps -fp " + strings.Join(e.PIDs, ",")
	}
	return "run the command again when the host can be reached"
}

func (e *SurvivorError) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Cause}
	}
	return []error{e.Cause, e.Err}
}

// lastLine returns the last line that is not blank, for one-line messages.
func lastLine(text []byte) string {
	lines := strings.Split(strings.TrimRight(string(text), "\r\n \t"), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
