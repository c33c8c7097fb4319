package experiments

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"specrun/deploy/server"
	"specrun/experiments/record"
)

// execution is one controller working on one sweep. Everything but shared
// belongs to one goroutine.
type execution struct {
	deps    Deps
	plan    *Plan // its cells are all that there may be, those of quotes included
	own     *Plan // as it was made, and is stored
	sweepID string
	source  Source
	host    *Host
	shared  atomic.Pointer[Host] // the same, for the goroutine that renews leases
	engine  Engine
	inside  *server.Place // container that host is; nil: the host itself

	results   []record.Result         // of slots that are filled
	attempts  map[string]int          // by slot
	holder    string                  // owner of the sweep's leases, and so of its launches' place in the queue
	held      *held                   // those leases
	inherited map[string]PatchState   // by interpreter and environment: what was found by who shares the patches
	supersede map[string]string       // slot -> failed run that the next attempt replaces
	found     map[string]foundPatches // by interpreter and environment; nil: not read yet
	hostInfo  struct {
		sync.Mutex
		by map[string][]record.Fact // interpreter and environment
	}
	firsts   firsts
	moved    map[string]bool // slots whose launch was tried again on another port
	last     *attempt        // the latest launch; what concerns the sweep is noted in its journal
	unbegun  bool            // no launch was ever begun, when this execution was
	admitted bool            // see mayBegin; it was asked
	launches int
	expected int
	notes    []string
	secrets  *redactor // of hider
	ends     ends
	left     []Left
}

// Execute runs a plan as a new sweep and blocks until it has ended. A nil
// source runs the plan's own launches. Failed runs are results: the error is
// nil and Summary counts them. Errors: *InterruptedError when ctx ended (all is
// cleaned up, resume continues), *OpenError when something could not be cleaned
// up or recorded, *SecretError and connection errors before anything was begun.
func Execute(ctx context.Context, deps Deps, plan *Plan, source Source) (*Summary, error) {
	x, err := newExecution(deps, plan, deps.newID())
	if err != nil {
		return nil, err
	}
	x.source, x.unbegun = source, true
	if source == nil {
		x.source = planSource{x.sweepID, plan}
	}
	if err := x.connect(ctx); err != nil {
		return nil, err
	}
	defer x.disconnect()
	if err := x.mayBegin(ctx); err != nil {
		return nil, err
	}
	x.admitted = true
	if err := x.plan.Prepare(ctx, x.host); err != nil {
		return nil, err
	}
	begin, err := sweepPlan(x.sweepID, plan, x.nowUs())
	if err != nil {
		return nil, err
	}
	if err := deps.Recorder.Begin(ctx, begin); err != nil {
		return nil, fmt.Errorf("begin sweep: %w", err)
	}
	return x.run(ctx, func(context.Context) error { return nil })
}

// mayBegin finds what speaks against a sweep as a whole, before anything is begun and,
// where the sweep is new, stored: *server.MarkedError, *NoGPUError.
func (x *execution) mayBegin(ctx context.Context) error {
	if x.plan.attaches() {
		return nil
	}
	marks, err := x.host.Server.Marks(ctx)
	if err != nil {
		return err
	}
	if len(marks) > 0 {
		return &server.MarkedError{Host: x.host.Name, Marks: marks}
	}
	for _, c := range x.plan.Cells {
		if _, err := x.cards(ctx, c.Server); err != nil {
			return err
		}
	}
	return nil
}

func (d Deps) newID() string {
	if d.IDs == nil {
		return ""
	}
	return d.IDs()
}

func newExecution(deps Deps, plan *Plan, sweepID string) (*execution, error) {
	d, err := deps.withDefaults()
	if err != nil {
		return nil, err
	}
	whole := *plan
	whole.Cells = plan.All()
	x := &execution{deps: d, plan: &whole, own: plan, sweepID: sweepID, attempts: map[string]int{}, supersede: map[string]string{},
		firsts: firsts{outputs: map[string]string{}}, moved: map[string]bool{}}
	x.hostInfo.by = map[string][]record.Fact{}
	if len(plan.Cells) == 0 {
		return nil, errors.New("execute: the plan has no cells")
	}
	x.inside = plan.place()
	if x.engine, err = d.Engines(plan.Cells[0].Server.Engine); err != nil {
		return nil, err
	}
	if _, err := plan.Secrets(d.Getenv); err != nil {
		return nil, err
	}
	return x, nil
}

func (x *execution) nowUs() int64 { return x.deps.Now().UnixMicro() }

func (x *execution) note(text string) { x.notes = append(x.notes, x.hider().text(text)) }

// cleaning is a context that outlives a cancel, for undoing.
func (x *execution) cleaning(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), x.deps.UndoTimeout+time.Duration(x.plan.StopGrace))
}

// run claims the sweep, takes up what is open, makes the launches that are left
// and puts the host back as after: says.
func (x *execution) run(parent context.Context, reopen func(context.Context) error) (*Summary, error) {
	if err := x.claim(parent, x.sweepID); err != nil {
		return nil, err
	}
	ctx, stop := x.keepClaim(parent)
	defer stop()
	err := without(x.underLease(ctx, reopen), errEnded)
	if errors.Is(err, errClaimLost) {
		return x.summary(record.SweepInterrupted), &OpenError{SweepID: x.sweepID, Err: err}
	}
	state, missing := x.state()
	if err != nil {
		state = record.SweepInterrupted
	}
	if endErr := x.end(ctx, state); endErr != nil {
		err = errors.Join(err, endErr)
	}
	summary := x.summary(state)
	summary.Missing = missing
	if claimErr := x.deps.Recorder.Claim(context.WithoutCancel(ctx), x.sweepID, x.deps.Controller, 0); claimErr != nil {
		err = errors.Join(err, &fatalError{fmt.Errorf("give up the claim: %w", claimErr)})
	}
	return summary, x.explain(parent, err)
}

// underLease does what changes the host. After a loss of the claim or of the
// host nothing is cleaned up: that is for whoever has the sweep then.
func (x *execution) underLease(ctx context.Context, reopen func(context.Context) error) error {
	if x.plan.attaches() { // nothing of the host is changed
		err := reopen(ctx)
		if err == nil {
			err = x.launchAll(ctx)
		}
		return err
	}
	if x.unbegun && !x.admitted { // somebody else stored it
		if err := x.patiently(ctx, func() error { return x.mayBegin(ctx) }); err != nil {
			return err
		}
	}
	ctx, leases, err := x.hold(ctx, x.sweepOwner())
	if err != nil {
		return err
	}
	defer leases.stop()
	if err = reopen(ctx); err == nil {
		err = x.launchAll(ctx)
	}
	lost := hostLost(err) || errors.Is(err, errClaimLost)
	if !lost {
		err = errors.Join(err, x.restore(ctx))
		lost = hostLost(err)
	}
	if err == nil {
		err = x.leave(ctx)
		lost = hostLost(err) || errors.Is(err, errClaimLost)
	}
	if lost {
		return err
	}
	return errors.Join(err, leases.release(ctx))
}

// explain gives an error the type that callers tell apart.
func (x *execution) explain(parent context.Context, err error) error {
	var fatal *fatalError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &fatal):
		return &OpenError{SweepID: x.sweepID, Err: err, Unbegun: x.unbegun && x.last == nil}
	case parent.Err() != nil:
		return &InterruptedError{SweepID: x.sweepID, Cause: context.Cause(parent)}
	}
	return &OpenError{SweepID: x.sweepID, Err: err, Unbegun: x.unbegun && x.last == nil}
}

// maxIdle bounds launches that end without any result, one after another.
const maxIdle = 3

func (x *execution) launchAll(ctx context.Context) error {
	idle := 0
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		next, err := x.source.Next(ctx, x.results)
		if err != nil {
			return fmt.Errorf("plan the next launch: %w", err)
		}
		if len(next) == 0 {
			return x.closeQuotes(ctx)
		}
		before := len(x.results)
		if err := x.extend(ctx, next[0]); err != nil {
			return err
		}
		x.launches++
		x.expected = x.launches + len(next) - 1
		a := x.newAttempt(next[0], record.Launch{ID: x.deps.IDs(), SweepID: x.sweepID, Host: x.plan.Host.Name, Round: next[0].Round})
		if err := a.begin(ctx); err != nil {
			return err
		}
		if err := a.goOn(ctx, nil); err != nil {
			return err
		}
		if len(x.results) > before {
			idle = 0
		} else if idle++; idle == maxIdle {
			return fmt.Errorf("%d launches in a row ended without a result", idle)
		}
	}
}

func (x *execution) newAttempt(l PlannedLaunch, rec record.Launch) *attempt {
	a := &attempt{x: x, planned: l, rec: rec, journal: journal{}}
	if len(l.Runs) > 0 {
		a.cfg = x.plan.Cells[l.Runs[0].Cell].Server
	}
	a.isLast = func(ctx context.Context) bool {
		next, err := x.source.Next(ctx, x.results)
		return err == nil && len(next) == 0
	}
	x.last = a
	return a
}

func (x *execution) filled(slot string) bool {
	for _, r := range x.results {
		if r.Slot.ID == slot {
			return true
		}
	}
	return false
}

// state is how the sweep stands, and how many of its slots are empty.
func (x *execution) state() (record.SweepState, int) {
	all := planSource{x.sweepID, x.own}
	missing := all.missing(all.expected(x.results), x.results)
	switch _, failed := x.counts(); {
	case missing > 0:
		return record.SweepInterrupted, missing
	case failed > 0:
		return record.SweepIncomplete, 0
	}
	return record.SweepDone, 0
}

func (x *execution) counts() (done, failed int) {
	for _, r := range x.results {
		switch r.Run.State {
		case record.RunDone:
			done++
		case record.RunFailed:
			failed++
		}
	}
	return done, failed
}

func (x *execution) summary(state record.SweepState) *Summary {
	s := &Summary{SweepID: x.sweepID, Host: x.plan.Host.Name, Kind: x.own.Kind, State: state, Launches: x.launches, Notes: x.notes, Left: x.left}
	s.Done, s.Failed = x.counts()
	return s
}

// end records the sweep's state, in the journal of its latest launch if it has one.
func (x *execution) end(ctx context.Context, state record.SweepState) error {
	if x.last == nil {
		if state != record.SweepInterrupted {
			return nil
		}
		// No launch was begun here. Where none ever was, nothing is to be undone.
		if err := x.deps.Recorder.Cut(context.WithoutCancel(ctx), x.sweepID, x.nowUs()); err != nil {
			return &fatalError{fmt.Errorf("record the sweep's end: %w", err)}
		}
		return nil
	}
	return x.last.record(ctx, "", stepSweep, record.EventNote, map[string]any{"state": state},
		record.Change{SweepID: x.sweepID, SweepState: state})
}
