package experiments

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Begin stores a plan as a sweep of which nothing was measured yet, for a Resume
// elsewhere that makes its launches.
func Begin(ctx context.Context, rec Recorder, p *Plan, sweepID string, now time.Time) error {
	begin, err := sweepPlan(sweepID, p, now.UnixMicro())
	if err != nil {
		return err
	}
	if err := rec.Begin(ctx, begin); err != nil {
		return fmt.Errorf("begin sweep: %w", err)
	}
	return nil
}

// Prepare asks a host for the loads of a plan: what speaks against one is known
// before a server is started for it.
func (p *Plan) Prepare(ctx context.Context, h *Host) error {
	asked := map[BenchPlan]bool{}
	for _, c := range p.All() {
		if asked[c.Bench] {
			continue
		}
		asked[c.Bench] = true
		if err := h.Bench.Prepare(ctx, c.Bench); err != nil {
			return err
		}
	}
	return nil
}

// Secrets reads the values of the variables that the plan's servers get from the
// controller, by the names that these have there. *SecretError: one is not set.
func (p *Plan) Secrets(getenv func(string) (string, bool)) (map[string]string, error) {
	values := map[string]string{}
	for _, c := range p.All() {
		for _, name := range sortedKeys(c.Server.Secrets) {
			from := c.Server.Secrets[name]
			value, ok := getenv(from)
			if !ok {
				return nil, &SecretError{Name: name, From: from}
			}
			values[from] = value
		}
	}
	return values, nil
}

// WrittenSecrets names the secrets that the plan holds as text, as its spec does.
func (p *Plan) WrittenSecrets() []string { return secretNames(literalSecrets(p.All())) }

// PatchRefs lists the patches of all cells, each content once.
func (p *Plan) PatchRefs() []PatchRef {
	var refs []PatchRef
	for _, c := range p.All() {
		for _, ref := range c.Server.Patches {
			if !slices.ContainsFunc(refs, func(o PatchRef) bool { return o.SHA256 == ref.SHA256 }) {
				refs = append(refs, ref)
			}
		}
	}
	return refs
}
