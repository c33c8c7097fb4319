package experiments

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// fakeEngines are files that several interpreters see.
type fakeEngines struct {
	sees   map[string][]string   // by interpreter
	stacks map[string][]PatchRef // by file
	// touched says that somebody else changed the files.
	touched bool
}

type fakePatcher struct{ w *world }

func (f fakePatcher) Current(_ context.Context, where Where) (PatchState, error) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if err := f.w.enter(); err != nil {
		return PatchState{}, err
	}
	return f.state(where)
}

// state is what is deployed; a change that is open is none that can be seen.
func (f fakePatcher) state(where Where) (PatchState, error) {
	s := PatchState{Patches: []PatchRef{}, EngineVersion: "0.5.6", Open: f.w.open}
	if f.w.open {
		s.Unsound = "an open transaction"
	}
	if f.w.engines == nil {
		if !f.w.open {
			s.Patches = slices.Clone(f.w.patches)
		}
		return s, nil
	}
	files, ok := f.w.engines.sees[where.Python]
	if !ok {
		return s, fmt.Errorf("no interpreter %s", where.Python)
	}
	for _, file := range files {
		stack := f.w.engines.stacks[file]
		pf := PatchedFile{Path: file, SHA256: digest([]byte(fmt.Sprint(stack, f.w.engines.touched))), Verdict: "pristine", PristineVerdict: "pristine"}
		for _, ref := range stack {
			pf.Verdict = "patched"
			pf.stack = append(pf.stack, ref.SHA256)
			if !slices.ContainsFunc(s.Patches, func(o PatchRef) bool { return o.SHA256 == ref.SHA256 }) {
				s.Patches = append(s.Patches, ref)
			}
		}
		for _, name := range []string{"profiling-v3", "profiling-v4", "profiling-v5"} {
			pf.targetOf = append(pf.targetOf, digest([]byte(name)))
		}
		s.Files = append(s.Files, pf)
	}
	return s, nil
}

func (f fakePatcher) Recover(context.Context, Where) error {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if err := f.w.enter(); err != nil {
		return err
	}
	f.w.open, f.w.recovers = false, f.w.recovers+1
	return nil
}

func (f fakePatcher) Ensure(_ context.Context, where Where, set []PatchRef) (PatchState, error) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if err := f.w.enter(); err != nil {
		return PatchState{}, err
	}
	f.w.open = false
	if f.w.patchErr != nil {
		if err := f.w.patchErr(set); err != nil {
			return PatchState{}, err
		}
	}
	if f.w.engines == nil {
		f.w.patches = slices.Clone(set)
		return f.state(where)
	}
	files, ok := f.w.engines.sees[where.Python]
	if !ok {
		return PatchState{}, errors.New("no interpreter " + where.Python)
	}
	for _, file := range files {
		f.w.engines.stacks[file] = slices.Clone(set)
	}
	return f.state(where)
}
