package deploy

import (
	"context"
	"slices"
	"strings"

	"specrun/patches"
)

// Report is the state of one host's files.
type Report struct {
	Host   string            `json:"host"`
	Python string            `json:"python"`
	Files  []FileStatus      `json:"files"` // in order of their paths; empty: no engine and no ledger
	Open   []OpenTransaction `json:"open,omitempty"`
	// Engines that the interpreter sees, by top-level package.
	Engines map[string]Engine `json:"engines"`
	Live    []Process         `json:"live,omitempty"` // started with the engine, while anything is patched
}

// FileStatus is one real file.
type FileStatus struct {
	Path string `json:"path"`
	// InScope says that the interpreter sees the file, so that a change through
	// this interpreter is about it; ledgers name files of other interpreters too.
	InScope        bool     `json:"in_scope"`
	Link           string   `json:"link,omitempty"` // as the interpreter finds it, where that is another path
	Verdict        Verdict  `json:"verdict"`
	Patches        []string `json:"patches"`
	Layers         []Layer  `json:"layers,omitempty"`
	SHA256         string   `json:"sha256"`          // "" when missing
	PristineSHA256 string   `json:"pristine_sha256"` // of the ledger, or else of the release; "" unknown
	// PristineVerdict is what the file was before specrun's first change, pristine
	// or pre-edited; "" unknown.
	PristineVerdict Verdict `json:"pristine_verdict,omitempty"`
	// Targets are the patches of the library that the interpreter finds the file
	// for, by content; whether it has what they require was not looked at.
	Targets       []string `json:"-"`
	Engine        string   `json:"engine,omitempty"`
	EngineVersion string   `json:"engine_version,omitempty"`
	StateDir      string   `json:"state_dir"`
	Claim         *Claim   `json:"claim,omitempty"`
}

// OpenTransaction is one that was cut off beyond its commit point.
type OpenTransaction struct {
	ID       string   `json:"id"`
	StateDir string   `json:"state_dir"`
	Paths    []string `json:"paths"`
}

// Clean is false when any file is edited, foreign, incomplete or missing.
func (r *Report) Clean() bool {
	return !slices.ContainsFunc(r.Files, func(f FileStatus) bool {
		return slices.Contains([]Verdict{Edited, Foreign, Incomplete, Missing}, f.Verdict)
	})
}

// Status says what every file is that a ledger names or that a patch of lib
// has for its target: one script, at most one interpreter start, hashes only.
// It changes nothing. Errors are those of ReadFacts, and *LedgerError.
func Status(ctx context.Context, t Target, w Where, lib []*patches.Patch) (*Report, error) {
	f, err := readFacts(ctx, t, w, lib, reading{walk: true, any: true})
	if err != nil {
		return nil, err
	}
	return f.report()
}

func (f *Facts) report() (*Report, error) {
	r := &Report{Host: f.Host, Python: f.Interpreter, Engines: f.Engines, Live: f.Processes, Files: []FileStatus{}}
	links, targets, wantedBy := map[string]string{}, map[string]string{}, map[string][]string{}
	for i, found := range f.Found {
		targets[found.Real] = f.Asked[i].Target.Name()
		wantedBy[found.Real] = append(wantedBy[found.Real], f.Asked[i].Patch.SHA256())
		if found.Path != found.Real {
			links[found.Real] = found.Path
		}
	}
	for _, file := range f.Files {
		k, err := f.know(file.Path)
		if err != nil {
			return nil, err
		}
		target, wanted := targets[file.Path]
		patched := k.ledger != nil && len(k.ledger.Stack) > 0
		if !file.Exists && !patched {
			continue // once patched, rolled back, and since then uninstalled
		}
		if !wanted && k.ledger == nil && k.verdict != Incomplete {
			continue
		}
		s := FileStatus{Path: file.Path, Link: links[file.Path], Verdict: k.verdict, SHA256: file.SHA256, StateDir: k.state.Path, Claim: k.claim,
			Patches: layerNames(k.stack()), Layers: k.stack(), InScope: wanted || k.ledger != nil && f.inScope(k.ledger) && !f.shadowed(k.ledger), Targets: wantedBy[file.Path],
			PristineVerdict: k.pristineVerdict()}
		if e := f.engineOf(target); e.Name != "" {
			s.Engine, s.EngineVersion = e.Name, e.Version
		} else if k.ledger != nil {
			s.Engine, s.EngineVersion = k.ledger.Engine, k.ledger.EngineVersion
		}
		switch {
		case k.ledger != nil && len(k.stack()) > 0:
			s.PristineSHA256 = k.ledger.PristineSHA256
		case file.Release != nil && file.Release.SHA256 != "":
			s.PristineSHA256 = file.Release.SHA256
		case k.ledger != nil:
			s.PristineSHA256 = k.ledger.PristineSHA256
		case k.verdict == Pristine:
			s.PristineSHA256 = file.SHA256
		}
		r.Files = append(r.Files, s)
	}
	slices.SortFunc(r.Files, func(a, b FileStatus) int { return strings.Compare(a.Path, b.Path) })
	for _, s := range f.States {
		for _, tx := range f.open(s) {
			o := OpenTransaction{ID: tx.ID, StateDir: s.Path}
			for _, file := range tx.Files {
				o.Paths = append(o.Paths, file.Path)
			}
			r.Open = append(r.Open, o)
		}
	}
	return r, nil
}

// pristineVerdict is what the file was before specrun's first change.
func (k known) pristineVerdict() Verdict {
	switch {
	case k.verdict == Pristine || k.verdict == PreEdited:
		return k.verdict
	case k.ledger != nil && (k.verdict == Incomplete || len(k.stack()) > 0):
		return k.ledger.PristineVerdict
	}
	return ""
}
