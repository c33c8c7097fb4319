package experiments

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"

	"specrun/deploy/server"
)

// A launch's own leases end with it. What a sweep needs from its first launch to
// its end is the patch set: another sweep in between two launches would take
// this one's patches for those it found, and put them back at its end.

// patchLeases are the leases on the patch sets that the plan changes.
func (x *execution) patchLeases() []string {
	var names []string
	for _, c := range x.plan.Cells {
		sum := sha256.Sum256([]byte(c.Server.where().key()))
		names = append(names, server.PatchesLease(hex.EncodeToString(sum[:6])))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// sweepOwner is who holds the leases of the whole sweep.
func (x *execution) sweepOwner() server.Owner {
	return server.Owner{Launch: x.sweepID, Controller: x.deps.Controller, What: "sweep " + x.sweepID}
}

// hold takes the leases on the patch sets and renews them until release is
// called. Whoever resumes the sweep has them at once. When one is lost, the
// context ends. Errors: *server.HeldError when another sweep is going on.
func (x *execution) hold(ctx context.Context, owner server.Owner) (held context.Context, release func(context.Context) error, err error) {
	names := x.patchLeases()
	err = x.patiently(ctx, func() error { return x.host.Leases.Acquire(ctx, names, owner, x.deps.LeaseTTL) })
	if err != nil {
		return nil, nil, err
	}
	held, lost := context.WithCancelCause(ctx)
	ticking, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		every(ticking, x.deps.LeaseTTL/3, func() bool {
			err := x.shared.Load().Leases.Refresh(ticking, names, owner, x.deps.LeaseTTL)
			var gone *server.LeaseLostError
			if errors.As(err, &gone) {
				lost(&fatalError{err})
				return false
			}
			return true // as with a launch's: a host that does not answer now may later
		})
	}()
	return held, func(ctx context.Context) error {
		cancel()
		<-stopped
		lost(nil)
		ctx, done := x.cleaning(ctx)
		defer done()
		return x.patiently(ctx, func() error { return x.host.Leases.Release(ctx, names, owner) })
	}, nil
}
