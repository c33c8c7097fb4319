package server

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"specrun/remote"
)

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
	if e.Unit != "" {
		parts = append(parts, "the drop-in "+e.Unit+" of its unit")
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

// stopAnswer is what stop.sh prints, for a launch and for a process that is of none.
type stopAnswer struct {
	state, here string
	killed      []int
	port        int
	other       *Holder
	gpuChecked  bool
	left        SurvivorError
}

// take reads one line; lines that it does not know are somebody else's.
func (a *stopAnswer) take(f remote.Line) (err error) {
	switch f.Key {
	case "state":
		a.state = f.Value
	case "here":
		a.here = f.Value
	case "kill":
		var pid int
		if pid, err = strconv.Atoi(f.Value); err == nil && !slices.Contains(a.killed, pid) {
			a.killed = append(a.killed, pid)
		}
	case "left":
		var s Survivor
		s, err = parseSurvivor(f.Value)
		a.left.Processes = append(a.left.Processes, s)
	case "unmarked":
		a.left.Unmarked = true
	case "unit":
		a.left.Unit = f.Value
	case "port":
		a.port, err = strconv.Atoi(f.Value)
	case "listener":
		var holder Holder
		holder, err = parseHolder(a.port, f.Value)
		if a.other == nil {
			a.other = &holder
		}
	case "unowned":
		// Bound by our user, and no process to be seen: a remnant of ours.
		a.left.Port = &Holder{Port: a.port}
	case "gpu_checked":
		a.gpuChecked = true
	case "gpu":
		var g GPUHolder
		g, err = parseGPU(f.Value, false)
		a.left.GPU = append(a.left.GPU, g)
	}
	return err
}

// survivors is what is left as an error, nil for nothing.
func (a *stopAnswer) survivors() error {
	if l := &a.left; len(l.Processes) > 0 || l.Unit != "" || l.Port != nil || len(l.GPU) > 0 {
		return l
	}
	return nil
}

// parseSurvivor reads "pid state wchan command".
func parseSurvivor(s string) (Survivor, error) {
	f := strings.SplitN(s, " ", 4)
	if len(f) != 4 {
		return Survivor{}, fmt.Errorf("process %q: want four fields", s)
	}
	pid, err := strconv.Atoi(f[0])
	if err != nil {
		return Survivor{}, fmt.Errorf("process %q: %w", s, err)
	}
	return Survivor{PID: pid, State: f[1], Waits: f[2], Command: f[3]}, nil
}
