package experiments

import (
	"context"
	"errors"
	"fmt"

	"specrun/experiments/record"
)

// Found is what a step's Look saw.
type Found int

// What a step can be found as.
const (
	Absent  Found = iota // nothing of it is there
	Partial              // some of it: Do goes on from there
	Done                 // nothing is left to do
)

// Step is one thing that a launch does. Look is read-only and decides; Do
// starts from whatever Look found; Undo is idempotent, nil when there is
// nothing to undo. Evidence is stored with the event and must marshal to JSON.
type Step struct {
	Name string
	// Run is the id of the run the step belongs to, "" for the launch's own.
	Run  string
	Look func(ctx context.Context) (Found, any, error)
	Do   func(ctx context.Context) (any, error)
	// Change is what the done step changes in the store; nil changes nothing.
	Change func() record.Change
	Undo   func(ctx context.Context) (any, error)
	// UndoName is the journal's word for the undoing: stop for start.
	UndoName string
}

// do takes a step to its end. A lost connection is made anew and the step
// looked at again, so what went on in between counts.
func (a *attempt) do(ctx context.Context, s Step) error {
	a.progress(s.Name, PhaseBegin, "")
	err := a.x.patiently(ctx, func() error { return a.once(ctx, s) })
	if err == nil {
		a.progress(s.Name, PhaseDone, "")
	}
	return err
}

func (a *attempt) once(ctx context.Context, s Step) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	found, evidence, err := s.Look(ctx)
	if err != nil {
		return err
	}
	if found == Done {
		a.willUndo(s)
		return a.record(ctx, s.Run, s.Name, record.EventSkip, evidence, s.change())
	}
	if err := a.record(ctx, s.Run, s.Name, record.EventIntent, evidence, record.Change{}); err != nil {
		return err
	}
	a.willUndo(s)
	if evidence, err = s.Do(ctx); err != nil {
		return err
	}
	return a.record(ctx, s.Run, s.Name, record.EventDone, evidence, s.change())
}

func (s Step) change() record.Change {
	if s.Change == nil {
		return record.Change{}
	}
	return s.Change()
}

// willUndo puts a step on the list of what is undone at the end, once.
func (a *attempt) willUndo(s Step) {
	if s.Undo == nil {
		return
	}
	for _, u := range a.undo {
		if u.Name == s.Name && u.Run == s.Run {
			return
		}
	}
	a.undo = append(a.undo, s)
}

// undoTo undoes, last first, until n steps are left on the list. All of them
// are tried; what could not be undone stays on the list and in the error.
func (a *attempt) undoTo(ctx context.Context, n int) error {
	var errs []error
	var kept []Step
	for i := len(a.undo) - 1; i >= n; i-- {
		if err := a.undoOne(ctx, a.undo[i]); err != nil {
			errs = append(errs, err)
			kept = append([]Step{a.undo[i]}, kept...)
		}
	}
	a.undo = append(a.undo[:n], kept...)
	return errors.Join(errs...)
}

func (a *attempt) undoOne(ctx context.Context, s Step) error {
	name := s.UndoName
	if name == "" {
		name = s.Name
	}
	// A store that fails must not keep a server alive: undo first, say so last.
	recordErr := a.record(ctx, s.Run, name, record.EventUndo, nil, record.Change{})
	var evidence any
	err := a.x.patiently(ctx, func() (err error) {
		evidence, err = s.Undo(ctx)
		return err
	})
	if containerGone(err) { // and with it what was to be ended
		evidence, err = map[string]string{"gone": err.Error()}, nil
	}
	if err != nil {
		a.progress(name, PhaseFailed, err.Error())
		return errors.Join(fmt.Errorf("%s: %w", name, err), recordErr)
	}
	a.progress(name, PhaseUndone, "")
	if recordErr != nil {
		return recordErr
	}
	return a.record(ctx, s.Run, name, record.EventUndone, evidence, record.Change{})
}
