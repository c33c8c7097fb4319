package experiments

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"specrun/deploy/server"
	"specrun/remote"
)

// NothingToWatchError says that no server of ours runs, or none of the launch asked
// for.
type NothingToWatchError struct {
	Host   string
	Launch string   // that was asked for, "" for any
	Runs   []string // launches that run
}

func (e *NothingToWatchError) Error() string {
	if e.Launch != "" {
		return e.Host + ": no server of launch " + e.Launch + " runs"
	}
	return e.Host + ": no server that specrun started runs"
}

// Hint says what else can be watched.
func (e *NothingToWatchError) Hint() string {
	if len(e.Runs) > 0 {
		return "what runs is " + strings.Join(e.Runs, ", ")
	}
	return "--pid N watches any process, --log PATH any log on the host; specrun server status --host " + e.Host + " lists what serves there"
}

// NoLogError says that there is no such log on the host.
type NoLogError struct{ Host, Path string }

func (e *NoLogError) Error() string { return e.Host + ": there is no log " + e.Path }

// Hint says what to give.
func (e *NoLogError) Hint() string {
	if !path.IsAbs(e.Path) {
		return "--log takes the full path on the host"
	}
	return "--pid N finds the log of a process by itself"
}

// SeveralServersError says that more than one could be meant.
type SeveralServersError struct {
	Host     string
	Launches []string
}

func (e *SeveralServersError) Error() string {
	return fmt.Sprintf("%s: %d servers run: %s", e.Host, len(e.Launches), strings.Join(e.Launches, ", "))
}

// Hint says how to choose.
func (e *SeveralServersError) Hint() string {
	return "name one of them: specrun watch LAUNCH --host " + e.Host
}

// find settles what is watched.
func (v *view) find(ctx context.Context, t WatchTarget) error {
	v.id, v.launch, v.dir, v.cursor = server.Identity{}, "", "", remote.Cursor{}
	v.now = Watched{Host: v.h.Name(), Values: map[string]float64{}}
	v.log, v.last, v.part = nil, nil, nil
	switch {
	case t.Log != "":
		v.now.Log = t.Log
	case t.PID != 0:
		p, err := server.Describe(ctx, v.h, t.PID)
		if err != nil {
			return err
		}
		if p.Log == "" || p.LogGone {
			return fmt.Errorf("%s: process %d has no log that can be read: name it with --log PATH", v.h.Name(), t.PID)
		}
		v.id, v.now.PID, v.now.Log = p.Identity, t.PID, p.Log
	default:
		if err := v.findLaunch(ctx, t.Launch); err != nil {
			return err
		}
	}
	return v.beginAtEnd(ctx)
}

func (v *view) findLaunch(ctx context.Context, id string) error {
	all, err := Servers(ctx, v.h, v.w.StateDir)
	if err != nil {
		return err
	}
	var fit []RunningServer
	var names, runs []string
	for _, s := range all {
		runs = append(runs, s.Launch)
		if strings.HasPrefix(s.Launch, id) {
			fit, names = append(fit, s), append(names, s.Launch)
		}
		if s.Launch == id {
			fit, names = []RunningServer{s}, nil
			break
		}
	}
	switch {
	case len(fit) == 0:
		return &NothingToWatchError{Host: v.h.Name(), Launch: id, Runs: runs}
	case len(fit) > 1:
		return &SeveralServersError{v.h.Name(), names}
	}
	s := fit[0]
	v.launch, v.dir = s.Launch, path.Dir(s.LogPath)
	v.now.Launch, v.now.PID, v.now.Log = s.Launch, s.Identity.PID, s.LogPath
	v.now.Sweep, v.now.Params, v.now.Baseline, v.now.Controller = s.Sweep, s.Params, s.Baseline, s.Controller
	return nil
}

// nextLaunch waits for the server that a sweep starts after the one that ended;
// "" when the sweep is not at work any more.
func (v *view) nextLaunch(ctx context.Context) (string, error) {
	if v.now.Sweep == "" {
		return "", nil
	}
	for {
		all, err := Servers(ctx, v.h, v.w.StateDir)
		if err != nil {
			return "", err
		}
		for _, s := range all {
			if s.Sweep == v.now.Sweep && s.Launch != v.launch && s.State != ServerStopping {
				return s.Launch, nil
			}
		}
		working, err := sweepWorks(ctx, v.h, v.w.StateDir, v.now.Sweep)
		if err != nil || !working {
			return "", err
		}
		select {
		case <-ctx.Done():
			return "", nil
		case <-time.After(v.w.Every):
		}
	}
}

// launchOfSweep waits for a server of the sweep that is at work on the host;
// nothing, when there is none.
func (v *view) launchOfSweep(ctx context.Context, nothing error) (string, error) {
	leases, err := server.Leases(ctx, v.h, v.w.StateDir)
	if err != nil {
		return "", err
	}
	for _, l := range leases {
		if !strings.HasPrefix(l.Name, "patches-") || l.Expired || ControllerGone(l.Owner.Controller) {
			continue
		}
		v.now.Sweep = l.Owner.Launch
		v.w.OnNote(fmt.Sprintf("%s: %s is between two launches", v.h.Name(), firstOf(l.Owner.What, "sweep "+v.now.Sweep)))
		if launch, err := v.nextLaunch(ctx); err != nil || launch != "" {
			return launch, err
		}
	}
	return "", nothing
}

// sweepWorks says that a sweep holds a lease on the host, and that its controller
// is not known to have ended.
func sweepWorks(ctx context.Context, h RemoteHost, stateDir, sweep string) (bool, error) {
	leases, err := server.Leases(ctx, h, stateDir)
	if err != nil {
		return false, err
	}
	for _, l := range leases {
		if l.Owner.Launch == sweep && !l.Expired && !ControllerGone(l.Owner.Controller) {
			return true, nil
		}
	}
	return false, nil
}
