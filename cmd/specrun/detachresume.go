package main

import (
	"context"
	"errors"
	"math"

	"specrun/experiments"
	"specrun/experiments/detach"
	"specrun/experiments/store"
)

// detachedSweep is a stored sweep that went on on its host by itself, seen from
// here.
type detachedSweep struct {
	a        *app
	c        *connection
	at       detach.Listed
	follower *follower
}

// openDetached looks how such a sweep stands.
func (a *app) openDetached(ctx context.Context, results *store.Store, id, host string) (*detachedSweep, error) {
	plan, err := planOf(ctx, results, id)
	if err != nil {
		return nil, err
	}
	e, err := a.entryNamed(ctx, host)
	if err != nil {
		return nil, err
	}
	c, err := a.connect(ctx, e)
	if err != nil {
		return nil, err
	}
	at, err := detach.Find(ctx, c, e.StateDir, id)
	if err == nil && at.Owner != "" {
		err = &detach.OthersError{Host: c.Name(), Dir: at.Dir, Owner: at.Owner}
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &detachedSweep{a: a, c: c, at: at, follower: a.newFollower(results, e, plan, id, at.Dir)}, nil
}

// again starts a process for a sweep whose last one is gone, or that was here.
func (d *detachedSweep) again(ctx context.Context, j detach.Job) error {
	f := d.follower
	id := func() (string, error) { return f.id, nil }
	sent, err := d.a.send(ctx, d.c, f.results, f.plan, id, j)
	if err != nil {
		return err
	}
	f.dir, f.fetched = sent.dir, sent.fetched
	return nil
}

// resumeDetached follows a sweep that goes on on its host, and starts it again
// where its process is gone; here says that it is to go on from here instead.
// done is false when that is left to do.
func (a *app) resumeDetached(ctx context.Context, results *store.Store, id, host string, o experiments.ResumeOptions, here bool) (done bool, err error) {
	d, err := a.openDetached(ctx, results, id, host)
	if err != nil {
		return false, err
	}
	f := d.follower
	follows, err := d.settle(ctx, o, here)
	if err == nil && !follows {
		if here {
			return false, errors.Join(f.release(ctx), d.c.Close())
		}
		err = d.again(ctx, detach.Job{RetryFailed: o.RetryFailed, Wait: o.Wait})
	}
	if err != nil {
		return true, errors.Join(err, d.c.Close())
	}
	if follows {
		a.note("following sweep %s on %s; Ctrl-C ends only the following", id, host)
	}
	return true, f.follow(ctx, d.c)
}

// settle brings what a process that is gone has left here. follows says that
// nothing is to be started: the sweep goes on, or has ended with nothing left.
func (d *detachedSweep) settle(ctx context.Context, o experiments.ResumeOptions, here bool) (follows bool, err error) {
	f, id, host := d.follower, d.follower.id, d.c.Name()
	switch d.at.State {
	case detach.Running:
		if here {
			return false, usagef("specrun cancel "+id+" ends it first", "sweep %s goes on on %s", id, host)
		}
		return true, nil
	case detach.Ended:
		st, err := detach.Look(ctx, d.c, d.at.Dir, math.MaxInt32)
		if err != nil {
			return false, err
		}
		if st.End != nil && st.End.Summary != nil && st.End.Summary.Missing == 0 && (!o.RetryFailed || st.End.Summary.Failed == 0) {
			return true, nil
		}
		return false, f.bringHome(ctx, d.c)
	case detach.Dead:
		d.a.note("the specrun of sweep %s on %s has ended without a word: it was killed, or the host went down", id, host)
		if err := f.fetch(ctx, d.c); err != nil {
			if here || detach.HostLost(err) {
				return false, err
			}
			d.a.note("not all that it measured was fetched yet: %v", err) // the next process has it nevertheless
		}
	case detach.Absent:
		d.a.note("%s has nothing of sweep %s: going on from what is here", host, id)
		return false, nil
	}
	if here {
		err = f.remove(ctx, d.c, true)
	}
	return false, err
}

// detachStored lets a sweep that ran from here go on on its host.
func (a *app) detachStored(ctx context.Context, results *store.Store, id string, o experiments.ResumeOptions) error {
	plan, err := planOf(ctx, results, id)
	if err != nil {
		return err
	}
	holder, _, err := results.Holder(ctx, id)
	if err == nil && experiments.ControllerGone(holder) {
		err = results.Claim(ctx, id, holder, 0)
	}
	if err != nil {
		return err
	}
	e, err := a.entryNamed(ctx, plan.Host.Name)
	if err != nil {
		return err
	}
	c, err := a.connect(ctx, e)
	if err != nil {
		return err
	}
	f, err := a.send(ctx, c, results, plan, func() (string, error) { return id, nil }, detach.Job{RetryFailed: o.RetryFailed, Wait: o.Wait})
	if err != nil {
		return errors.Join(err, c.Close())
	}
	return f.follow(ctx, c)
}
