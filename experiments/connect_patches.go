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
	return deploy.Where{Python: w.Python, Env: w.Env, Cwd: w.Cwd, StateDir: p.o.StateDir}
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
	if seen, ok := p.seen[w.key()]; ok {
		same, err := p.unchanged(ctx, seen)
		if err != nil {
			return PatchState{}, err
		}
		if same {
			return seen, nil
		}
	}
	lib, err := p.o.Library()
	if err != nil {
		return PatchState{}, err
	}
	r, err := deploy.Status(ctx, p.h, p.where(w), lib)
	if err != nil {
		return PatchState{}, err
	}
	s := PatchState{Patches: []PatchRef{}}
	for _, f := range r.Files {
		p.stateDir = f.StateDir
		s.Files = append(s.Files, PatchedFile{Path: f.Path, SHA256: f.SHA256, Pristine: f.PristineSHA256, Verdict: string(f.Verdict), Patches: f.Patches})
		if s.EngineVersion == "" {
			s.EngineVersion = f.EngineVersion
		}
		for _, l := range f.Layers {
			if !slices.ContainsFunc(s.Patches, func(r PatchRef) bool { return r.Name == l.Name }) {
				s.Patches = append(s.Patches, PatchRef{Name: l.Name, Version: l.Version, SHA256: l.Blob})
			}
		}
	}
	if !r.Clean() || len(r.Open) > 0 {
		var bad []string
		for _, f := range s.Files {
			if f.Verdict != string(deploy.Patched) && f.Verdict != string(deploy.Pristine) && f.Verdict != string(deploy.PreEdited) {
				bad = append(bad, f.Path+": "+f.Verdict)
			}
		}
		s.Unsound = firstOf(strings.Join(bad, "; "), "an open transaction")
	}
	p.seen[w.key()] = s
	return s, nil
}

// Ensure implements Patcher. A patch is taken from the library when that has
// the very content, else from the host, which keeps every patch it ever had.
func (p *remotePatcher) Ensure(ctx context.Context, w Where, set []PatchRef) (PatchState, error) {
	var exact []*patches.Patch
	for _, ref := range set {
		found, err := p.patch(ctx, ref)
		if err != nil {
			return PatchState{}, err
		}
		exact = append(exact, found)
	}
	plan, _, err := deploy.Do(ctx, p.h, p.where(w), deploy.Change{Exact: exact, SetExact: true}, deploy.DoOptions{})
	if err != nil {
		return PatchState{}, err
	}
	s := p.seen[w.key()]
	s.Patches, s.Unsound = slices.Clone(set), ""
	s.Files = slices.Clone(s.Files)
	for _, f := range plan.Files {
		now := PatchedFile{Path: f.Path, SHA256: f.Post, Verdict: string(deploy.Pristine), Patches: f.After}
		if len(f.After) > 0 {
			now.Verdict = string(deploy.Patched)
		}
		i := slices.IndexFunc(s.Files, func(o PatchedFile) bool { return o.Path == f.Path })
		if i < 0 {
			s.Files = append(s.Files, now)
			continue
		}
		now.Pristine = s.Files[i].Pristine
		s.Files[i] = now
	}
	p.stateDir = plan.StateDir
	p.seen[w.key()] = s
	return s, nil
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
