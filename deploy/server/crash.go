package server

import (
	"fmt"
	"strings"
)

// Crash is a sign in the log that the server cannot become ready.
type Crash struct {
	Kind     string // as in the crash table: cuda_oom, port_in_use, ...
	Evidence string // the line
	Advice   string // what usually helps; may be empty
	Port     int    // that a crash of kind port_in_use is about; 0 unknown
	// File and Line are the engine's own code that it came from; "" unknown. File
	// is a name without its folder.
	File string
	Line int
	// OOM is the phase in which GPU memory ran out: loading, kv_pool, capture,
	// running, or unknown; "" when it did not.
	OOM string
	// Final is false for a sign that only says that something went wrong, as
	// long as a later line may say what.
	Final bool
}

// With is the crash with what the host knows of the end: where the log only says
// that a process is gone, that is the cause; c may be nil.
func (c *Crash) With(host *Cause) *Crash {
	if host == nil {
		return c
	}
	killed := c != nil && (c.Kind == KindSigkill || isNotice(c.Evidence))
	if host.Unsure && !killed { // no sign that a process of its own was hit
		return c
	}
	if c == nil {
		return &Crash{Kind: host.Kind, Evidence: host.Evidence, Advice: host.Advice}
	}
	vague := c.Kind == KindSigkill || c.Kind == "scheduler_exception" || c.Kind == "engine_start_failed"
	switch {
	case vague && (host.Kind == KindHostOOM || host.Kind == KindDiskFull):
		return &Crash{Kind: host.Kind, Evidence: host.Evidence + "; its log: " + c.Evidence, Advice: host.Advice, Final: true, Port: c.Port}
	case isNotice(c.Evidence):
		return &Crash{Kind: host.Kind, Evidence: host.Evidence, Advice: host.Advice, Final: true}
	}
	return c
}

// isNotice is true for a shell's word that a process has ended by a signal.
func isNotice(line string) bool {
	line, _, _ = strings.Cut(strings.TrimSpace(line), " (core dumped)")
	switch line {
	case "Killed", "Terminated", "Aborted", "Segmentation fault", "Bus error", "Illegal instruction", "Hangup", "Trace/breakpoint trap", "Floating point exception":
		return true
	}
	return false
}

// oomPhases are the phases of OOM in words.
var oomPhases = map[string]string{"loading": " while loading weights", "kv_pool": " while reserving the KV cache",
	"capture": " while capturing CUDA graphs", "running": " while running requests"}

// what is the kind and, when memory ran out, what it was doing.
func (c Crash) what() string { return c.Kind + oomPhases[c.OOM] }

// CrashError says that the server's log shows a crash.
type CrashError struct {
	Host    string
	Crash   Crash
	LogPath string
	Tail    string // last lines of the log
}

func (e *CrashError) Error() string {
	return fmt.Sprintf("%s: server crashed while starting (%s): %s", e.Host, e.Crash.what(), e.Crash.Evidence)
}

// Hint says what the user can do.
func (e *CrashError) Hint() string {
	if e.Crash.Advice != "" {
		return e.Crash.Advice
	}
	return "see " + e.LogPath + " on " + e.Host
}
