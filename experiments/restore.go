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
	if _, known := x.found[ev.Python]; !known {
		x.found[ev.Python] = foundPatches{ev.Found, w}
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
		for _, c := range x.plan.Cells {
			if c.Server.Python == ev.Python {
				x.foundPatches(ev, Where{Python: c.Server.Python, Cwd: c.Server.Cwd, Env: c.Server.HostEnv})
				break
			}
		}
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
	for _, python := range sortedKeys(x.found) {
		err := x.patiently(ctx, func() error { return x.restoreOne(ctx, x.found[python]) })
		if err != nil {
			return &fatalError{fmt.Errorf("put the patches back for %s: %w", python, err)}
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
