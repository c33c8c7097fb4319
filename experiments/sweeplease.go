package experiments

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path"
	"slices"

	"specrun/deploy/server"
)

// A launch's own leases end with it. What a sweep needs from its first launch to
// its end is the patch set: another sweep in between two launches would take
// this one's patches for those it found, and put them back at its end.

// patchLeases are the leases on the patch sets that the plan changes: on the
// folders of the files, since several interpreters may see the same ones. Where
// no file is known the interpreter and its environment stand for them.
func (x *execution) patchLeases(ctx context.Context) ([]string, error) {
	var names []string
	for _, cell := range x.wheres() {
		w := x.whereOf(cell)
		state, err := x.host.Patcher.Current(ctx, w)
		if err != nil && (ctx.Err() != nil || hostLost(err)) {
			return nil, err // any other error is told by the launch that needs the interpreter
		}
		if len(state.Files) == 0 {
			names = append(names, patchLease(w.key()))
		}
		for _, f := range state.Files {
			names = append(names, patchLease(path.Dir(f.Path)))
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func patchLease(what string) string {
	sum := sha256.Sum256([]byte(what))
	return server.PatchesLease(hex.EncodeToString(sum[:6]))
}

// sweepOwner is who holds the leases of the whole sweep.
func (x *execution) sweepOwner() server.Owner {
	return server.Owner{Launch: x.sweepID, Controller: x.deps.Controller, What: "sweep " + x.sweepID}
}

// held are leases that are being renewed.
type held struct {
	x      *execution
	names  []string
	owner  server.Owner
	cancel context.CancelFunc
	ended  chan struct{}
	lost   context.CancelCauseFunc
}

// maxTakeOvers bounds how many sweeps that were killed one after another leave
// their leases behind.
const maxTakeOvers = 5

// hold takes the leases on the patch sets and renews them until stop is called.
// Whoever resumes the sweep has them at once. When one is lost, the context
// ends. A sweep whose controller has ended gives way, see takeOver. Errors:
// *server.HeldError when another sweep is going on.
func (x *execution) hold(ctx context.Context, owner server.Owner) (context.Context, *held, error) {
	h := &held{x: x, owner: owner, ended: make(chan struct{})}
	err := x.patiently(ctx, func() (err error) {
		if h.names, err = x.patchLeases(ctx); err != nil {
			return err
		}
		for range maxTakeOvers {
			err = x.host.Leases.Acquire(ctx, h.names, owner, x.deps.LeaseTTL)
			var by *server.HeldError
			if !errors.As(err, &by) {
				return err
			}
			if done, failed := x.takeOver(ctx, by); failed != nil || !done {
				return cmp.Or(failed, err)
			}
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	ctx, h.lost = context.WithCancelCause(ctx)
	ticking, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h.cancel = cancel
	go func() {
		defer close(h.ended)
		every(ticking, x.deps.LeaseTTL/3, func() bool {
			err := x.shared.Load().Leases.Refresh(ticking, h.names, owner, x.deps.LeaseTTL)
			var gone *server.LeaseLostError
			if errors.As(err, &gone) {
				h.lost(&fatalError{err})
				return false
			}
			return true // as with a launch's: a host that does not answer now may later
		})
	}()
	return ctx, h, nil
}

// stop ends the renewing and waits for it; the leases then end by themselves.
// May be repeated.
func (h *held) stop() {
	h.cancel()
	<-h.ended
	h.lost(nil)
}

// release gives the leases back.
func (h *held) release(ctx context.Context) error {
	h.stop()
	ctx, done := h.x.cleaning(ctx)
	defer done()
	return h.x.patiently(ctx, func() error { return h.x.host.Leases.Release(ctx, h.names, h.owner) })
}
