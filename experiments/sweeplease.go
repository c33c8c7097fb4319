package experiments

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"specrun/deploy/server"
)

// A launch's own leases end with it. What a sweep needs from its first launch to
// its end is its place in the queue for the GPUs, or another one would begin
// between two of its launches, and the patch set, or another sweep would take this
// one's patches for those it found, and put them back at its end. Sweeps that want
// the very same patch set share it: what the first of them found is what the last
// one puts back.

// held are the leases of the whole sweep. One goroutine uses it, beside the one
// that renews them.
type held struct {
	x      *execution
	owner  server.Owner
	queue  []string          // what its launches take
	shares map[string]*share // by interpreter and environment

	cancel context.CancelFunc
	ended  chan struct{}
	lost   context.CancelCauseFunc

	mu    sync.Mutex
	names []string // to be renewed, and released at the end
}

// sweepOwner is who holds the leases of the whole sweep.
func (x *execution) sweepOwner() server.Owner {
	return server.Owner{Launch: x.sweepID, Controller: x.deps.Controller, What: x.forPeople()}
}

// forPeople names the sweep to those who find its leases.
func (x *execution) forPeople() string {
	if x.deps.Detached {
		return server.DetachedSweep + x.sweepID
	}
	return "sweep " + x.sweepID
}

// maxTakeOvers bounds how many sweeps that were killed one after another leave
// their leases behind.
const maxTakeOvers = 5

// hold takes the sweep's leases, in its turn when it may wait, and renews them
// until stop is called. Whoever resumes the sweep has them at once. When one is
// lost, the context ends. A sweep whose controller has ended gives way, see
// takeOver. Errors: *server.HeldError when another sweep is going on.
func (x *execution) hold(ctx context.Context, owner server.Owner) (context.Context, *held, error) {
	h := &held{x: x, owner: owner, ended: make(chan struct{})}
	x.holder, x.held = owner.Launch, h
	err := x.waiting(ctx, nil, func() error {
		return x.patiently(ctx, func() error {
			if err := h.readShares(ctx); err != nil {
				return err
			}
			if err := h.readQueue(ctx); err != nil {
				return err
			}
			var names []string
			var words string
			for key, s := range h.shares {
				names = append(names, s.lease(s.set, owner.Launch)...)
				_, words = setOf(x.wanted(key, 0))
			}
			slices.Sort(names)
			return h.acquire(ctx, slices.Compact(names), words)
		})
	})
	if err != nil {
		h.giveUp(ctx)
		return nil, nil, err
	}
	ctx, h.lost = context.WithCancelCause(ctx)
	ticking, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h.cancel = cancel
	go func() {
		defer close(h.ended)
		every(ticking, x.deps.LeaseTTL/3, func() bool {
			err := x.shared.Load().Leases.Refresh(ticking, h.all(), owner, x.deps.LeaseTTL)
			var gone *server.LeaseLostError
			if errors.As(err, &gone) && slices.Contains(h.all(), gone.Name) {
				h.lost(&fatalError{err})
				return false
			}
			return true // as with a launch's: a host that does not answer now may later
		})
	}()
	return ctx, h, nil
}

// readQueue finds the names that the plan's launches take. Somebody else's server
// takes none.
func (h *held) readQueue(ctx context.Context) error {
	h.queue = nil
	if h.x.plan.attaches() {
		return nil
	}
	for _, c := range h.x.plan.Cells {
		cards, err := h.x.cards(ctx, c.Server)
		if err != nil {
			return err
		}
		h.queue = append(h.queue, server.GPULeases(cards)...)
		if c.Server.Port != 0 {
			h.queue = append(h.queue, server.PortLease(c.Server.Port))
		}
	}
	slices.Sort(h.queue)
	h.queue = slices.Compact(h.queue)
	return nil
}

// acquire takes names beside what is held already, and the place in the queue.
func (h *held) acquire(ctx context.Context, names []string, words string) error {
	x := h.x
	if len(names)+len(h.queue) == 0 {
		return nil
	}
	found, err := h.foundText()
	if err != nil {
		return err
	}
	q := server.LeaseRequest{Names: names, Owner: h.owner, Parent: h.owner.Launch, TTL: x.deps.LeaseTTL, Queue: h.queue, Wait: x.deps.Wait > 0, Found: found, Set: words}
	for range maxTakeOvers {
		var grant server.Grant
		grant, err = x.host.Leases.Acquire(ctx, q)
		if grant.Ticket != "" {
			h.add(grant.Ticket)
		}
		var by *server.HeldError
		if err == nil {
			h.add(names...)
			h.adopt(grant.Sharers)
			return nil
		}
		if !errors.As(err, &by) {
			return err
		}
		if done, failed := x.takeOver(ctx, by); failed != nil || !done {
			return cmp.Or(failed, err)
		}
	}
	return err
}

func (h *held) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.names)
}

func (h *held) add(names ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range names {
		if !slices.Contains(h.names, n) {
			h.names = append(h.names, n)
		}
	}
}

func (h *held) remove(names ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.names = slices.DeleteFunc(h.names, func(n string) bool { return slices.Contains(names, n) })
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
	if len(h.all()) == 0 {
		return nil
	}
	ctx, done := h.x.cleaning(ctx)
	defer done()
	// All of it: an earlier controller may have had another patch set.
	return h.x.patiently(ctx, func() error { return h.x.host.Leases.Release(ctx, nil, h.owner) })
}

// giveUp leaves the queue. What cannot be told now ends by itself within a minute.
func (h *held) giveUp(ctx context.Context) {
	if len(h.all()) == 0 {
		return
	}
	ctx, done := h.x.cleaning(ctx)
	defer done()
	if err := h.x.host.Leases.Release(ctx, nil, h.owner); err != nil {
		h.x.note(fmt.Sprintf("%s: the place in the queue ends by itself: %v", h.x.host.Name, err))
	}
}
