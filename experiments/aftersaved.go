package experiments

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"specrun/deploy/server"
	"specrun/experiments/record"
)

// savedFor bounds how long before a sweep a server may have been stopped for the
// sweep's end to start it again: what was stopped for another day's work is not this
// sweep's to bring back.
const savedFor = 24 * time.Hour

// Restores tells that the end of a sweep that begins at began, by the controller's
// clock, starts s again.
func Restores(s server.Saved, began time.Time) bool {
	return s.Pending() && s.Stopped.After(began.Add(-savedFor))
}

// anotherSweep is one that works on the host or waits for it, by its place in the
// queue; "" when there is none.
func (x *execution) anotherSweep(ctx context.Context) (string, error) {
	var leases []server.Lease
	err := x.patiently(ctx, func() (err error) {
		leases, err = x.host.Foreign.Leases(ctx)
		return err
	})
	for _, l := range leases {
		if l.Queued() && l.Owner.Launch != x.holder && !(l.Expired && !l.Alive) {
			return fmt.Sprintf("%s of %s", firstOf(l.Owner.What, l.Owner.Launch), l.Owner.Who()), err
		}
	}
	return "", err
}

// savedHere are the servers that this sweep's end starts again; of the others it
// says why not.
func (x *execution) savedHere(ctx context.Context, all []server.Saved) ([]server.Saved, error) {
	all = slices.DeleteFunc(slices.Clone(all), func(s server.Saved) bool { return !s.Pending() || x.ends.saved[s.ID] })
	if len(all) == 0 {
		return nil, nil
	}
	view, err := x.deps.Recorder.View(ctx, x.sweepID)
	if err != nil {
		return nil, fmt.Errorf("read when the sweep began: %w", err)
	}
	other, err := x.anotherSweep(ctx)
	if err != nil {
		return nil, &fatalError{err}
	}
	var mine []server.Saved
	for _, s := range all {
		why := ""
		switch {
		case !Restores(s, time.UnixMicro(view.Sweep.CreatedUs)):
			why = "it was stopped more than a day before this sweep"
		case other != "":
			why = "another sweep works on the host or waits for it (" + other + "), whose end starts it unless its after: says otherwise"
		default:
			mine = append(mine, s)
			continue
		}
		x.note(fmt.Sprintf("%s: the server saved as %s was not started again: %s; specrun server start --saved %s --host %s does", x.host.Name, s.ID, why, s.ID, x.host.Name))
	}
	return mine, nil
}

// startSaved starts the servers again that specrun stopped on this host and keeps,
// those that are for this sweep to start.
func (x *execution) startSaved(ctx context.Context) error {
	if x.host.Foreign == nil {
		return nil
	}
	var all []server.Saved
	err := x.patiently(ctx, func() (err error) {
		all, err = x.host.Foreign.Saved(ctx)
		return err
	})
	if err != nil {
		return &fatalError{err}
	}
	mine, err := x.savedHere(ctx, all)
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range mine {
		if err := x.startOneSaved(ctx, s); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (x *execution) startOneSaved(ctx context.Context, s server.Saved) error {
	a := x.last
	launch := x.deps.IDs()
	if err := a.record(ctx, "", stepAfter, record.EventIntent, map[string]string{"saved": s.ID, "launch": launch}, record.Change{}); err != nil {
		return err
	}
	a.progress(stepAfter, PhaseBegin, "starting the server again that ran before: "+oneLine(firstOf(s.About, quoteArgv(a.hider().argv(s.Argv)))))
	var r *Restarted
	err := x.patiently(ctx, func() (err error) {
		r, err = x.host.Foreign.Restart(ctx, s.ID, RestartOptions{Launch: launch, Controller: x.deps.Controller, Parent: x.holder, LeaseTTL: x.deps.LeaseTTL, Poll: x.deps.Poll})
		return err
	})
	if why, hint := notOurs(err); why != "" {
		x.note(why + "; " + hint)
		a.progress(stepAfter, PhaseNote, why)
		return nil
	}
	if err != nil {
		a.progress(stepAfter, PhaseFailed, err.Error())
		return &fatalError{&NotRestoredError{Host: x.host.Name, Saved: s.ID, Err: err}}
	}
	x.left = append(x.left, Left{After: AfterRestore, Launch: r.Launch, Identity: r.Identity, Port: s.Port, URL: r.URL, LogPath: r.LogPath, Saved: s.ID})
	if err := a.record(ctx, "", stepAfter, record.EventDone, map[string]any{"saved": s.ID, "launch": r.Launch, "url": r.URL, "identity": r.Identity}, record.Change{}); err != nil {
		return err
	}
	a.progress(stepAfter, PhaseDone, "")
	return nil
}

// notOurs is why a saved server is not to be started from here, so that no resume
// could do it either; "" when that is not what err says.
func notOurs(err error) (why, hint string) {
	owner, service := new(server.OwnerError), new(server.ServiceError)
	switch {
	case errors.As(err, &owner):
		return owner.Error(), owner.Hint()
	case errors.As(err, &service):
		return service.Error(), service.Hint()
	}
	return "", ""
}

// NotRestoredError says that the server which ran before a sweep does not run
// again.
type NotRestoredError struct {
	Host, Saved string
	Err         error
}

func (e *NotRestoredError) Error() string {
	return fmt.Sprintf("%s: the server that was saved as %s does not run again: %v", e.Host, e.Saved, e.Err)
}

func (e *NotRestoredError) Unwrap() error { return e.Err }

// Hint says what to do next.
func (e *NotRestoredError) Hint() string {
	return "specrun server start --saved " + e.Saved + " --host " + e.Host + " tries again, specrun server saved forget " + e.Saved + " gives it up"
}
