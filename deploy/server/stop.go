package server

import (
	"context"
	"fmt"
	"strconv"
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
	seen := stopAnswer{left: SurvivorError{Host: host, Launch: launch}}
	for _, f := range remote.Lines(out) {
		var err error
		switch f.Key {
		case "identity":
			p.Identity, err = parseIdentity(f.Value)
		case "term":
			p.Terminated = true
		case "status":
			p.ExitCode, p.Signal, err = parseStatus(f.Value)
		case "note":
			p.Notes = append(p.Notes, f.Value)
		case "released":
			p.Released = true
		default:
			err = seen.take(f)
		}
		if err != nil {
			return Proof{}, fmt.Errorf("%s: stop launch %s: %w", host, launch, err)
		}
	}
	p.Killed, p.Port, p.Other, p.GPUChecked = seen.killed, seen.port, seen.other, seen.gpuChecked
	switch seen.state {
	case "elsewhere":
		return p, &ElsewhereError{Host: host, Launch: launch, Identity: p.Identity, HereID: seen.here}
	case "done":
		return p, seen.survivors()
	}
	return p, fmt.Errorf("%s: stop launch %s: unexpected answer %q", host, launch, out)
}
