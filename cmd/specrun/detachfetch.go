package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"specrun/configs"
	"specrun/experiments"
	"specrun/experiments/detach"
	"specrun/experiments/store"
)

// fetched is what a fetch brought.
type fetched struct {
	store.Merged
	lost []string // kept files that the host cannot read any more, in words
}

// fetchSweep brings what a host has of a sweep into the store here: kept files
// first, so that none is listed that is not here.
func fetchSweep(ctx context.Context, h detach.Host, results *store.Store, dir, id string) (got fetched, err error) {
	private, err := os.MkdirTemp("", "specrun-fetch-")
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(private)) }()
	file := filepath.Join(private, detach.ResultsFile)
	if err := detach.Fetch(ctx, h, dir, file); err != nil {
		return got, err
	}
	from, err := store.Open(ctx, file)
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	missing, err := results.Missing(ctx, from, id)
	if err != nil {
		return got, err
	}
	keep := func(sha string, r io.Reader) error { return results.Keep(ctx, sha, r) }
	lost, err := detach.FetchFiles(ctx, h, dir, missing, keep)
	if err != nil {
		return got, err
	}
	got.Merged, err = results.Merge(ctx, from, id, sortedKeys(lost)...)
	for _, a := range got.Without {
		got.lost = append(got.lost, fmt.Sprintf("%s of launch %s is lost on %s: %s", a.Name, a.LaunchID, h.Name(), lost[a.SHA256]))
	}
	return got, err
}

// fetchHost brings all sweeps here that went on on a host by themselves. Those
// that have ended, and that began here, are removed there.
func (a *app) fetchHost(ctx context.Context, c *connection, results *store.Store) (found []detach.Listed, err error) {
	all, err := a.listDetached(ctx, c)
	if err != nil {
		return nil, err
	}
	return a.fetchSome(ctx, c, results, all)
}

// listDetached lists the sweeps that went on on a host by themselves and that we may
// look into. Of those of other users it says whose they are.
func (a *app) listDetached(ctx context.Context, c *connection) (ours []detach.Listed, err error) {
	all, err := detach.List(ctx, c, c.entry.StateDir)
	if others := (*detach.OthersError)(nil); errors.As(err, &others) {
		a.note("%v; %s", others, others.Hint())
		return nil, nil
	}
	for _, l := range all {
		if l.Owner != "" {
			a.note("%s: sweep %s is %s's (%s): ask %s, who alone can follow, fetch and end it", c.Name(), l.SweepID, l.Owner, l.State, l.Owner)
			continue
		}
		ours = append(ours, l)
	}
	return ours, err
}

func (a *app) fetchSome(ctx context.Context, c *connection, results *store.Store, some []detach.Listed) (found []detach.Listed, err error) {
	var failed []error
	for _, l := range some {
		if l.State == detach.Absent || l.State == detach.Begun {
			continue
		}
		if err := a.fetchListed(ctx, c, results, l); err != nil {
			failed = append(failed, fmt.Errorf("sweep %s: %w", l.SweepID, err))
			continue
		}
		found = append(found, l)
	}
	return found, errors.Join(failed...)
}

func (a *app) fetchListed(ctx context.Context, c *connection, results *store.Store, l detach.Listed) error {
	ours, err := detachedOn(ctx, results, l.SweepID)
	if err != nil {
		return err
	}
	m, err := fetchSweep(ctx, c, results, l.Dir, l.SweepID)
	if err != nil {
		if now, held := detachedOn(ctx, results, l.SweepID); held == nil && ours != "" && now == "" {
			return nil // a follower has brought it home meanwhile
		}
		if at, lookErr := detach.Look(ctx, c, l.Dir, math.MaxInt32); lookErr == nil && at.State == detach.Absent {
			a.note("%s: sweep %s was fetched and removed meanwhile by the store that it was begun with", c.Name(), l.SweepID)
			return nil
		}
		return err
	}
	a.note("%s: fetched sweep %s (%s)%s", c.Name(), l.SweepID, l.State, news(m.Merged))
	for _, text := range m.lost {
		a.note("%s", a.noteText("  note: ", text))
	}
	if l.State != detach.Ended {
		if ours == "" && !m.Stale { // else it went on here, and what is there is left over
			return results.Claim(ctx, l.SweepID, claimOf(c.entry.Name), store.Forever)
		}
		return nil
	}
	if err := results.Cut(ctx, l.SweepID, a.now().UnixMicro()); err != nil { // as bringHome does
		return err
	}
	if ours != "" {
		if err := results.Claim(ctx, l.SweepID, claimOf(c.entry.Name), 0); err != nil {
			return err
		}
	}
	store, err := results.ID(ctx, a.newID)
	if err == nil {
		_, err = detach.Remove(ctx, c, l.Dir, store, false)
	}
	return err
}

// news says in words what a merge brought.
func news(m store.Merged) string {
	switch {
	case m.Stale:
		return ": less than is here"
	case m.Runs == 0 && m.Events == 0:
		return ": nothing new"
	}
	return ": " + counted(m.Runs, "run") + " new or changed"
}

// refresh fetches from the hosts that the command line names; none: nothing.
func (a *app) refresh(ctx context.Context) error {
	if len(a.flags.hosts) == 0 {
		return nil
	}
	results, err := a.openStore(ctx, "")
	if err != nil {
		return err
	}
	defer results.Close()
	return a.eachHost(ctx, func(ctx context.Context, c *connection) error {
		_, err := a.fetchHost(ctx, c, results)
		return err
	})
}

// noteDetached says of which sweeps the results here may be old.
func (a *app) noteDetached(ctx context.Context, results *store.Store) error {
	held, err := results.HeldForever(ctx)
	if err != nil {
		return err
	}
	for _, id := range sortedKeys(held) {
		if host, is := strings.CutPrefix(held[id], detachedClaim); is {
			a.note("sweep %s went on on %s by itself when it was fetched last; --host %s fetches again, specrun resume %s follows it", id, host, host, id)
		}
	}
	return nil
}

// watchDetached follows the sweeps that go on on a host by themselves, when there
// are any, and fetches those that have ended since.
func (a *app) watchDetached(ctx context.Context, e configs.Host) (done bool, err error) {
	c, err := a.connect(ctx, e)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	all, err := a.listDetached(ctx, c)
	if err != nil || len(all) == 0 {
		return false, err
	}
	results, err := a.openStore(ctx, "")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, results.Close()) }()
	// Those that go on are fetched while they are followed.
	goOn := func(l detach.Listed) bool {
		_, unknown := results.SweepID(ctx, l.SweepID)
		return l.State == detach.Running && unknown == nil
	}
	if _, err := a.fetchSome(ctx, c, results, slices.DeleteFunc(slices.Clone(all), goOn)); err != nil {
		return false, err
	}
	found := slices.DeleteFunc(all, func(l detach.Listed) bool { return l.State != detach.Running })
	errs := make([]error, len(found))
	var printing sync.Mutex
	var group errgroup.Group
	for i, l := range found {
		group.Go(func() error {
			errs[i] = a.followListed(ctx, results, e, l, len(found) > 1, &printing)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return false, err
	}
	return len(found) > 0, unwrapOne(errors.Join(errs...))
}

func (a *app) followListed(ctx context.Context, results *store.Store, e configs.Host, l detach.Listed, several bool, printing *sync.Mutex) error {
	plan, err := planOf(ctx, results, l.SweepID)
	if err != nil {
		return err
	}
	c, err := a.connect(ctx, e)
	if err != nil {
		return err
	}
	f := a.newFollower(results, e, plan, l.SweepID, l.Dir)
	f.several, f.printing = several, printing
	a.note("following sweep %s on %s; Ctrl-C ends only the following", l.SweepID, e.Name)
	return f.follow(ctx, c)
}

// planOf reads the plan of a stored sweep.
func planOf(ctx context.Context, results *store.Store, id string) (*experiments.Plan, error) {
	view, err := results.View(ctx, id)
	if err != nil {
		return nil, err
	}
	plan, err := experiments.DecodePlan(view.Sweep.Plan)
	if err != nil {
		return nil, fmt.Errorf("sweep %s: %w", id, err)
	}
	return plan, nil
}
