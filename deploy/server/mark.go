package server

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"specrun/remote"
)

//go:embed scripts/mark.sh
var markText string

// Mark is a stop that could not be proved. While a host has one nothing is started
// there: what was left would be measured too, or stand in the way. It goes when the
// stop is proved (Stop again), when the host was started anew, and with ClearMarks;
// that of a process which specrun did not start goes with the last one left.
type Mark struct {
	Launch string    // name of the mark, where it is of no launch
	PID    int       // of a process that specrun did not start; 0 else
	When   time.Time // host's clock, whole seconds
	// What was left, as the SurvivorError of that stop had it.
	Processes []Survivor
	Port      int // still bound; 0 is not
	GPU       []GPUHolder
}

// Of is what was stopped, in words.
func (m Mark) Of() string {
	if m.PID != 0 {
		return fmt.Sprintf("process %d", m.PID)
	}
	return "launch " + m.Launch
}

// Why is what is left, in words.
func (m Mark) Why() string {
	e := SurvivorError{Processes: m.Processes, GPU: m.GPU}
	if m.Port != 0 {
		e.Port = &Holder{Port: m.Port}
	}
	return e.left()
}

// MarkedError says that a host is marked, so that nothing is started.
type MarkedError struct {
	Host  string
	Marks []Mark // at least one
}

func (e *MarkedError) Error() string {
	m := e.Marks[0]
	msg := fmt.Sprintf("%s: nothing is started: the stop of %s at %s could not be proved, this was left: %s",
		e.Host, m.Of(), m.When.UTC().Format(time.DateTime+"Z"), m.Why())
	if n := len(e.Marks) - 1; n > 0 {
		msg += fmt.Sprintf(" (and of %d more)", n)
	}
	return msg
}

// Hint says what clears it.
func (e *MarkedError) Hint() string {
	if e.Marks[0].PID != 0 {
		return fmt.Sprintf("it goes when the processes that were left have ended; specrun lock release --force --host %s clears it at once", e.Host)
	}
	return fmt.Sprintf("specrun server stop %s --host %s tries again and clears it; specrun lock release --force --host %s clears it without a proof",
		e.Marks[0].Launch, e.Host, e.Host)
}

// Marks lists the marks of a host, of this boot. It changes nothing.
func Marks(ctx context.Context, h Host, stateDir string) ([]Mark, error) {
	return marks(ctx, h, stateDir, "list")
}

// ClearMarks takes all marks of a host away, whatever is left there, and returns
// them.
func ClearMarks(ctx context.Context, h Host, stateDir string) ([]Mark, error) {
	return marks(ctx, h, stateDir, "clear")
}

func marks(ctx context.Context, h Host, stateDir, mode string) ([]Mark, error) {
	res, err := h.Run(ctx, script("mark", markText, remote.Var{Name: "STATE", Value: stateDir}, remote.Var{Name: "MODE", Value: mode},
		remote.Var{Name: "ID"}, remote.Var{Name: "LEFT"}))
	if err != nil {
		return nil, fmt.Errorf("read the marks of the host: %w", err)
	}
	return parseMarks(h.Name(), remote.Lines(res.Stdout))
}

// markOf marks a host for what a stop in one of its containers left: the mark in
// there is not looked at by who starts in another one.
func markOf(ctx context.Context, h Host, stateDir string, left *SurvivorError) error {
	var b strings.Builder
	for _, p := range left.Processes {
		fmt.Fprintf(&b, "left %d %s %s %s\n", p.PID, p.State, p.Waits, p.Command)
	}
	if left.Port != nil {
		fmt.Fprintf(&b, "unowned\nport %d\n", left.Port.Port)
	}
	for _, g := range left.GPU {
		fmt.Fprintf(&b, "gpu %d %s %s %s\n", g.PID, g.GPU, g.MiB, g.Command)
	}
	res, err := h.Run(ctx, script("mark", markText, remote.Var{Name: "STATE", Value: stateDir}, remote.Var{Name: "MODE", Value: "set"},
		remote.Var{Name: "ID", Value: left.Launch}, remote.Var{Name: "LEFT", Value: strings.TrimSuffix(b.String(), "\n")}))
	if err != nil {
		return fmt.Errorf("mark the host: %w", err)
	}
	for _, f := range remote.Lines(res.Stdout) {
		if f.Key == "unmarked" {
			left.Unmarked = true
		}
	}
	return nil
}

func parseMarks(host string, answer []remote.Line) ([]Mark, error) {
	var all []Mark
	var unowned bool
	var err error
	for _, f := range answer {
		if f.Key == "mark" {
			all, unowned = append(all, Mark{Launch: f.Value}), false
		}
		if len(all) == 0 {
			continue
		}
		m := &all[len(all)-1]
		switch f.Key {
		case "when":
			var n int64
			n, err = strconv.ParseInt(f.Value, 10, 64)
			m.When = time.Unix(n, 0)
		case "process":
			m.PID, err = strconv.Atoi(f.Value)
		case "left":
			var s Survivor
			s, err = parseSurvivor(f.Value)
			m.Processes = append(m.Processes, s)
		case "gpu":
			var g GPUHolder
			g, err = parseGPU(f.Value, false)
			m.GPU = append(m.GPU, g)
		case "unowned":
			unowned = true
		case "port": // comes last
			if port, convErr := strconv.Atoi(strings.TrimSpace(f.Value)); unowned && convErr == nil {
				m.Port = port
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: mark of launch %s: %w", host, m.Launch, err)
		}
	}
	return all, nil
}
