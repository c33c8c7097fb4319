package experiments

import (
	"context"
	"errors"
	"fmt"
	"io"

	"specrun/deploy/server"
	"specrun/experiments/record"
)

// StartedServer is a server that was started by hand and is ready.
type StartedServer struct {
	Launch   string
	Identity server.Identity
	Ready    server.Ready
	Port     int
	LogPath  string
	Cell     Cell
	Patches  PatchState
	// Mismatches are flags that the server runs with, but not as asked.
	Mismatches []Mismatch
}

// StartServer starts the server of a plan's first launch as Execute would: leases,
// the patch set exactly as the cell says, the process, ready, what it runs with.
// It is left running, with its patches; no benchmark is run and nothing is
// recorded. deps need no Recorder. It blocks until the server is ready.
//
// When it cannot get there, or ctx ends, what it began is undone and the patches
// are as they were found. Errors are those of the step that failed: of package
// server, as *server.HeldError, *server.PortError, *server.CrashError, or of the
// connection, which leaves open what was done.
func StartServer(ctx context.Context, deps Deps, plan *Plan) (*StartedServer, error) {
	deps.Recorder = unrecorded{}
	if plan.attaches() {
		return nil, &SpecError{Field: "server.attach", Msg: "somebody else runs this server: there is nothing to start", Advice: "leave server.attach out to let specrun start one"}
	}
	p := *plan
	p.After = AfterRestore // of a start that fails
	x, err := newExecution(deps, &p, "")
	if err != nil {
		return nil, err
	}
	if len(p.Launches) == 0 {
		return nil, errors.New("start server: the plan has no launch")
	}
	if err := x.connect(ctx); err != nil {
		return nil, err
	}
	defer x.disconnect()
	// No sweep may take what is in between for what it found, nor be surprised
	// by other patches between two of its launches.
	held, leases, err := x.hold(ctx, server.Owner{Launch: x.deps.IDs(), Controller: x.deps.Controller, What: byHand})
	if err != nil {
		return nil, err
	}
	defer leases.stop()
	started, err := x.startOne(held)
	if hostLost(err) {
		return nil, err
	}
	return started, errors.Join(err, leases.release(ctx))
}

// byHand is what a lease says it is for when no sweep is made.
const byHand = "a server started by hand"

// startOne makes the plan's first launch, once more when its port was lost, and
// puts the patches back when it fails.
func (x *execution) startOne(ctx context.Context) (*StartedServer, error) {
	for {
		x.launches, x.expected = x.launches+1, x.launches+1
		a := x.newAttempt(x.plan.Launches[0], record.Launch{ID: x.deps.IDs(), Host: x.plan.Host.Name})
		a.fresh = true
		started, again, err := a.startAndLeave(ctx)
		if again {
			continue
		}
		if err == nil || hostLost(err) {
			return started, err
		}
		if undone := x.restore(ctx); undone != nil {
			return nil, errors.Join(err, undone)
		}
		if ctx.Err() != nil {
			err = fmt.Errorf("the start was interrupted and is undone: %w", err)
		}
		return nil, err
	}
}

// startAndLeave is one try; again says that another launch is worth one.
func (a *attempt) startAndLeave(ctx context.Context) (started *StartedServer, again bool, err error) {
	leased, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a.keeper = &keeper{lost: cancel}
	step, err := a.bringUp(leased)
	a.keeper.stop()
	if err == nil {
		err = a.leaveLeases(ctx)
	}
	if err == nil {
		return &StartedServer{Launch: a.rec.ID, Identity: a.state.Identity, Ready: a.ready, Port: a.leases.Port, LogPath: a.state.LogPath,
			Cell: a.x.plan.Cells[a.planned.Runs[0].Cell], Patches: a.patches, Mismatches: a.facts.Checked.Mismatches}, false, nil
	}
	if hostLost(err) {
		return nil, false, fmt.Errorf("launch %s is left as it is: %w", a.rec.ID, err)
	}
	var f *failure
	if errors.As(err, &f) {
		a.progress(step, PhaseFailed, f.Error())
		again = a.portWasTaken(f)
		err = f.err
	}
	if undoErr := a.undoAll(ctx); undoErr != nil {
		return nil, false, errors.Join(err, undoErr)
	}
	if again {
		a.progress(stepLaunch, PhaseNote, anotherPort)
	}
	return nil, again, err
}

// unrecorded is the Recorder of what leaves no results: the host alone knows of
// a server that was started by hand.
type unrecorded struct{}

func (unrecorded) Begin(context.Context, record.SweepPlan) error              { return nil }
func (unrecorded) Record(context.Context, record.Event, record.Change) error  { return nil }
func (unrecorded) Claim(context.Context, string, string, int64) error         { return nil }
func (unrecorded) Cut(context.Context, string, int64) error                   { return nil }
func (unrecorded) View(context.Context, string) (v record.SweepView, e error) { return v, e }

func (unrecorded) Extend(context.Context, string, []record.Cell, []record.Slot, ...string) error {
	return nil
}

func (unrecorded) Kept(_ context.Context, sha256 string) (io.ReadCloser, int64, error) {
	return nil, 0, fmt.Errorf("nothing is kept: %s", sha256)
}

func (unrecorded) Attach(_ context.Context, a record.Artifact, _ io.Reader) (record.Artifact, error) {
	return a, nil
}
