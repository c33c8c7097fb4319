package experiments

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"specrun/deploy/server"
	"specrun/experiments/record"
)

// AbandonedError says that a lease is held for a sweep whose controller has
// ended while its server still runs.
type AbandonedError struct {
	Held    *server.HeldError
	SweepID string
}

func (e *AbandonedError) Error() string {
	return e.Held.Error() + "; that specrun has ended, and its server still runs"
}

func (e *AbandonedError) Unwrap() error { return e.Held }

// Hint says how to get on.
func (e *AbandonedError) Hint() string {
	return "specrun resume " + e.SweepID + " goes on with it"
}

// takeOver releases the leases of the sweep that holds one, when its controller
// is known to have ended and nothing of it runs on the host any more: they would
// end by themselves, only later. done says that it did. Meanwhile the claim on that
// sweep is ours, so that nobody resumes it. Of a sweep that this store does not know
// nothing is known, so its leases stay. Errors are *AbandonedError, or those of the
// host and the store.
func (x *execution) takeOver(ctx context.Context, held *server.HeldError) (done bool, err error) {
	dead := cmp.Or(held.Lease.Parent, held.Lease.Owner.Launch)
	if held.Lease.Alive || dead == "" || dead == x.sweepID || !x.deps.ControllerGone(held.Lease.Owner.Controller) {
		return false, nil
	}
	view, err := x.deps.Recorder.View(ctx, dead)
	if err != nil || view.Sweep.ID != dead {
		return false, ctx.Err() // another store's, or there is no store: a server by hand
	}
	var busy *ClaimedError
	if err := x.claim(ctx, dead); errors.As(err, &busy) {
		return false, nil // it was resumed since
	} else if err != nil {
		return false, err
	}
	defer func() {
		giveUp := x.deps.Recorder.Claim(context.WithoutCancel(ctx), dead, x.deps.Controller, 0)
		if giveUp != nil && !errors.As(giveUp, new(ClaimHolder)) {
			err = errors.Join(err, fmt.Errorf("give up the claim on sweep %s: %w", dead, giveUp))
		}
	}()
	if view, err = x.deps.Recorder.View(ctx, dead); err != nil { // as it is now
		return false, err
	}
	events := map[string][]record.Event{}
	for _, e := range view.Events {
		events[e.LaunchID] = append(events[e.LaunchID], e)
	}
	release := map[string][]string{held.Lease.Owner.Launch: {held.Lease.Name}}
	for _, l := range view.Launches {
		if l.State != record.LaunchActive && l.State != record.LaunchPlanned {
			continue
		}
		st, err := x.host.Server.Look(ctx, l.ID)
		if err != nil {
			return false, err
		}
		if st.Phase == server.Running {
			return false, &AbandonedError{Held: held, SweepID: dead}
		}
		j, err := readJournal(events[l.ID])
		if err != nil {
			return false, err
		}
		if j.lease != nil {
			release[l.ID] = append(release[l.ID], j.lease.Names...)
		}
	}
	for _, owner := range sortedKeys(release) {
		if err := x.host.Leases.Reclaim(ctx, release[owner], server.Owner{Launch: owner, Controller: held.Lease.Owner.Controller}); err != nil {
			return false, err
		}
	}
	x.note(fmt.Sprintf("took %s over from sweep %s, whose specrun has ended and whose server does not run; specrun resume %s goes on with that one",
		x.plan.Host.Name, dead, dead))
	return true, nil
}
