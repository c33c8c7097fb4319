package experiments

import "fmt"

// probeRounds are the pairs of launches of a probe that names no number.
const probeRounds = 3

// ResolveProbe gives the two cells of a probe: the spec's default cell, with the
// values that o.Axes pin, without any patch and with the one named. Launches
// alternate between them (ABBAAB for three rounds), one run each; nothing else
// that the spec says of patches, baseline, rounds, repeats or order counts, and
// the host is left as it was found. Errors as of Resolve.
func ResolveProbe(s *Spec, o Options, patch string) (*Experiment, error) {
	for _, a := range o.Axes {
		for _, k := range a.Keys {
			if k == patchesKey {
				return nil, &ArgError{Arg: a.Arg, Msg: "a probe compares no patch with the one it is given", Advice: "leave patches= out"}
			}
		}
		if !a.Pin() {
			return nil, &ArgError{Arg: a.Arg, Msg: fmt.Sprintf("%d values, but a probe measures one cell", len(a.Rows)), Advice: "give one value"}
		}
	}
	o.Axes = append(o.Axes[:len(o.Axes):len(o.Axes)], Axis{Arg: patch, Keys: []string{patchesKey}, Rows: [][]Scalar{
		{{Text: noPatches, Value: noPatches}}, {{Text: patch, Value: patch}}}})
	o.Single, o.NoBaseline, o.AA = false, true, false
	o.Rounds, o.Repeats = positive(o.Rounds, probeRounds), 1
	e, err := Resolve(s, o)
	if err != nil {
		return nil, err
	}
	if len(e.Cells) != 2 { // a rule over params cannot drop one side only, and an empty patch would be no patch
		return nil, &ArgError{Arg: patch, Msg: "changes nothing: the cell is the same without it", Advice: "specrun patch show " + patch}
	}
	e.Kind, e.Quotes = KindProbe, nil
	return e, nil
}
