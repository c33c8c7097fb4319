package deploy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"specrun/patches"
)

// planner makes one plan.
type planner struct {
	facts   *Facts
	change  Change
	options Options
	plan    *Plan
	// layers wanted on a file by Add or Exact, in order.
	wanted map[string][]wantedLayer
	links  map[string]string
}

type wantedLayer struct {
	patch  *patches.Patch
	target patches.Target
}

func (w wantedLayer) layer() Layer {
	return Layer{Name: w.patch.Name, Version: w.patch.Version, Blob: w.patch.SHA256(), Target: w.target.Name()}
}

func (b *planner) build() error {
	if err := b.checkOpen(); err != nil {
		return err
	}
	if err := b.match(); err != nil {
		return err
	}
	paths, err := b.candidates()
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range paths {
		if err := b.file(p); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	b.plan.StateDir = b.facts.StateDir
	if err := b.oneState(); err != nil {
		return err
	}
	if s := b.facts.state(b.plan.StateDir); s != nil {
		b.plan.shared = s.Shared
	}
	b.absent()
	b.live()
	b.plan.leftovers = b.facts.leftovers(b.plan.StateDir)
	return b.checkSpace()
}

// checkOpen refuses to plan on top of a transaction that was cut off.
func (b *planner) checkOpen() error {
	e := &OpenTransactionError{Host: b.facts.Host}
	for _, s := range b.facts.States {
		for _, t := range b.facts.open(s) {
			e.StateDir = s.Path
			e.IDs = append(e.IDs, t.ID)
			for _, f := range t.Files {
				e.Paths = append(e.Paths, f.Path)
			}
		}
	}
	if len(e.IDs) == 0 {
		return nil
	}
	return e
}

// match finds the files of the wanted patches. A target that is not there, or
// lacks what the patch requires, is left out when another one of the patch fits.
func (b *planner) match() error {
	b.wanted, b.links = map[string][]wantedLayer{}, map[string]string{}
	var errs []error
	for _, p := range b.change.wanted() {
		missing := &NoEngineError{Host: b.facts.Host, Python: b.facts.Interpreter, Patch: p.Name}
		var unfit []error
		fits, asked := 0, false
		for i, a := range b.facts.Asked {
			if a.Patch.SHA256() != p.SHA256() {
				continue
			}
			asked = true
			found := b.facts.Found[i]
			if found.Real == "" {
				missing.Missing = append(missing.Missing, MissingTarget{a.Target.Name(), found.Searched, found.Error})
				continue
			}
			if err := b.fits(a.Target, found.Real); err != nil {
				unfit = append(unfit, err)
				continue
			}
			fits++
			b.wanted[found.Real] = append(b.wanted[found.Real], wantedLayer{p, a.Target})
			if found.Path != found.Real {
				b.links[found.Real] = found.Path
			}
		}
		switch {
		case !asked:
			errs = append(errs, fmt.Errorf("%s: no facts were read about %s", b.facts.Host, p.Name))
		case fits == 0 && len(unfit) > 0:
			errs = append(errs, unfit...)
		case fits == 0:
			errs = append(errs, missing)
		default:
			for _, err := range unfit {
				b.note("left out: %v", err)
			}
		}
	}
	return errors.Join(errs...)
}

func (b *planner) fits(t patches.Target, real string) error {
	file := b.facts.file(real)
	if file == nil || !file.Exists {
		reason := "cannot be read"
		if file != nil && file.Error != "" {
			reason += ": " + file.Error
		}
		return &ConflictError{Host: b.facts.Host, Path: real, Reason: reason}
	}
	if len(t.Requires) == 0 {
		return nil
	}
	if err := t.Check(file.Outline); err != nil {
		return &ConflictError{Host: b.facts.Host, Path: real, Err: err}
	}
	return nil
}

// candidates lists the files that the change is about: those of the wanted
// patches, and, when patches go, those that have any.
func (b *planner) candidates() ([]string, error) {
	var paths []string
	for p := range b.wanted {
		paths = append(paths, p)
	}
	if b.change.removes() {
		var left []string
		for _, file := range b.facts.Files {
			k, err := b.facts.know(file.Path)
			if err != nil {
				return nil, err
			}
			switch {
			case k.verdict == Foreign && b.facts.sees(file.Path) && (b.change.RemoveAll || b.change.SetExact):
				paths = append(paths, file.Path) // not ours to undo, and not to be passed over in silence
			case k.ledger == nil || len(k.ledger.Stack) == 0:
			case !b.facts.inScope(k.ledger), b.change.SetExact && b.facts.shadowed(k.ledger):
				left = append(left, file.Path)
			default:
				paths = append(paths, file.Path)
			}
		}
		if len(left) > 0 {
			b.note("left alone, since %s does not see it: %s", b.facts.Interpreter, strings.Join(left, ", "))
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

// oneState makes sure that one ledger folder keeps all that changes.
func (b *planner) oneState() error {
	for i, f := range b.plan.Files {
		if f.Action == Keep {
			continue
		}
		k, err := b.facts.know(f.Path)
		if err != nil {
			return err
		}
		if i > 0 && b.plan.StateDir != b.facts.StateDir && b.plan.StateDir != k.state.Path {
			return &ConflictError{Host: b.facts.Host, Path: f.Path, Reason: fmt.Sprintf("its ledger is in %s, that of other files of this change in %s", k.state.Path, b.plan.StateDir),
				Next: "roll one of them back first"}
		}
		b.plan.StateDir = k.state.Path
	}
	return cleanPath(b.plan.StateDir)
}

// absent notes names to remove that are on no file.
func (b *planner) absent() {
	for _, name := range b.change.Remove {
		on := func(f PlannedFile) bool { return slices.Contains(f.Before, name) }
		if !slices.ContainsFunc(b.plan.Files, on) {
			b.note("%s is not applied", name)
		}
	}
}

// live finds processes that started after the patches they may run were put on.
func (b *planner) live() {
	since := int64(0)
	for _, f := range b.plan.Files {
		if f.Action == Keep || len(f.Before) == 0 {
			continue
		}
		if k, err := b.facts.know(f.Path); err == nil && k.ledger != nil {
			for _, l := range k.ledger.Stack {
				if since == 0 || l.AppliedUs < since {
					since = l.AppliedUs
				}
			}
		}
	}
	for _, p := range b.facts.Processes {
		// A process's start is known to a hundredth of a second.
		if since > 0 && int64(p.Started*1e6)+20_000 >= since {
			b.plan.Live = append(b.plan.Live, p)
		}
	}
}

func (b *planner) note(format string, args ...any) {
	b.plan.Notes = append(b.plan.Notes, fmt.Sprintf(format, args...))
}
