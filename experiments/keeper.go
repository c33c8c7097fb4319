package experiments

import (
	"context"
	"errors"
	"sync"
	"time"

	"specrun/deploy/server"
	"specrun/experiments/record"
)

var errClaimLost = errors.New("another controller has taken the sweep over")

// keeper renews a launch's leases until it is stopped. When somebody else has
// got one, the launch must end: lost is called with a *failure.
type keeper struct {
	lost    context.CancelCauseFunc
	mu      sync.Mutex
	cancel  context.CancelFunc
	stopped chan struct{}
}

func (k *keeper) start(x *execution, names []string, owner server.Owner) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cancel != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	k.cancel, k.stopped = cancel, make(chan struct{})
	ttl := x.deps.LeaseTTL
	go func() {
		defer close(k.stopped)
		every(ctx, ttl/3, func() bool {
			err := x.shared.Load().Leases.Refresh(ctx, names, owner, ttl)
			var gone *server.LeaseLostError
			if errors.As(err, &gone) {
				k.lost(&failure{class: record.ClassGPUBusy, err: err, ends: true})
				return false
			}
			// A host that does not answer now may answer the next time; a lease
			// does not end while its server lives.
			return true
		})
	}()
}

// stop ends the renewing and waits for it. May be repeated.
func (k *keeper) stop() {
	k.mu.Lock()
	cancel, stopped := k.cancel, k.stopped
	k.mu.Unlock()
	if cancel != nil {
		cancel()
		<-stopped
	}
}

// keepClaim renews the claim on the sweep until stop is called; when another
// controller has it, the context ends with errClaimLost.
func (x *execution) keepClaim(parent context.Context) (ctx context.Context, stop func()) {
	ctx, lost := context.WithCancelCause(parent)
	ticking, cancel := context.WithCancel(context.WithoutCancel(parent))
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		every(ticking, x.deps.LeaseTTL/3, func() bool {
			err := x.deps.Recorder.Claim(ticking, x.sweepID, x.deps.Controller, x.expiry())
			var holder ClaimHolder
			if errors.As(err, &holder) {
				lost(&fatalError{errClaimLost})
				return false
			}
			return true
		})
	}()
	return ctx, func() {
		cancel()
		<-stopped
		lost(nil)
	}
}

// every calls f each d until ctx ends or f says stop.
func every(ctx context.Context, d time.Duration, f func() bool) {
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if !f() {
				return
			}
		}
	}
}

func (x *execution) expiry() int64 { return x.nowUs() + x.deps.LeaseTTL.Microseconds() }

// claim makes this controller the one that works on a sweep. A controller that
// is known to be dead gives way at once. *ClaimedError: another one works on it.
func (x *execution) claim(ctx context.Context, sweepID string) error {
	dead, err := x.tryClaim(ctx, sweepID)
	if dead == "" {
		return err
	}
	// In the name of the dead: only its own claim can be given up that way, and
	// somebody else may do so at the same time.
	var holder ClaimHolder
	if err := x.deps.Recorder.Claim(ctx, sweepID, dead, 0); err != nil && !errors.As(err, &holder) {
		return err
	}
	_, err = x.tryClaim(ctx, sweepID)
	return err
}

// tryClaim names the holder in its error, and as dead when it is known to be.
func (x *execution) tryClaim(ctx context.Context, sweepID string) (dead string, err error) {
	err = x.deps.Recorder.Claim(ctx, sweepID, x.deps.Controller, x.expiry())
	var holder ClaimHolder
	if !errors.As(err, &holder) {
		return "", err
	}
	who, _ := holder.Holder()
	if x.deps.ControllerGone(who) {
		dead = who
	}
	return dead, &ClaimedError{SweepID: sweepID, Controller: who, Err: err}
}
