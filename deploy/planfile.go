package deploy

import (
	"bytes"
	"fmt"
	"path"
	"slices"

	"specrun/patches"
)

// file plans one real file.
func (b *planner) file(filePath string) error {
	k, err := b.facts.know(filePath)
	if err != nil {
		return err
	}
	have := k.stack()
	want := b.desired(filePath, have)
	f := PlannedFile{Path: filePath, Link: b.links[filePath], Verdict: k.verdict, Action: Keep,
		Pre: orNone(k.file), Before: layerNames(have), After: layerNames(want), read: "none"}
	if k.ledger != nil {
		f.read = k.doc.SHA256
	}
	f.Post, f.old = f.Pre, k.file.Content
	settled := k.verdict != Edited && k.verdict != Missing && k.verdict != Foreign && slices.EqualFunc(have, want, Layer.same)
	stale := k.ledger != nil && len(k.ledger.Stack) > 0 && len(have) == 0
	if settled && !(stale && len(want) == 0) {
		if len(want) > 0 {
			b.noteLostPristine(k)
		}
		b.plan.Files = append(b.plan.Files, f)
		return nil
	}
	if err := b.facts.claimable(k); err != nil {
		return err
	}
	if err := b.content(&f, k, want); err != nil {
		return err
	}
	if f.tx.Stage != "-" {
		if err := b.replaceable(k); err != nil {
			return err
		}
	}
	if err := b.record(&f, k, want); err != nil {
		return err
	}
	b.plan.Files = append(b.plan.Files, f)
	return nil
}

// noteLostPristine says when what the ledger has on the file cannot be undone
// any more.
func (b *planner) noteLostPristine(k known) {
	if _, ok := k.state.Blobs[k.ledger.PristineSHA256]; !ok && len(k.ledger.Stack) > 0 {
		b.note("%s: its pristine content %s is no longer in %s/blobs", k.file.Path, short(k.ledger.PristineSHA256), k.state.Path)
	}
}

// desired is the stack that the change wants on a file.
func (b *planner) desired(filePath string, have []Layer) []Layer {
	var want []Layer
	if !b.change.SetExact && !b.change.RemoveAll {
		for _, l := range have {
			if !slices.Contains(b.change.Remove, l.Name) {
				want = append(want, l)
			}
		}
	}
	for _, w := range b.wanted[filePath] {
		l := w.layer()
		at := slices.IndexFunc(want, func(x Layer) bool { return x.Name == l.Name })
		if at >= 0 {
			if !want[at].same(l) {
				want[at] = l
			}
			continue
		}
		want = append(want, l)
	}
	for i, l := range want { // keep who applied it and when
		if at := slices.IndexFunc(have, l.same); at >= 0 {
			want[i] = have[at]
		}
	}
	return want
}

// content decides what a file will hold.
func (b *planner) content(f *PlannedFile, k known, want []Layer) error {
	pristine, action, err := b.pristine(f, k, want)
	if err != nil {
		return err
	}
	f.Action = action
	if action == Forget {
		f.tx.Stage = "-"
		return nil
	}
	layers, err := b.layers(k, want)
	if err != nil {
		return err
	}
	out, err := patches.Stack(pristine, layers)
	if err != nil {
		return &ConflictError{Host: b.facts.Host, Path: f.Path, Err: err}
	}
	f.new, f.Post = out, hashBytes(out)
	f.Action = Patch
	if len(want) == 0 {
		f.Action = Restore
	}
	f.tx.Stage = path.Dir(f.Path) + "/.specrun-" + b.plan.ID + "/" + path.Base(f.Path)
	if f.Post == f.Pre { // the bytes are right, the ledger is not
		f.tx.Stage = "-"
	}
	return nil
}

// pristine finds the bytes that the stack is built on, or that there is
// nothing to build.
func (b *planner) pristine(f *PlannedFile, k known, want []Layer) ([]byte, Action, error) {
	drift := &DriftError{Host: b.facts.Host, Path: f.Path, Verdict: k.verdict, Got: f.Pre}
	switch k.verdict {
	case Missing:
		if len(want) > 0 || !b.options.Force {
			return nil, "", drift
		}
		f.Post = "none"
		b.note("%s is gone: only its ledger changes", f.Path)
		return nil, Forget, nil
	case Pristine, PreEdited:
		if len(want) == 0 {
			b.note("%s has lost its patches already: only its ledger changes", f.Path)
			return nil, Forget, nil
		}
		dirty := k.file.Git != nil && k.file.Git.State == "modified"
		if dirty && !b.options.AllowDirty {
			return nil, "", drift
		}
		if k.verdict == PreEdited {
			b.note("%s differs from the release already, not by specrun; that content counts as pristine", f.Path)
		}
		return k.file.Content, "", nil
	case Edited:
		drift.Want = k.ledger.CurrentSHA256
		if !b.options.Force {
			return nil, "", drift
		}
		b.note("%s was edited; that content is kept as %s/blobs/%s", f.Path, k.state.Path, f.Pre)
	case Foreign:
		if !b.options.Force {
			return nil, "", drift
		}
		b.note("%s held a patch that no ledger knows; that content is kept as %s/blobs/%s", f.Path, k.state.Path, f.Pre)
		out, err := cutFences(k.file.Content)
		if err != nil {
			return nil, "", &ConflictError{Host: b.facts.Host, Path: f.Path, Err: err, Next: "reinstall its package"}
		}
		return out, "", nil
	}
	content := k.state.Blobs[k.ledger.PristineSHA256]
	if hashBytes(content) != k.ledger.PristineSHA256 {
		return nil, "", &ConflictError{Host: b.facts.Host, Path: f.Path,
			Reason: fmt.Sprintf("its pristine content %s is no longer in %s/blobs", short(k.ledger.PristineSHA256), k.state.Path),
			Next:   "reinstall its package"}
	}
	return content, "", nil
}

// cutFences takes all appended blocks off, the last one first.
func cutFences(content []byte) ([]byte, error) {
	out := bytes.Clone(content)
	for {
		fences, err := patches.FindFence(out)
		if err != nil {
			return nil, err
		}
		if len(fences) == 0 {
			return out, nil
		}
		out = fences[len(fences)-1].Cut(out)
	}
}

// layers loads the patches of a stack: new ones are at hand, old ones come
// whole from the host, so that no local copy of them is needed.
func (b *planner) layers(k known, want []Layer) ([]patches.Layer, error) {
	var out []patches.Layer
	for _, l := range want {
		i := slices.IndexFunc(b.wanted[k.file.Path], func(w wantedLayer) bool { return w.layer().same(l) })
		if i >= 0 {
			w := b.wanted[k.file.Path][i]
			out = append(out, patches.Layer{Patch: w.patch, Target: w.target})
			if _, there := k.state.Blobs[l.Blob]; !there {
				data, err := w.patch.Marshal()
				if err != nil {
					return nil, err
				}
				b.plan.blobs[l.Blob] = data
			}
			continue
		}
		blob := k.state.Blobs[l.Blob]
		if hashBytes(blob) != l.Blob {
			return nil, &ConflictError{Host: b.facts.Host, Path: k.file.Path,
				Reason: fmt.Sprintf("the patch %s, which stays on it, is no longer in %s/blobs", l.Name, k.state.Path),
				Next:   "roll all patches of the file back"}
		}
		p, err := patches.Unmarshal(blob)
		if err != nil {
			return nil, &ConflictError{Host: b.facts.Host, Path: k.file.Path, Reason: "the patch " + l.Name + ", which stays on it, cannot be read", Err: err,
				Next: "a newer specrun may have applied it: use that one, or roll all patches of the file back"}
		}
		at := slices.IndexFunc(p.Targets, func(t patches.Target) bool { return t.Name() == l.Target })
		if at < 0 {
			return nil, &LedgerError{Host: b.facts.Host, Path: k.state.Path + "/files/" + k.doc.Name, Err: fmt.Errorf("patch %s has no target %s", l.Name, l.Target)}
		}
		out = append(out, patches.Layer{Patch: p, Target: p.Targets[at]})
	}
	return out, nil
}

func orNone(f *FileFacts) string {
	if !f.Exists {
		return "none"
	}
	return f.SHA256
}
