package server

import (
	"context"
	"fmt"
	"strconv"

	"specrun/remote"
)

// Phase is how far a launch is.
type Phase string

// Phases of a launch.
const (
	Absent  Phase = "absent"  // no server process was started
	Running Phase = "running" // the process lives, ready or not
	Exited  Phase = "exited"  // it has ended; processes that it left may live
)

// State is how a launch stands on the host.
type State struct {
	Launch   string
	StateDir string
	Phase    Phase
	Identity Identity // zero when absent
	// ExitCode is the process's exit status, -1 when it runs, was ended by a
	// signal, or nobody saw its end (the host was restarted).
	ExitCode int
	// Signal ended the process; 0 when none did. A status above 128 is taken for
	// one, as shells report it.
	Signal  int
	Stopped bool // Stop was called for it
	LogPath string
	LogSize int64 // bytes

	listeners []listener
}

type listener struct {
	Holder
	ours bool
}

// Look says how a launch stands. It changes nothing. A *ElsewhereError says that
// the launch belongs to another machine or container with the same state folder.
func Look(ctx context.Context, h Host, stateDir, launch string) (State, error) {
	return look(ctx, h, stateDir, launch, 0)
}

// look also says who listens on port, when it is not 0.
func look(ctx context.Context, h Host, stateDir, launch string, port int) (State, error) {
	if err := checkID(launch); err != nil {
		return State{}, err
	}
	res, err := h.Run(ctx, script("look", lookText,
		remote.Var{Name: "STATE", Value: stateDir},
		remote.Var{Name: "ID", Value: launch},
		remote.Var{Name: "PORT", Value: strconv.Itoa(port)},
	))
	if err != nil {
		return State{}, fmt.Errorf("look at launch %s: %w", launch, err)
	}
	return parseState(h.Name(), stateDir, launch, port, remote.Lines(res.Stdout))
}

func parseState(host, stateDir, launch string, port int, answer []remote.Line) (State, error) {
	st := State{Launch: launch, StateDir: stateDir, ExitCode: -1}
	var here string
	var ours bool
	var err error
	for _, f := range answer {
		switch f.Key {
		case "dir":
			st.LogPath = f.Value + "/server.log"
		case "stopped":
			st.Stopped = true
		case "phase":
			st.Phase = Phase(f.Value)
		case "identity":
			st.Identity, err = parseIdentity(f.Value)
		case "here":
			here = f.Value
		case "status":
			st.ExitCode, st.Signal, err = parseStatus(f.Value)
		case "log_size":
			st.LogSize, err = strconv.ParseInt(f.Value, 10, 64)
		case "whose":
			ours = f.Value == "ours"
		case "listener":
			var holder Holder
			holder, err = parseHolder(port, f.Value)
			st.listeners = append(st.listeners, listener{holder, ours})
		}
		if err != nil {
			return State{}, fmt.Errorf("%s: look at launch %s: %w", host, launch, err)
		}
	}
	switch st.Phase {
	case Absent, Running, Exited:
		return st, nil
	case "elsewhere":
		return State{}, &ElsewhereError{Host: host, Launch: launch, Identity: st.Identity, HereID: here}
	}
	return State{}, fmt.Errorf("%s: look at launch %s: unexpected answer %v", host, launch, answer)
}

// parseStatus splits what a shell's $? says into exit code and signal.
func parseStatus(s string) (code, signal int, err error) {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1, 0, fmt.Errorf("exit status %q: %w", s, err)
	}
	if n > 128 && n <= 128+64 {
		return -1, n - 128, nil
	}
	return n, 0, nil
}
