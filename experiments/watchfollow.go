package experiments

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"specrun/deploy/server"
	"specrun/experiments/bench"
	"specrun/experiments/metrics"
	"specrun/remote"
)

//go:embed scripts/newestbench.sh
var newestBenchText string

// errServerEnded ends the following of a log.
var errServerEnded = errors.New("the server has ended")

// view is one server being watched.
type view struct {
	w Watcher
	h WatchHost

	id     server.Identity // of a process that is no launch of ours
	launch string          // of ours; "" else
	dir    string          // its folder

	mu     sync.Mutex // of what follows: log and looks are read side by side
	now    Watched
	log    *metrics.Follower
	last   []string // lines
	part   []byte   // of a line
	skip   bool     // what comes first is half a line
	cursor remote.Cursor
	state  server.State
}

// follow reads log and process until the server ends; nil: ctx ended. A lost
// connection is made anew.
func (v *view) follow(ctx context.Context) (*WatchEnd, error) {
	for {
		err := v.both(ctx)
		switch {
		case errors.Is(err, errServerEnded):
			return v.end(ctx)
		case ctx.Err() != nil:
			return nil, nil
		case !hostLost(err):
			return nil, err
		}
		v.w.OnNote(fmt.Sprintf("%s: the connection is lost, trying again: %v", v.h.Name(), err))
		if err := v.reconnect(ctx, err); err != nil {
			if ctx.Err() != nil {
				return nil, nil
			}
			return nil, err
		}
		v.w.OnNote(v.h.Name() + ": connected again; nothing of the log was missed")
	}
}

func (v *view) reconnect(ctx context.Context, lost error) error {
	v.h.Close() // it is gone
	until := v.w.Now().Add(v.w.Patience)
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		h, err := v.w.Dial(ctx)
		if err == nil {
			v.h = h
			return nil
		}
		if !hostLost(err) || v.w.Now().After(until) {
			return errors.Join(lost, err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// both follows the log and looks at the process, until one of them ends it.
func (v *view) both(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		if err := v.looks(ctx); err != nil {
			cancel(err)
		}
	}()
	err := v.h.Follow(ctx, v.now.Log, v.cursor, v.w.Every, v.take)
	cause := context.Cause(ctx)
	cancel(nil)
	<-looked
	if cause != nil && !hostLost(err) {
		return cause
	}
	return err
}

// looks at the process, and at the benchmark that loads it.
func (v *view) looks(ctx context.Context) error {
	tick := time.NewTicker(max(v.w.Every, 500*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := v.look(ctx); err != nil {
			return err
		}
	}
}

func (v *view) look(ctx context.Context) error {
	switch {
	case v.launch != "":
		st, err := server.Look(ctx, v.h, v.w.StateDir, v.launch)
		if err != nil {
			return err
		}
		if st.Phase != server.Running {
			v.state = st
			return errServerEnded
		}
		return v.load(ctx)
	case v.id.PID != 0:
		_, err := server.Argv(ctx, v.h, v.id)
		if errors.Is(err, server.ErrGone) {
			return errServerEnded
		}
		return err
	}
	return nil
}

// load reads how far the benchmark is that was begun last.
func (v *view) load(ctx context.Context) error {
	res, err := v.h.Run(ctx, remote.Script{Name: "newest-bench", Text: newestBenchText, Vars: []remote.Var{{Name: "DIR", Value: v.dir}}})
	if err != nil {
		return err
	}
	dir := strings.TrimSpace(string(res.Stdout))
	if dir == "" {
		return nil
	}
	p, err := bench.Poll(ctx, v.h, dir)
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	was := v.now
	v.now.Run, v.now.Load = "", ""
	if p.State == bench.StateRunning {
		v.now.Run, v.now.Load = strings.TrimSuffix(strings.TrimPrefix(path.Base(dir), "bench-"), "-warm"), describe(p)
	}
	if was.Run != v.now.Run || was.Load != v.now.Load {
		v.show()
	}
	return nil
}

// end says how a server ended, with what it wrote last.
func (v *view) end(ctx context.Context) (*WatchEnd, error) {
	if err := v.drain(ctx); err != nil {
		return nil, err
	}
	v.log.Close()
	e := &WatchEnd{Host: v.h.Name(), Launch: v.launch, PID: v.now.PID, ExitCode: -1, Last: v.last}
	if v.launch != "" {
		e.ExitCode, e.Signal = v.state.ExitCode, v.state.Signal
	}
	if c := v.log.Crash(); c != nil {
		e.Crash = c.Evidence
	}
	if e.Last == nil {
		e.Last = []string{}
	}
	return e, nil
}
