package patches

import "fmt"

// Apply gives the content that a file has with the target's change. It is pure:
// src is not changed and the result shares no memory with it.
//
// A file that already holds the change is ErrAlreadyApplied; one that does not
// fit is a *Conflict. t must be one of p.Targets.
func Apply(p *Patch, t Target, src []byte) ([]byte, error) {
	switch t.Kind {
	case KindAppend:
		return applyAppend(p, t, src)
	case KindEdits:
		return applyEdits(p, t, src)
	}
	return nil, fmt.Errorf("%s: kind %q is not supported by this version", p, t.Kind)
}

// Layer is one patch on a file: the patch and which of its targets the file is.
type Layer struct {
	Patch  *Patch
	Target Target
}

// Stack derives a file from its pristine bytes: the layers are applied in
// order. Without layers the result is the pristine bytes. A layer that is
// already there, in pristine or twice in the list, is a *Conflict.
func Stack(pristine []byte, layers []Layer) ([]byte, error) {
	out := append([]byte(nil), pristine...)
	for _, l := range layers {
		next, err := Apply(l.Patch, l.Target, out)
		if err == ErrAlreadyApplied {
			return nil, &Conflict{Patch: l.Patch.String(), Target: l.Target.Name(), Reason: "the file it is to be applied to already holds it"}
		}
		if err != nil {
			return nil, err
		}
		out = next
	}
	return out, nil
}
