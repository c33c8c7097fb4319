package server

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"specrun/remote"
)

// Kinds of causes that the host tells of, beside those of the log. The words are
// those of the crash table where it has one.
const (
	KindHostOOM  = "host_oom"
	KindSigkill  = "killed_sigkill"
	KindDiskFull = "disk_full"
	KindSignal   = "killed_signal"
	KindPort     = "port_in_use"
)

// Death is what the host knows about the end of a launch's processes.
type Death struct {
	Stopped  bool // Stop was called for the launch
	Rebooted bool // the host was, since its start
	// OutOfMemory says that the kernel ended processes of the launch's control
	// group for want of memory, or of the machine where the group does not tell,
	// since the launch began: how many, "" for none.
	OutOfMemory string
	// OfGroup says that these were the launch's own; else they may be anybody's.
	OfGroup bool
	Kernel  []string // its last words about that, where this user may read them
	Full    []string // folders in which nothing can be written any more
}

// Autopsy reads what the host knows about the end of a launch's processes. It
// changes nothing, and works at any time after the launch's start.
func Autopsy(ctx context.Context, h Host, stateDir, launch string) (Death, error) {
	if err := checkID(launch); err != nil {
		return Death{}, err
	}
	res, err := h.Run(ctx, script("death", deathText,
		remote.Var{Name: "STATE", Value: stateDir},
		remote.Var{Name: "ID", Value: launch},
	))
	if err != nil {
		return Death{}, fmt.Errorf("look for why launch %s ended: %w", launch, err)
	}
	return parseDeath(remote.Lines(res.Stdout)), nil
}

func parseDeath(answer []remote.Line) Death {
	var d Death
	kills := map[string]string{}
	told := map[string]bool{}
	for _, f := range answer {
		switch f.Key {
		case "stopped":
			d.Stopped = true
		case "reboot":
			d.Rebooted = true
		case "oom":
			who, counts, _ := strings.Cut(f.Value, " ")
			before, now, _ := strings.Cut(counts, " ")
			was, err := strconv.ParseInt(before, 10, 64)
			is, err2 := strconv.ParseInt(now, 10, 64)
			if err != nil || err2 != nil {
				continue // this kernel does not count
			}
			told[who] = true
			if n := is - was; n > 0 {
				kills[who] = strconv.FormatInt(n, 10)
			}
		case "kernel":
			d.Kernel = append(d.Kernel, strings.TrimSpace(f.Value))
		case "full":
			d.Full = append(d.Full, f.Value)
		}
	}
	switch {
	case kills["group"] != "":
		d.OutOfMemory, d.OfGroup = kills["group"]+" in the control group of the launch", true
	case kills["host"] != "" && !told["group"]:
		d.OutOfMemory = kills["host"] + " on the machine"
	}
	if d.OutOfMemory == "" {
		d.Kernel = nil // of somebody else
	}
	return d
}

// Cause is why a process ended, as the host tells it.
type Cause struct {
	Kind     string // as in the crash table
	Evidence string
	Advice   string
	// Unsure tells that what happened on the host may have hit somebody else's
	// processes alone.
	Unsure bool
}

// Cause judges how a process with this end came to it; nil when the host does
// not tell more than the end itself. signal is the one that ended it, 0 for none.
func (d Death) Cause(signal int) *Cause {
	// A process that ended by itself was not the one killed, and nothing says that
	// a child of it was.
	unsure := signal == 0 && !d.OfGroup
	switch {
	case d.OutOfMemory != "" && (signal == 0 || signal == sigKill) && !(unsure && len(d.Full) > 0):
		text := "the kernel ended processes for want of memory: " + d.OutOfMemory + " since the start"
		if n := len(d.Kernel); n > 0 {
			text += " (" + d.Kernel[n-1] + ")"
		}
		if unsure {
			text = "maybe one of its processes: " + text
		}
		return &Cause{KindHostOOM, text, "the host ran out of memory (not the GPU): load fewer ranks at once, lower what is kept in host memory, or give it more; see dmesg", unsure}
	case len(d.Full) > 0 && (signal == 0 || signal == sigBus):
		return &Cause{KindDiskFull, "nothing can be written any more: " + strings.Join(d.Full, "; "), "make space there, or move the caches (HOME, TMPDIR, XDG_CACHE_HOME in server.env) and specrun's state_dir", false}
	case signal == sigKill:
		text := "SIGKILL, which is not of this specrun's stop"
		if d.Stopped {
			text = "SIGKILL, by a stop of this launch"
		}
		return &Cause{KindSigkill, text, "the kernel counted no kill for want of memory: somebody, a scheduler such as Slurm, or a container's limit ended it", false}
	case signal != 0:
		return &Cause{KindSignal, SignalName(signal), signalAdvice(signal), false}
	}
	return nil
}

// Signals as linux numbers them, whatever the controller runs on.
const (
	sigAbort = 6
	sigBus   = 7
	sigKill  = 9
	sigSegv  = 11
)

// signalHelp is a signal and what usually lies behind it.
type signalHelp struct {
	number       int
	name, advice string
}

func signalTable() []signalHelp {
	return []signalHelp{
		{1, "SIGHUP", "its terminal went away: it was not detached"},
		{2, "SIGINT", "somebody pressed Ctrl-C"},
		{3, "SIGQUIT", "the engine ends itself so when one of its processes failed: the first error of the log is the cause"},
		{4, "SIGILL", "the program needs a processor that this host has not"},
		{5, "SIGTRAP", ""},
		{sigAbort, "SIGABRT", "native code gave up: the lines before the end of the log say why"},
		{sigBus, "SIGBUS", "memory that could not be had: shared memory (/dev/shm) is too small, or a mapped file was cut"},
		{8, "SIGFPE", ""},
		{sigKill, "SIGKILL", ""},
		{10, "SIGUSR1", ""},
		{sigSegv, "SIGSEGV", "a fault in native code: check the driver and the packages of kernels, and run it with PYTHONFAULTHANDLER=1 in server.env to see where"},
		{12, "SIGUSR2", ""},
		{13, "SIGPIPE", "it wrote to something that had ended"},
		{14, "SIGALRM", ""},
		{15, "SIGTERM", "somebody asked it to end: another user, a scheduler, or a shutdown of the host"},
		{24, "SIGXCPU", "a limit on CPU time (ulimit -t) was reached"},
	}
}

// SignalName is "SIGSEGV (11)".
func SignalName(n int) string {
	for _, s := range signalTable() {
		if s.number == n {
			return fmt.Sprintf("%s (%d)", s.name, n)
		}
	}
	return fmt.Sprintf("signal %d", n)
}

func signalAdvice(n int) string {
	for _, s := range signalTable() {
		if s.number == n {
			return s.advice
		}
	}
	return ""
}
