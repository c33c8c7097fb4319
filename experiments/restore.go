package experiments

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"specrun/experiments/record"
	"specrun/remote"
)

// foundPatches is what one interpreter's files were before the sweep changed
// anything.
type foundPatches struct {
	Cell   int        `json:"cell"` // one that has this interpreter and environment
	Python string     `json:"python"`
	State  PatchState `json:"state"`
	// Error says why it could not be read. Nothing is patched there then: it could
	// not be put back.
	Error string `json:"error,omitempty"`
}

// foundEvidence is all of it, as recorded before the first change.
type foundEvidence struct {
	Found []foundPatches `json:"found"`
}

// wheres gives a cell for each interpreter and environment of the plan.
func (x *execution) wheres() []int {
	var cells []int
	known := map[string]bool{}
	for i, c := range x.plan.Cells {
		if key := c.Server.where().key(); !known[key] {
			known[key] = true
			cells = append(cells, i)
		}
	}
	return cells
}

func (x *execution) whereOf(cell int) Where { return x.plan.Cells[cell].Server.where() }

// find sees to it that what was found is known and recorded, of every
// interpreter before the first change: two of them may see the same files, and
// what the sweep did through the one is not what it found through the other. A
// change that somebody's command left half done is finished or undone first,
// since what it comes to is what was found.
func (a *attempt) find(ctx context.Context) error {
	x := a.x
	if x.found != nil {
		return nil
	}
	found, open, err := x.readFound(ctx)
	if err != nil {
		return err
	}
	if open >= 0 {
		if err := x.host.Patcher.Recover(ctx, x.whereOf(open)); err != nil {
			return fmt.Errorf("a change of patches was cut off half way: %w", err)
		}
		if found, open, err = x.readFound(ctx); err != nil {
			return err
		}
		if open >= 0 {
			return errors.New("a change of patches was cut off half way, and is still open")
		}
	}
	if err := a.record(ctx, "", stepFound, record.EventNote, foundEvidence{found}, record.Change{}); err != nil {
		return err
	}
	x.keepFound(found)
	return x.held.publish(ctx, found)
}

// readFound reads all interpreters; open is a cell whose interpreter sees an
// open transaction, -1 when none does.
func (x *execution) readFound(ctx context.Context) (found []foundPatches, open int, err error) {
	open = -1
	for _, cell := range x.wheres() {
		w := x.whereOf(cell)
		f := foundPatches{Cell: cell, Python: w.Python}
		f.State, err = x.host.Patcher.Current(ctx, w)
		switch {
		case err != nil && (ctx.Err() != nil || hostLost(err)):
			return nil, -1, err
		case err != nil:
			f.Error = err.Error()
		case f.State.Open:
			open = cell
		}
		if s, ok := x.inherited[w.key()]; ok && f.Error == "" {
			f.State = s
		}
		found = append(found, f)
	}
	return found, open, nil
}

func (x *execution) keepFound(found []foundPatches) {
	x.found = map[string]foundPatches{}
	for _, f := range found {
		x.found[x.whereOf(f.Cell).key()] = f
	}
}

// recallFound takes what was found from the journals of an earlier controller.
func (x *execution) recallFound(events []record.Event) error {
	for _, e := range events {
		if e.Step != stepFound {
			continue
		}
		var ev foundEvidence
		if err := json.Unmarshal(e.Evidence, &ev); err != nil {
			return fmt.Errorf("journal of launch %s, event %d: %w", e.LaunchID, e.Seq, err)
		}
		for _, f := range ev.Found {
			if f.Cell < 0 || f.Cell >= len(x.plan.Cells) {
				return fmt.Errorf("journal of launch %s, event %d: the plan has no cell %d", e.LaunchID, e.Seq, f.Cell)
			}
		}
		x.keepFound(ev.Found)
		return nil
	}
	return nil
}

// restore puts the patch sets back that the sweep found, unless they are to be
// kept. It runs after a cancel too.
func (x *execution) restore(ctx context.Context) error {
	if x.plan.After == AfterKeep {
		if len(x.found) > 0 && x.last != nil {
			x.note("patches stay as the last launch had them (after: keep); specrun rollback removes them")
		}
		return nil
	}
	if x.keepsFiles() {
		return nil
	}
	ctx, cancel := x.cleaning(ctx)
	defer cancel()
	var errs []error
	for _, key := range sortedKeys(x.found) {
		f := x.found[key]
		if f.Error != "" {
			continue // nothing was patched there
		}
		var unrecorded error
		err := x.patiently(ctx, func() (err error) {
			unrecorded, err = x.restoreOne(ctx, f)
			return err
		})
		switch {
		case err != nil:
			var unread *unreadError
			errs = append(errs, &fatalError{&StillPatchedError{Host: x.plan.Host.Name, Python: f.Python, Unread: errors.As(err, &unread), Err: errors.Join(err, unrecorded)}})
		case unrecorded != nil:
			errs = append(errs, &fatalError{fmt.Errorf("%s: the patches for %s are as the sweep found them, only the record of it is missing: %w",
				x.plan.Host.Name, f.Python, unrecorded)})
		}
	}
	return errors.Join(errs...)
}

// StillPatchedError says that the patches which a sweep found could not be put
// back.
type StillPatchedError struct {
	Host   string
	Python string
	Unread bool // what is there now could not be read either
	Err    error
}

func (e *StillPatchedError) Error() string {
	how := "is"
	if e.Unread {
		how = "may be"
	}
	return fmt.Sprintf("%s %s still patched for %s, specrun rollback --host %s puts it back: %v", e.Host, how, e.Python, e.Host, e.Err)
}

func (e *StillPatchedError) Unwrap() error { return e.Err }

// Hint says what to do next.
func (e *StillPatchedError) Hint() string {
	return "specrun rollback --host " + e.Host + " removes the patches"
}

// unreadError says that it could not be read what is deployed.
type unreadError struct{ error }

func (e *unreadError) Unwrap() error { return e.error }

// restoreOne leaves what is as it was found alone, and nothing else: with a
// transaction open no file is what it seems. A store that fails does not keep
// the host patched; what it said is unrecorded.
func (x *execution) restoreOne(ctx context.Context, f foundPatches) (unrecorded, err error) {
	w := x.whereOf(f.Cell)
	now, err := x.host.Patcher.Current(ctx, w)
	var gone *remote.ContainerError
	if errors.As(err, &gone) && gone.Reason != remote.ContainerStopped && gone.Gone() {
		x.note(fmt.Sprintf("%v: the patched files went with it", gone))
		return nil, nil
	}
	if err != nil {
		return nil, &unreadError{err}
	}
	if now.isAs(f.State) {
		return nil, nil
	}
	other, err := x.held.last(ctx, w.key())
	if err != nil {
		return nil, &unreadError{err}
	}
	if other != nil {
		x.note(fmt.Sprintf("%s: the patches stay for %s by %s, which shares them; the last one to end puts back what was found",
			x.plan.Host.Name, other.Owner.What, other.Owner.Who()))
		return nil, nil
	}
	a := x.last
	ev := map[string]any{"python": f.Python, "found": now.Patches, "want": f.State.Patches, "unsound": now.Unsound}
	unrecorded = a.record(ctx, "", stepRestore, record.EventIntent, ev, record.Change{})
	a.progress(stepRestore, PhaseBegin, "")
	state, err := x.host.Patcher.Ensure(ctx, w, f.State.Patches)
	if err != nil {
		return unrecorded, err
	}
	a.progress(stepRestore, PhaseDone, "")
	x.noteRemoved(now.Patches, state.Patches, f)
	if other := state.changedSince(f.State); len(other) > 0 {
		x.note(fmt.Sprintf("%s: the patches are as they were found, but not the bytes of %s: somebody else changed it meanwhile; see specrun status",
			x.plan.Host.Name, strings.Join(other, ", ")))
	}
	if unrecorded != nil {
		return unrecorded, nil
	}
	return a.record(ctx, "", stepRestore, record.EventDone, state, record.Change{}), nil
}

// noteRemoved says which patches the sweep removed without having put or found
// them there: somebody applied them meanwhile, and has to learn that they are
// gone.
func (x *execution) noteRemoved(before, after []PatchRef, found foundPatches) {
	known := slices.Concat(after, found.State.Patches)
	for _, c := range x.plan.Cells {
		known = append(known, c.Server.Patches...)
	}
	for _, p := range before {
		same := func(o PatchRef) bool { return o.Name == p.Name && o.SHA256 == p.SHA256 }
		if !slices.ContainsFunc(known, same) {
			x.note(fmt.Sprintf("%s: removed patch %s, which this sweep did not put there: somebody applied it meanwhile; specrun apply puts it back",
				x.plan.Host.Name, patchContent(p)))
		}
	}
}
