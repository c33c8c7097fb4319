package experiments

import (
	"context"
	"encoding/json"
	"fmt"

	"specrun/experiments/record"
)

// foundPatches is what one interpreter's files were patched with before the
// sweep changed them.
type foundPatches struct {
	set   []PatchRef
	where Where
}

// foundPatches remembers the first sight of an interpreter.
func (x *execution) foundPatches(ev patchEvidence, w Where) {
	if _, known := x.found[w.key()]; !known {
		x.found[w.key()] = foundPatches{ev.Found, w}
	}
}

// recallFound takes what was found from the journals of an earlier controller.
func (x *execution) recallFound(events []record.Event) error {
	for _, e := range events {
		if e.Step != stepPatch || e.Kind != record.EventIntent && e.Kind != record.EventSkip {
			continue
		}
		var ev patchEvidence
		if err := json.Unmarshal(e.Evidence, &ev); err != nil {
			return fmt.Errorf("journal of launch %s, event %d: %w", e.LaunchID, e.Seq, err)
		}
		if ev.Cell < 0 || ev.Cell >= len(x.plan.Cells) {
			return fmt.Errorf("journal of launch %s, event %d: the plan has no cell %d", e.LaunchID, e.Seq, ev.Cell)
		}
		x.foundPatches(ev, x.plan.Cells[ev.Cell].Server.where())
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
	ctx, cancel := x.cleaning(ctx)
	defer cancel()
	for _, key := range sortedKeys(x.found) {
		f := x.found[key]
		err := x.patiently(ctx, func() error { return x.restoreOne(ctx, f) })
		if err != nil {
			return &fatalError{fmt.Errorf("put the patches back for %s: %w", f.where.Python, err)}
		}
	}
	return nil
}

func (x *execution) restoreOne(ctx context.Context, f foundPatches) error {
	now, err := x.host.Patcher.Current(ctx, f.where)
	if err != nil {
		return err
	}
	if samePatches(now.Patches, f.set) {
		return nil
	}
	a := x.last
	ev := map[string]any{"python": f.where.Python, "found": now.Patches, "want": f.set}
	if err := a.record(ctx, "", stepRestore, record.EventIntent, ev, record.Change{}); err != nil {
		return err
	}
	a.progress(stepRestore, PhaseBegin, "")
	state, err := x.host.Patcher.Ensure(ctx, f.where, f.set)
	if err != nil {
		return err
	}
	a.progress(stepRestore, PhaseDone, "")
	return a.record(ctx, "", stepRestore, record.EventDone, state, record.Change{})
}
