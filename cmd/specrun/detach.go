package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"specrun/configs"
	"specrun/experiments"
	"specrun/experiments/bench"
	"specrun/experiments/detach"
	"specrun/experiments/store"
)

// detachUsage is the help of --detach.
const detachUsage = "let the sweep go on on its host by itself; this command only follows it"

// A sweep that goes on by itself is claimed in the store here for its host, until
// that is known to have ended: nobody goes on with it from here meanwhile.
const detachedClaim = "a specrun that was detached on "

func claimOf(host string) string { return detachedClaim + host }

// detachedOn is the host on which a sweep goes on by itself; "" for any other
// sweep.
func detachedOn(ctx context.Context, results *store.Store, id string) (string, error) {
	holder, _, err := results.Holder(ctx, id)
	host, is := strings.CutPrefix(holder, detachedClaim)
	if !is {
		host = ""
	}
	return host, err
}

// detachAll starts each host's sweep there, and follows all of them.
func (a *app) detachAll(ctx context.Context, results *store.Store, sweeps []hostSweep) error {
	defer a.tick()()
	errs := make([]error, len(sweeps))
	var printing sync.Mutex
	var group errgroup.Group
	for i, s := range sweeps {
		group.Go(func() error {
			errs[i] = a.detachOne(ctx, results, s, len(sweeps) > 1, &printing)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return unwrapOne(errors.Join(errs...))
}

func (a *app) detachOne(ctx context.Context, results *store.Store, s hostSweep, several bool, printing *sync.Mutex) error {
	c, err := a.connect(ctx, s.entry)
	if err != nil {
		return err
	}
	begin := func() (string, error) {
		id := a.newID()
		return id, experiments.Begin(ctx, results, s.plan, id, a.now())
	}
	f, err := a.send(ctx, c, results, s.plan, begin, detach.Job{Wait: s.wait})
	if err != nil {
		return errors.Join(err, c.Close())
	}
	f.several, f.printing, f.next = several, printing, s.next()
	return f.follow(ctx, c)
}

// send starts a sweep on its host. What can be wrong is found before begin, which
// stores the sweep where that is still to be done. The follower is of the sweep
// and has no connection yet.
func (a *app) send(ctx context.Context, c *connection, results *store.Store, plan *experiments.Plan, begin func() (string, error), j detach.Job) (*follower, error) {
	secrets, err := plan.Secrets(a.secret)
	if err != nil {
		return nil, err
	}
	self, err := a.executable()
	if err != nil {
		return nil, err
	}
	a.progress("%s: sending specrun", c.Name())
	worker, err := detach.Push(ctx, c, c.entry.StateDir, selfFirst(self, bench.FindWorker(self, a.flags.workerBinary), a.flags.workerBinary))
	if err != nil {
		return nil, err
	}
	if j.Patches, err = a.packPatches(plan, c.entry); err != nil {
		return nil, err
	}
	host, err := a.onConnection(c)
	if err != nil {
		return nil, err
	}
	if err := plan.Prepare(ctx, host); err != nil {
		return nil, err
	}
	if j.SweepID, err = begin(); err != nil {
		return nil, err
	}
	j.Version, j.From = version, experiments.Controller()
	if j.Store, err = results.ID(ctx, a.newID); err != nil {
		return nil, err
	}
	was, err := detachedOn(ctx, results, j.SweepID)
	if err != nil {
		return nil, err
	}
	// From now on the host may have it, whatever becomes of this command.
	if err := results.Claim(ctx, j.SweepID, claimOf(c.entry.Name), store.Forever); err != nil {
		return nil, err
	}
	dir, err := a.sendJob(ctx, c, results, worker, j, secrets, was != "")
	if err != nil {
		// Nobody has the sweep, unless the connection was lost at the wrong moment, or
		// an earlier process left results there: nobody may go on without them.
		if was == "" && !detach.HostLost(err) && ctx.Err() == nil {
			over := context.WithoutCancel(ctx)
			err = errors.Join(err, results.Cut(over, j.SweepID, a.now().UnixMicro()), results.Claim(over, j.SweepID, claimOf(c.entry.Name), 0))
		}
		return nil, err
	}
	a.saySent(c.Name(), dir, j, plan, len(secrets) > 0)
	f := a.newFollower(results, c.entry, plan, j.SweepID, dir)
	f.fetched = a.now() // there is nothing yet
	return f, nil
}

// secret reads a variable of this command's environment; an empty one is none.
func (a *app) secret(name string) (string, bool) {
	v := a.getenv(name)
	return v, v != ""
}

// selfFirst takes the running program where it fits: an older build of it may lie
// beside. An override is the user's wish.
func selfFirst(self string, others bench.Finder, override string) bench.Finder {
	return func(goos, goarch string) (string, error) {
		if override == "" && goos == runtime.GOOS && goarch == runtime.GOARCH {
			return self, nil
		}
		return others(goos, goarch)
	}
}

// packPatches takes the patches that a plan may need, with the very content that
// it was made with.
func (a *app) packPatches(plan *experiments.Plan, e configs.Host) (packed []detach.Patch, err error) {
	for _, ref := range plan.PatchRefs() {
		name := ref.Name
		if ref.Folder != "" {
			name = ref.Folder
		}
		p, err := a.patchFor(name, e)
		if err != nil {
			return nil, err
		}
		if p.SHA256() != ref.SHA256 {
			return nil, &codedError{code: exitFailed, msg: fmt.Sprintf("patch %s: the plan has content %.12s, here is %.12s", ref.Name, ref.SHA256, p.SHA256()),
				hint: "go on with the specrun (or patches.d) that began the sweep, or begin a new one"}
		}
		one, err := detach.NewPatch(p, ref.Folder)
		if err != nil {
			return nil, err
		}
		packed = append(packed, one)
	}
	return packed, nil
}

// sendJob brings job and results to the host and starts the process there. A
// connection that gets lost meanwhile is for the next resume. wasThere says that
// the sweep was the host's before.
func (a *app) sendJob(ctx context.Context, c *connection, results *store.Store, worker string, j detach.Job, secrets map[string]string, wasThere bool) (dir string, err error) {
	place, err := detach.Prepare(ctx, c, c.entry.StateDir, j.SweepID)
	if err != nil {
		return "", err
	}
	if !wasThere && place.State != detach.Absent && place.State != detach.Running {
		if place, err = a.clearPlace(ctx, c, results, place, j); err != nil {
			return "", err
		}
	}
	// What a process on the host has recorded is newer than what is here.
	file := ""
	if place.State == detach.Absent {
		private, err := os.MkdirTemp("", "specrun-send-")
		if err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(private)) }()
		file = filepath.Join(private, detach.ResultsFile)
		if err := results.Export(ctx, j.SweepID, file); err != nil {
			return "", err
		}
	}
	if err = detach.Send(ctx, c, place, j, file); err == nil {
		err = detach.Start(ctx, c, place, worker, secrets)
	}
	if err != nil {
		cleaning := context.WithoutCancel(ctx)
		return "", errors.Join(err, ignoreLost(detach.Discard(cleaning, c, place)))
	}
	return place.Dir, nil
}

// clearPlace removes what an earlier process, or a start that was refused, left in
// the place of a sweep that went on here meanwhile: the host would go on from that,
// measure again what is here, and neither store could take the other's results. What
// was measured there comes here first; that both went on is an error now, before it
// costs a GPU hour.
func (a *app) clearPlace(ctx context.Context, c *connection, results *store.Store, left detach.Place, j detach.Job) (detach.Place, error) {
	if err := detach.Discard(ctx, c, left); err != nil {
		return left, err
	}
	if left.State != detach.Begun {
		if _, err := fetchSweep(ctx, c, results, left.Dir, j.SweepID); err != nil {
			return left, err
		}
	}
	if _, err := detach.Remove(ctx, c, left.Dir, j.Store, true); err != nil {
		return left, err
	}
	place, err := detach.Prepare(ctx, c, c.entry.StateDir, j.SweepID)
	if err == nil && place.State != detach.Absent {
		err = errors.Join(&codedError{code: exitFailed, msg: fmt.Sprintf("%s: %s is what a specrun of another store left of sweep %s (%s)", c.Name(), left.Dir, j.SweepID, place.State),
			hint: "specrun resume " + j.SweepID + " goes on from here; with that folder moved away, --detach does from there"}, detach.Discard(ctx, c, place))
	}
	return place, err
}

// ignoreLost drops an error that says only that the connection is lost, which
// another one has said already.
func ignoreLost(err error) error {
	if detach.HostLost(err) {
		return nil
	}
	return err
}

// saySent says what was done, and what of it lies where.
func (a *app) saySent(host, dir string, j detach.Job, plan *experiments.Plan, secrets bool) {
	if a.flags.json {
		a.line("detached", struct {
			Sweep  string `json:"sweep"`
			Host   string `json:"host"`
			Folder string `json:"folder"`
		}{j.SweepID, host, dir})
	}
	a.note("sweep %s goes on on %s by itself (%s); Ctrl-C ends only the following", j.SweepID, host, dir)
	if secrets {
		a.note("  the values of its secrets went to the process there, once; they are in no file of it")
	}
	if written := plan.WrittenSecrets(); len(written) > 0 {
		a.note("%s", a.noteText("  note: ", strings.Join(written, ", ")+" written in the spec lies in the results in that folder, which only its owner can read, until the sweep has ended and was fetched"))
	}
	for _, cell := range plan.All() {
		if cell.Bench.Where == "controller" {
			a.note("  note: bench.where: controller means the host itself here; only a sweep without --detach loads the server from this machine")
			break
		}
	}
}
