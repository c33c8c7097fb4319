package experiments

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"specrun/deploy"
	"specrun/patches"
)

// remotePatcher establishes patch sets through package deploy.
type remotePatcher struct {
	h    RemoteHost
	o    ConnectOptions
	seen map[string]PatchState // by where, for what a plan does not say
	// stateDir is where the host keeps the blobs of patches; "" until seen.
	stateDir string
}

func (p *remotePatcher) where(w Where) deploy.Where {
	return deploy.Where{Python: w.Python, Env: w.Env, Cwd: w.Cwd, StateDir: p.o.StateDir, Engine: w.Engine}
}

//go:embed scripts/unchanged.sh
var unchangedText string

// unchanged says whether every file that was seen still has the bytes it had and
// no transaction is open: then nobody has applied or removed anything since, and
// no interpreter has to be started to know it.
func (p *remotePatcher) unchanged(ctx context.Context, s PatchState) (bool, error) {
	if s.Unsound != "" || p.stateDir == "" || len(s.Files) == 0 {
		return false, nil
	}
	var sums strings.Builder
	for _, f := range s.Files {
		if f.SHA256 == "" || strings.ContainsAny(f.Path, "\\\n\r") {
			return false, nil
		}
		fmt.Fprintf(&sums, "%s  %s\n", f.SHA256, f.Path)
	}
	return contentIs(ctx, p.h, sums.String(), p.stateDir+"/tx")
}

// Current implements Patcher.
func (p *remotePatcher) Current(ctx context.Context, w Where) (PatchState, error) {
	if w.Python == "" { // a server without Python has no files to patch
		return PatchState{Patches: []PatchRef{}}, nil
	}
	if seen, ok := p.seen[w.key()]; ok {
		same, err := p.unchanged(ctx, seen)
		if err != nil {
			return PatchState{}, err
		}
		if same {
			return seen, nil
		}
	}
	return p.read(ctx, w)
}

// read asks the host through the interpreter. Only files that this one sees
// count: the ledgers name those of others too.
func (p *remotePatcher) read(ctx context.Context, w Where) (PatchState, error) {
	lib, err := p.o.Library()
	if err != nil {
		return PatchState{}, err
	}
	r, err := deploy.Status(ctx, p.h, p.where(w), lib)
	if err != nil {
		return PatchState{}, err
	}
	s := PatchState{Patches: []PatchRef{}, Open: len(r.Open) > 0, looked: []string{}, Engines: map[string]string{}}
	for name, e := range r.Engines {
		s.Engines[name] = e.Version
	}
	for _, known := range lib {
		s.looked = append(s.looked, known.SHA256())
	}
	var bad []string
	for _, f := range r.Files {
		if !f.InScope {
			continue
		}
		p.stateDir = f.StateDir
		file := PatchedFile{Path: f.Path, SHA256: f.SHA256, Pristine: f.PristineSHA256, Verdict: string(f.Verdict),
			PristineVerdict: string(f.PristineVerdict), Patches: f.Patches, targetOf: f.Targets}
		if s.EngineVersion == "" {
			s.EngineVersion = f.EngineVersion
		}
		for _, l := range f.Layers {
			file.stack = append(file.stack, l.Blob)
			if !slices.ContainsFunc(s.Patches, func(r PatchRef) bool { return r.Name == l.Name }) {
				s.Patches = append(s.Patches, PatchRef{Name: l.Name, Version: l.Version, SHA256: l.Blob})
			}
		}
		switch f.Verdict {
		case deploy.Patched, deploy.Pristine, deploy.PreEdited:
		default:
			bad = append(bad, f.Path+": "+string(f.Verdict))
		}
		s.Files = append(s.Files, file)
	}
	s.Unsound = strings.Join(bad, "; ")
	if s.Open {
		s.Unsound = firstOf(s.Unsound, "an open transaction")
	}
	p.seen[w.key()] = s
	return s, nil
}

// Recover implements Patcher.
func (p *remotePatcher) Recover(ctx context.Context, w Where) error {
	if w.Python == "" {
		return nil
	}
	_, err := deploy.Recover(ctx, p.h, p.where(w), deploy.RecoverOptions{})
	return err
}

// Ensure implements Patcher. A patch is taken from the library when that has
// the very content, else from the host, which keeps every patch it ever had.
func (p *remotePatcher) Ensure(ctx context.Context, w Where, set []PatchRef) (PatchState, error) {
	if w.Python == "" && len(set) == 0 {
		return p.Current(ctx, w)
	}
	var exact []*patches.Patch
	for _, ref := range set {
		found, err := p.patch(ctx, ref)
		if err != nil {
			return PatchState{}, err
		}
		exact = append(exact, found)
	}
	lib, err := p.o.Library()
	if err != nil {
		return PatchState{}, err
	}
	plan, _, err := deploy.Do(ctx, p.h, p.where(w), deploy.Change{Exact: exact, SetExact: true}, deploy.DoOptions{Library: lib})
	if err != nil {
		return PatchState{}, err
	}
	p.stateDir = plan.StateDir
	s, known := p.seen[w.key()].after(plan, set)
	if !known {
		if s, err = p.read(ctx, w); err != nil {
			return PatchState{}, err
		}
		s = s.fitted(plan, set)
	}
	p.seen[w.key()] = s
	return s, nil
}

// after is the state once a plan for exactly set was carried out; known is false
// when what the files were before cannot be said without asking the host.
func (s PatchState) after(plan *deploy.Plan, set []PatchRef) (now PatchState, known bool) {
	if s.Files == nil || s.Open {
		return s, false
	}
	s.Patches, s.Unsound, s.Files = slices.Clone(set), "", slices.Clone(s.Files)
	for _, f := range plan.Files {
		i := slices.IndexFunc(s.Files, func(o PatchedFile) bool { return o.Path == f.Path })
		if i < 0 || f.Post == "none" {
			return s, false
		}
		file := &s.Files[i]
		if len(f.Before) == 0 && (f.Verdict == deploy.Pristine || f.Verdict == deploy.PreEdited) {
			file.Pristine, file.PristineVerdict = f.Pre, string(f.Verdict)
		}
		if file.PristineVerdict == "" {
			return s, false
		}
		file.SHA256, file.Patches, file.Verdict = f.Post, f.After, file.PristineVerdict
		if len(f.After) > 0 {
			file.Verdict = string(deploy.Patched)
		}
	}
	return s.fitted(plan, set), true
}

// fitted notes which files the plan for set found the patches to fit.
func (s PatchState) fitted(plan *deploy.Plan, set []PatchRef) PatchState {
	s.Files, s.looked = slices.Clone(s.Files), slices.Clone(s.looked)
	for _, ref := range set {
		s.looked = append(s.looked, ref.SHA256)
	}
	for i := range s.Files {
		file := &s.Files[i]
		at := slices.IndexFunc(plan.Files, func(f deploy.PlannedFile) bool { return f.Path == file.Path })
		file.stack = nil
		file.targetOf = slices.Clone(file.targetOf)
		for _, ref := range set {
			on := at >= 0 && slices.Contains(plan.Files[at].After, ref.Name)
			if on {
				file.stack = append(file.stack, ref.SHA256)
			} else {
				file.targetOf = slices.DeleteFunc(file.targetOf, func(sha string) bool { return sha == ref.SHA256 })
			}
		}
	}
	return s
}

func (p *remotePatcher) patch(ctx context.Context, ref PatchRef) (*patches.Patch, error) {
	found, err := p.o.Patches(firstOf(ref.Folder, ref.Name))
	if err == nil && found.SHA256() == ref.SHA256 {
		return found, nil
	}
	if p.stateDir != "" {
		var blob bytes.Buffer
		if _, _, getErr := p.h.Get(ctx, p.stateDir+"/blobs/"+ref.SHA256, &blob); getErr == nil {
			kept, parseErr := patches.Unmarshal(blob.Bytes())
			if parseErr == nil && kept.SHA256() == ref.SHA256 {
				return kept, nil
			}
		} else if hostLost(getErr) {
			return nil, getErr
		}
	}
	if err != nil {
		return nil, err
	}
	return nil, &patchChangedError{ref, found}
}

// patchChangedError says that a patch is not what it was when the sweep was
// planned.
type patchChangedError struct {
	ref PatchRef
	now *patches.Patch
}

func (e *patchChangedError) Error() string {
	return fmt.Sprintf("patch %s: the plan has version %s with content %.12s, here is version %s with %.12s",
		e.ref.Name, e.ref.Version, e.ref.SHA256, e.now.Version, e.now.SHA256())
}

func (e *patchChangedError) Hint() string {
	return "resume with the specrun (or patches.d) that began the sweep, or begin a new one"
}
