package deploy

import (
	"context"
	"errors"
	"slices"

	"specrun/patches"
)

// DoOptions are the options of a plan and of its execution.
type DoOptions struct {
	Options
	ApplyOptions
	DryRun bool // read and plan only; the outcome is nil
	// Library are patches whose targets are looked at when patches are removed,
	// beside the claims in the folders of known engines: what another user's
	// ledger says about a file counts also when the patch is not at hand.
	Library []*patches.Patch
}

// warmer is a target that can make its next script start sooner while one runs.
type warmer interface{ WarmRun(ctx context.Context) }

// Do makes a change hold on t: it reads the facts, finishes or undoes what an
// earlier command left open, plans and applies. When another command was
// faster it plans once more. A dry run changes nothing and reports an open
// transaction as *OpenTransactionError. Errors are those of ReadFacts, NewPlan,
// Recover and Apply.
func Do(ctx context.Context, t Target, w Where, c Change, o DoOptions) (*Plan, *Outcome, error) {
	if warm, ok := t.(warmer); ok && !o.DryRun {
		warm.WarmRun(ctx)
	}
	looked := slices.Clone(c.wanted())
	if c.removes() {
		for _, p := range o.Library {
			if !slices.ContainsFunc(looked, func(x *patches.Patch) bool { return x.SHA256() == p.SHA256() }) {
				looked = append(looked, p)
			}
		}
	}
	var recovered *Recovered
	for try := 1; ; try++ {
		o.event("facts", t.Name())
		f, err := readFacts(ctx, t, w, looked, reading{full: true, walk: c.removes(), any: len(c.wanted()) == 0})
		if err != nil {
			return nil, nil, err
		}
		p, err := NewPlan(f, c, o.Options)
		var open *OpenTransactionError
		if errors.As(err, &open) && !o.DryRun && recovered == nil {
			r, err := recoverFacts(ctx, t, f, RecoverOptions{ApplyOptions: o.ApplyOptions, Force: o.Force})
			if err != nil {
				return nil, nil, err
			}
			recovered = r
			continue
		}
		if err != nil || o.DryRun {
			return p, nil, err
		}
		out, err := Apply(ctx, t, p, o.ApplyOptions)
		var drift *DriftError
		if (errors.As(err, &drift) && drift.Verdict == "" || errors.As(err, &open)) && try < 3 {
			continue
		}
		if err == nil && !recovered.empty() {
			out.Recovered = recovered
		}
		return p, out, err
	}
}
