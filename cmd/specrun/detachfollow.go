package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"specrun/configs"
	"specrun/experiments"
	"specrun/experiments/detach"
	"specrun/experiments/store"
)

// fetchEvery is how often results are fetched while a sweep goes on, at most, and
// fetchShare how much of the time that may take.
const (
	fetchEvery = 10 * time.Second
	fetchShare = 0.1
)

// follower shows a sweep that goes on on its host by itself, and brings its
// results here.
type follower struct {
	a        *app
	results  *store.Store
	entry    configs.Host
	plan     *experiments.Plan
	id       string
	dir      string // on the host
	seen     *watch
	cells    []experiments.Cell
	several  bool        // others are followed beside it
	printing *sync.Mutex // while its end is told; nil: nobody else prints
	next     string      // what is useful after it
	cancel   bool        // it is being ended
	held     bool        // the store here had the host's claim on it when the following began

	fetched time.Time     // when results came last
	took    time.Duration // how long that took
	trouble string        // why they did not come, when that was said
	lost    []string      // what was said to be lost
}

func (a *app) newFollower(results *store.Store, e configs.Host, plan *experiments.Plan, id, dir string) *follower {
	return &follower{a: a, results: results, entry: e, plan: plan, id: id, dir: dir, cells: plan.All(), next: listRuns}
}

// follow shows the sweep until it has ended, brings all of it here, and tells how
// it ended as if it had run here. It closes the connection. When ctx ends, only
// the following does.
func (f *follower) follow(ctx context.Context, c *connection) error {
	a := f.a
	left := fmt.Sprintf("leaving: sweep %s goes on on %s", f.id, f.entry.Name)
	if f.several {
		left = "leaving: the sweeps go on on their hosts"
	}
	a.stopping.Store(&left)
	f.seen = a.newWatch(f.plan, f.several)
	f.seen.estimate = 0 // since when it runs, the first event says
	holder, err := detachedOn(ctx, f.results, f.id)
	if err != nil {
		return errors.Join(f.explain(ctx, err), c.Close())
	}
	f.held = holder != ""
	if f.fetched.IsZero() {
		if err := f.tryFetch(ctx, c); err != nil && !detach.HostLost(err) {
			return errors.Join(f.explain(ctx, err), c.Close())
		}
	}
	st, err := detach.Follower{Dir: f.dir, Dial: f.dial, On: f.on, Lost: f.cut}.Follow(ctx, c)
	if err != nil {
		return f.explain(ctx, err)
	}
	return f.conclude(ctx, st)
}

func (f *follower) dial(ctx context.Context) (detach.Connection, error) {
	return f.a.connect(ctx, f.entry)
}

func (f *follower) cut(err error) {
	f.a.note("%s: connection lost, trying again; the sweep goes on (%v)", f.entry.Name, err)
}

// on shows an event. Results that came are fetched, but not all the time.
func (f *follower) on(ctx context.Context, h detach.Host, e detach.Event, now bool) error {
	if e.Began != "" {
		if f.seen.launch == 0 {
			f.seen.begin, f.seen.estimate = f.a.now().Add(-e.Ago), time.Duration(f.plan.Estimate.Seconds)*time.Second
		}
		return nil
	}
	f.seen.show(e.Progress(f.id, f.entry.Name, f.cells))
	if now || e.Result == nil {
		return nil
	}
	every := max(fetchEvery, time.Duration(float64(f.took)/fetchShare))
	if f.a.now().Sub(f.fetched) < every {
		return nil
	}
	return f.tryFetch(ctx, h)
}

// tryFetch is fetch while the sweep goes on: that results do not come yet, as when
// a disk is full, is said once and ends no following. A lost connection does not
// count as that.
func (f *follower) tryFetch(ctx context.Context, h detach.Host) error {
	err := f.fetch(ctx, h)
	if err == nil || detach.HostLost(err) || ctx.Err() != nil {
		return err
	}
	if text := err.Error(); text != f.trouble {
		f.trouble = text
		f.a.note("%s: results of sweep %s do not come yet, trying again: %s", f.entry.Name, f.id, text)
	}
	return nil
}

// fetch brings what the host has by now.
func (f *follower) fetch(ctx context.Context, h detach.Host) error {
	begin := f.a.now()
	got, err := fetchSweep(ctx, h, f.results, f.dir, f.id)
	for _, text := range got.lost {
		if !slices.Contains(f.lost, text) {
			f.lost = append(f.lost, text)
			f.a.note("%s", f.a.noteText("note: ", text))
		}
	}
	f.fetched = f.a.now()
	f.took = f.fetched.Sub(begin)
	if err != nil && !f.gone(ctx, err) {
		return err
	}
	return nil
}

// gone says that another follower has fetched all of it and removed the folder:
// it gave up the claim then. Where there was none that says nothing, and what the
// host has must not be taken for fetched.
func (f *follower) gone(ctx context.Context, err error) bool {
	host, held := detachedOn(ctx, f.results, f.id)
	return f.held && !detach.HostLost(err) && held == nil && host == ""
}

// explain says what the end of the following does not end.
func (f *follower) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &codedError{code: exitInterrupted, msg: fmt.Sprintf("sweep %s goes on on %s: only the following has ended", f.id, f.entry.Name),
			hint: fmt.Sprintf("specrun resume %s follows it again, specrun cancel %s ends it", f.id, f.id)}
	}
	if detach.HostLost(err) {
		f.a.note("sweep %s goes on on %s by itself; specrun resume %s follows it again", f.id, f.entry.Name, f.id)
	}
	return err
}

// conclude brings the rest here and tells the end.
func (f *follower) conclude(ctx context.Context, st detach.Status) error {
	a := f.a
	switch st.State {
	case detach.Dead, detach.Begun:
		c, err := a.connect(ctx, f.entry)
		if err == nil {
			err = errors.Join(f.fetch(ctx, c), c.Close()) // what it had measured
		}
		if err != nil {
			a.note("what sweep %s measured last was not fetched: %v", f.id, err)
		}
		return &codedError{code: exitFailed, msg: fmt.Sprintf("the specrun of sweep %s on %s has ended without a word: it was killed, or the host went down", f.id, f.entry.Name),
			hint: fmt.Sprintf("specrun resume %s goes on with it there, specrun resume %s --here from here; %s/specrun.log on %s has what it said", f.id, f.id, f.dir, f.entry.Name)}
	case detach.Absent:
		return f.concludeElsewhere(ctx)
	}
	c, err := a.connect(ctx, f.entry)
	if err != nil {
		return f.explain(ctx, err)
	}
	gone, err := f.bringHomeOrGone(ctx, c)
	if err = errors.Join(err, c.Close()); err != nil {
		return f.explain(ctx, unwrapOne(err))
	}
	if gone {
		return f.concludeElsewhere(ctx)
	}
	return f.told(ctx, st.End)
}

// bringHomeOrGone is bringHome where the store that the sweep was begun with may be
// quicker, and remove the folder.
func (f *follower) bringHomeOrGone(ctx context.Context, h detach.Host) (gone bool, err error) {
	if err = f.bringHome(ctx, h); err == nil || detach.HostLost(err) {
		return false, err
	}
	if at, lookErr := detach.Look(ctx, h, f.dir, math.MaxInt32); lookErr == nil && at.State == detach.Absent {
		return true, nil
	}
	return false, err
}

// bringHome fetches a sweep that has ended for the last time; then the folder on
// the host is removed, and the sweep is one like any other.
func (f *follower) bringHome(ctx context.Context, h detach.Host) error {
	if err := f.fetch(ctx, h); err != nil {
		return err
	}
	// A process that failed before it could say so has begun nothing.
	if err := f.results.Cut(ctx, f.id, f.a.now().UnixMicro()); err != nil {
		return err
	}
	// The claim first: whoever finds the folder gone must see why. A folder that
	// stays goes with the next fetch from the host.
	if err := f.release(ctx); err != nil {
		return err
	}
	return f.remove(ctx, h, false)
}

// remove removes the folder on the host, and says when it stays there: it is another
// store's.
func (f *follower) remove(ctx context.Context, h detach.Host, dead bool) error {
	store, err := f.results.ID(ctx, f.a.newID)
	if err != nil {
		return err
	}
	is, err := detach.Remove(ctx, h, f.dir, store, dead)
	if err == nil && is != detach.Absent && is != detach.Running {
		f.a.note("%s stays on %s: the sweep was begun with another store; what was measured in it is here", f.dir, f.entry.Name)
	}
	return err
}

// release gives up the claim of the host. Another follower may have done so.
func (f *follower) release(ctx context.Context) error {
	if host, err := detachedOn(ctx, f.results, f.id); err != nil || host == "" {
		return err
	}
	return f.results.Claim(ctx, f.id, claimOf(f.entry.Name), 0)
}

// told tells the end that the process on the host has left.
func (f *follower) told(ctx context.Context, end *detach.End) error {
	if f.printing != nil {
		f.printing.Lock()
		defer f.printing.Unlock()
	}
	if end == nil { // it was about to say so when the host went down
		return &codedError{code: exitFailed, msg: "sweep " + f.id + " has ended and does not say how", hint: "specrun show " + f.id + " has what it measured"}
	}
	var err error
	if end.Error != "" {
		err = &codedError{code: end.Exit, msg: f.entry.Name + ": " + end.Error, hint: end.Hint}
		if f.cancel && end.Exit >= exitInterrupted {
			err = nil // as was asked for
		}
	}
	if f.cancel && end.Summary != nil {
		return f.a.concludeEnded(f.results, end.Summary, err, time.Duration(end.AtUs-end.BeganUs)*time.Microsecond)
	}
	return f.a.conclude(ctx, f.results, end.Summary, err, time.Duration(end.AtUs-end.BeganUs)*time.Microsecond, f.next)
}

// concludeElsewhere tells of a sweep that another follower has brought home.
func (f *follower) concludeElsewhere(ctx context.Context) error {
	host, err := detachedOn(ctx, f.results, f.id)
	if err != nil {
		return err
	}
	if host != "" {
		return &codedError{code: exitFailed, msg: fmt.Sprintf("%s has nothing of sweep %s any more: %s is gone, and not all of it was fetched by this store", f.entry.Name, f.id, f.dir),
			hint: fmt.Sprintf("another store may have it, when its specrun followed the sweep; specrun resume %s --here measures what is missing here", f.id)}
	}
	f.a.note("sweep %s has ended; another specrun has brought its results here", f.id)
	return f.a.showSweep(ctx, f.results, f.id)
}
