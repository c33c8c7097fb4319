package server

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"specrun/remote"
)

// DefaultGrace is the time between SIGTERM and SIGKILL. A real server drains its
// requests and may live more than ten seconds after its last log line.
const DefaultGrace = 60 * time.Second

// maxGrace is the most that a launch may have asked for.
const maxGrace = 30 * time.Minute

// StopOptions are the limits of a stop; zero fields are the defaults.
type StopOptions struct {
	Grace    time.Duration // between SIGTERM and SIGKILL; the Launch's, else DefaultGrace
	KillWait time.Duration // until killed processes are gone; 30 s
	GPUWait  time.Duration // until the driver gave their memory back; 60 s
	Release  bool          // once it is proved, give back the leases on ports and GPUs that are the launch's
}

// Proof is what a stop saw: nothing of the launch is left.
type Proof struct {
	Launch   string   `json:"launch"`
	Identity Identity `json:"identity"` // zero when the launch had no process
	// Terminated tells that the server lived and was sent SIGTERM.
	Terminated bool  `json:"terminated"`
	Killed     []int `json:"killed,omitempty"` // pids that needed SIGKILL
	ExitCode   int   `json:"exit_code"`        // as in State
	Signal     int   `json:"signal"`
	Port       int   `json:"port"` // 0 when the launch had none
	// Other is a stranger who listens on the port now; nil when it is free.
	Other      *Holder `json:"other,omitempty"`
	GPUChecked bool    `json:"gpu_checked"` // the host has an nvidia-smi that answered
	// Notes say what a launcher's own stop, or its status, had to say against it.
	Notes    []string `json:"notes,omitempty"`
	Released bool     `json:"released"` // it had leases on ports or GPUs here, and has none any more
}

// Stop ends a launch and proves it: SIGTERM to the server process; when it and
// all that belongs to it are gone, or after the grace, SIGKILL to what is left
// in its session, carries its run id, or descends from those. Each process is
// judged by its identity right before each signal, so a stranger with a reused
// pid is never hit. Then nothing of the launch lives, no socket of it is bound
// to its port, and no GPU memory is held for it; else a *SurvivorError, and the host
// is marked (see Mark) until a stop of the launch is proved.
//
// It blocks until then, works for a launch that was never started or has ended,
// and may be repeated. After it the launch id never starts again. It is one
// script that goes on by itself when the connection is lost.
func Stop(ctx context.Context, h Host, stateDir, launch string, o StopOptions) (Proof, error) {
	if err := checkID(launch); err != nil {
		return Proof{}, err
	}
	grace, longest := "", maxGrace // the launch's own stands in its folder
	if o.Grace > 0 {
		grace, longest = centis(o.Grace), o.Grace
	}
	o = o.withDefaults()
	s := script("stop", unitText+commandText+judgeText+stopText,
		remote.Var{Name: "STATE", Value: stateDir},
		remote.Var{Name: "PLACED"},
		remote.Var{Name: "ID", Value: launch},
		remote.Var{Name: "GRACE", Value: grace},
		remote.Var{Name: "KILL_WAIT", Value: centis(o.KillWait)},
		remote.Var{Name: "GPU_WAIT", Value: centis(o.GPUWait)},
		remote.Var{Name: "RELEASE", Value: flag(o.Release)},
	)
	s.Timeout = longest + o.KillWait + o.GPUWait + time.Minute
	res, err := h.Run(ctx, s)
	if err != nil {
		return Proof{}, fmt.Errorf("stop launch %s: %w", launch, err)
	}
	place, err := placed(res.Stdout)
	if place == nil || err != nil {
		return parseProof(h.Name(), launch, res.Stdout)
	}
	inside, gone, err := stopWithin(ctx, h, stateDir, launch, *place, o)
	if err != nil {
		return inside, err
	}
	s.Vars = append(s.Vars, remote.Var{Name: "PLACED", Value: "1"}) // the later one counts
	if res, err = h.Run(ctx, s); err != nil {
		return inside, fmt.Errorf("stop launch %s: %w", launch, err)
	}
	proof, err := parseProof(h.Name(), launch, res.Stdout)
	if err != nil || gone {
		return proof, err
	}
	inside.GPUChecked = inside.GPUChecked || proof.GPUChecked
	inside.Released = proof.Released
	return inside, nil
}

func (o StopOptions) withDefaults() StopOptions {
	if o.Grace <= 0 {
		o.Grace = DefaultGrace
	}
	if o.KillWait <= 0 {
		o.KillWait = 30 * time.Second
	}
	if o.GPUWait <= 0 {
		o.GPUWait = 60 * time.Second
	}
	return o
}

func centis(d time.Duration) string {
	return strconv.FormatInt(int64(d/(10*time.Millisecond)), 10)
}

func parseProof(host, launch string, out []byte) (Proof, error) {
	p := Proof{Launch: launch, ExitCode: -1}
	left := SurvivorError{Host: host, Launch: launch}
	killed := make(map[int]bool)
	var state, here string
	var err error
	for _, f := range remote.Lines(out) {
		switch f.Key {
		case "state":
			state = f.Value
		case "here":
			here = f.Value
		case "identity":
			p.Identity, err = parseIdentity(f.Value)
		case "term":
			p.Terminated = true
		case "kill":
			var pid int
			if pid, err = strconv.Atoi(f.Value); err == nil && !killed[pid] {
				killed[pid] = true
				p.Killed = append(p.Killed, pid)
			}
		case "left":
			var s Survivor
			s, err = parseSurvivor(f.Value)
			left.Processes = append(left.Processes, s)
		case "status":
			p.ExitCode, p.Signal, err = parseStatus(f.Value)
		case "note":
			p.Notes = append(p.Notes, f.Value)
		case "unmarked":
			left.Unmarked = true
		case "unit":
			left.Unit = f.Value
		case "port":
			p.Port, err = strconv.Atoi(f.Value)
		case "listener":
			var holder Holder
			holder, err = parseHolder(p.Port, f.Value)
			if p.Other == nil {
				p.Other = &holder
			}
		case "unowned":
			// Bound by our user, and no process to be seen: a remnant of ours.
			left.Port = &Holder{Port: p.Port}
		case "released":
			p.Released = true
		case "gpu_checked":
			p.GPUChecked = true
		case "gpu":
			var g GPUHolder
			g, err = parseGPU(f.Value, false)
			left.GPU = append(left.GPU, g)
		}
		if err != nil {
			return Proof{}, fmt.Errorf("%s: stop launch %s: %w", host, launch, err)
		}
	}
	switch {
	case state == "elsewhere":
		return p, &ElsewhereError{Host: host, Launch: launch, Identity: p.Identity, HereID: here}
	case state != "done":
		return p, fmt.Errorf("%s: stop launch %s: unexpected answer %q", host, launch, out)
	case len(left.Processes) > 0 || left.Unit != "" || left.Port != nil || len(left.GPU) > 0:
		return p, &left
	}
	return p, nil
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
