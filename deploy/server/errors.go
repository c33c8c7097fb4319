package server

import (
	"fmt"
	"strings"
	"time"
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
	return "the state folder (state_dir) must be writable and on a file system with hard links"
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

// Survivor is a process that a stop could not end.
type Survivor struct {
	PID     int
	State   string // as in /proc/PID/stat; D cannot be killed
	Waits   string // kernel function it waits in; "-" when unknown
	Command string
}

// SurvivorError says what a stop left behind.
type SurvivorError struct {
	Host      string
	Launch    string
	PID       int // of a process that is of no launch; 0 else
	Processes []Survivor
	Port      *Holder     // still bound by a socket of our user whose process is gone
	GPU       []GPUHolder // memory still held for our ended processes
	Unit      string      // drop-in that could not be removed; "" for none
	// Unmarked tells that the host's mark could not be written, so that nothing but
	// this keeps the next start away.
	Unmarked bool
}

func (e *SurvivorError) Error() string {
	what := "launch " + e.Launch
	if e.PID != 0 {
		what = fmt.Sprintf("process %d", e.PID)
	}
	msg := fmt.Sprintf("%s: %s was stopped, but this is left: %s", e.Host, what, e.left())
	if e.Unmarked {
		msg += "; and the host could not be marked, its state folder cannot be written: the next start will not see it"
	}
	return msg
}

// left is what is left, in words.
func (e *SurvivorError) left() string {
	var parts []string
	for _, p := range e.Processes {
		parts = append(parts, fmt.Sprintf("pid %d (state %s, waits in %s): %s", p.PID, p.State, p.Waits, p.Command))
	}
	if e.Port != nil {
		parts = append(parts, fmt.Sprintf("port %d is still bound", e.Port.Port))
	}
	for _, g := range e.GPU {
		parts = append(parts, fmt.Sprintf("%s MiB of %s for pid %d", g.MiB, g.GPU, g.PID))
	}
	return strings.Join(parts, "; ")
}

// Hint says what the user can do.
func (e *SurvivorError) Hint() string {
	for _, p := range e.Processes {
		if strings.HasPrefix(p.State, "D") {
			return "state D is a wait inside a driver that no signal ends: start no second server there; the host may need a restart"
		}
	}
	return "run the stop again; it repeats safely"
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
