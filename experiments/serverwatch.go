package experiments

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"specrun/deploy/server"
	"specrun/experiments/record"
	"specrun/experiments/trust"
)

const (
	// quickStall is how long no token may come before the server's processes are
	// looked at; bench.stall decides alone while they are seen to work.
	quickStall = 5 * time.Second
	// A crash sign in the log may be followed by the line that says why.
	crashSettles = time.Second
	// logChunk is read at a time, logMost at one look.
	logChunk = 256 << 10
	logMost  = 4 << 20
	// restartWait is how long a port that nobody listens on any more is watched.
	restartWait = 3 * time.Second
)

// serverWatch looks at the server of a launch from its readiness on: its log,
// and when nothing comes out of it, its processes and its port. It disturbs a
// benchmark as little as it can.
type serverWatch struct {
	a       *attempt
	log     server.Readiness // what it has read of the log; nil: the engine cannot tell
	at      int64            // next byte to read
	crash   *server.Crash
	crashAt time.Time
	moved   server.Movement
	lastUse time.Time // of moved
}

// watching begins the watch where the wait for readiness ended. A controller that
// took the launch up reads its log from the beginning.
func (a *attempt) watching() *serverWatch {
	if a.watcher == nil {
		w := &serverWatch{a: a, log: a.readiness, at: a.ready.LogOffset}
		if w.log == nil {
			w.log = a.x.engine.Readiness(a.cfg)
			if a.cfg.Attach == nil { // what somebody else's server wrote before is no matter
				w.at = 0
			}
		}
		a.watcher = w
	}
	return a.watcher
}

// look is a *failure when the server cannot go on with a load. silent is for how
// long no token has come, stall the most that is allowed.
func (w *serverWatch) look(ctx context.Context, silent, stall time.Duration) error {
	if err := w.a.alive(ctx); err != nil {
		return err
	}
	if err := w.read(ctx); err != nil {
		return err
	}
	if w.crash != nil && time.Since(w.crashAt) > crashSettles {
		return w.crashed(*w.crash, "its log tells of a crash")
	}
	quick := quickStall
	if stall > 0 {
		quick = min(quick, stall/2)
	}
	if silent < quick {
		return nil
	}
	if time.Since(w.lastUse) < quick/4 {
		return nil
	}
	return w.closely(ctx, quick, fmt.Sprintf("no token came for %v", silent.Round(100*time.Millisecond)))
}

// closely looks at the processes and the port of a server that puts nothing out.
// It is a *failure when the cause is plain.
func (w *serverWatch) closely(ctx context.Context, still time.Duration, symptom string) error {
	a := w.a
	st, err := a.x.host.Server.LookClosely(ctx, a.rec.ID, a.leases.Port, true)
	if err != nil {
		return err
	}
	w.lastUse = time.Now()
	w.moved.See(st, w.lastUse)
	if err := w.port(ctx, st); err != nil {
		return err
	}
	if a.cfg.Attach != nil {
		return nil // what its processes do is not known: bench.stall decides
	}
	// Who works may yet put something out: a long prompt, a kernel being compiled.
	if w.lastUse.Sub(w.moved.Last(time.Time{})) < still/2 {
		return nil
	}
	if c := w.suspect(); c != nil {
		return w.crashed(*c, symptom+" and its processes do nothing")
	}
	if len(st.Ended) > 0 {
		var names []string
		for _, p := range st.Ended {
			names = append(names, fmt.Sprintf("%d (%s)", p.PID, p.Name))
		}
		return &failure{class: record.ClassServerDied, ends: true, err: &diedError{
			fmt.Sprintf("%s: %s: its process %s has ended, the others do nothing, though %d still listens", a.x.host.Name, symptom, strings.Join(names, ", "), a.ready.Listener.PID),
			"the end of the server's log may tell why; its health check proves nothing here"}}
	}
	return nil
}

// port is a *failure when another socket than the one that became ready is on
// the server's port, or none.
func (w *serverWatch) port(ctx context.Context, st server.State) error {
	was := w.a.ready.Listener
	if was.Socket == "" || st.Phase != server.Running || st.Listens(was.Socket) {
		return nil
	}
	// Whatever ended it may be about to start it anew, which says more.
	for end := time.Now().Add(restartWait); st.Listener == nil && st.Stranger == nil && time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(restartWait / 10):
		}
		var err error
		if st, err = w.a.x.host.Server.LookClosely(ctx, w.a.rec.ID, w.a.leases.Port, false); err != nil {
			return err
		}
		if st.Phase != server.Running {
			return w.a.alive(ctx)
		}
	}
	a, place := w.a, w.a.x.host.Name
	switch {
	case st.Listener != nil:
		return &failure{class: record.ClassRestarted, ends: true, err: &diedError{
			fmt.Sprintf("%s: the server was started anew in its place: %s answers on port %d, it was %s", place, st.Listener, a.leases.Port, was),
			"something in it restarts it when it fails, and hides why: the first error of its log is the cause"}}
	case st.Stranger != nil:
		return &failure{class: record.ClassRestarted, ends: true, err: &diedError{
			fmt.Sprintf("%s: another server answers on port %d: %s; it was %s", place, a.leases.Port, st.Stranger, was),
			"it was left alone; server.port: auto finds a port that nobody else uses"}}
	}
	if c := w.suspect(); c != nil {
		return w.crashed(*c, "nobody listens on its port any more")
	}
	return &failure{class: record.ClassUnreachable, ends: true, err: &diedError{
		fmt.Sprintf("%s: process %d lives, but nobody listens on port %d any more", place, st.Identity.PID, a.leases.Port), "see the end of the server's log"}}
}

// read takes what the server has written since.
func (w *serverWatch) read(ctx context.Context) error {
	if w.log == nil || w.a.state.LogPath == "" {
		return nil
	}
	buf := make([]byte, logChunk)
	for taken := 0; taken < logMost; {
		n, size, err := w.a.x.host.Server.ReadAt(ctx, w.a.state.LogPath, buf, w.at)
		switch {
		case err != nil && (hostLost(err) || ctx.Err() != nil):
			return err
		case err != nil:
			return nil // the log is gone; collecting says so
		case n == 0 && size < w.at: // it was cut; collecting says so
			w.at = 0
			continue
		case n == 0:
			return nil
		}
		w.at, taken = w.at+int64(n), taken+n
		if c := w.log.Observe(buf[:n]).Crash; c != nil {
			if w.crash == nil {
				w.crashAt = time.Now()
			}
			w.crash = c
		}
	}
	return nil
}

func (w *serverWatch) suspect() *server.Crash {
	if x, ok := w.log.(server.Suspecter); ok {
		return x.Suspect()
	}
	return nil
}

func (w *serverWatch) crashed(c server.Crash, symptom string) *failure {
	return &failure{class: crashClass(c, true), ends: true, err: &diedError{
		fmt.Sprintf("%s: %s: %s; the process %d still lives", w.a.x.host.Name, symptom, c.Evidence, w.a.state.Identity.PID), c.Advice}}
}

// ended says why a process that has ended did so: its log's word, with what the
// host knows.
// stopped says that a stop came afterwards, which leaves its mark.
func (w *serverWatch) ended(ctx context.Context, st server.State, stopped bool) (*server.Crash, error) {
	if err := w.read(ctx); err != nil {
		return nil, err
	}
	var c *server.Crash
	if x, ok := w.log.(server.Explainer); ok {
		c = x.Ended()
	}
	if c == nil {
		c = w.crash
	}
	if c == nil {
		c = w.a.x.engine.CrashIn([]byte(w.a.tail(ctx)))
	}
	death, err := w.a.x.host.Server.Autopsy(ctx, w.a.rec.ID)
	if err != nil {
		return nil, err
	}
	death.Stopped = death.Stopped && !stopped
	return c.With(death.Cause(st.Signal)), nil
}

// alive is a *failure when the server process has ended.
func (a *attempt) alive(ctx context.Context) error {
	if a.death != nil {
		return a.death
	}
	st, err := a.x.host.Server.Look(ctx, a.rec.ID)
	if err != nil {
		return err
	}
	return a.livesBy(ctx, st)
}

// livesBy is alive by a look that was made.
func (a *attempt) livesBy(ctx context.Context, st server.State) error {
	if st.Phase == server.Running {
		return nil
	}
	a.state = st
	if a.cfg.Attach != nil {
		a.death = a.attachedEnded(st)
		return a.death
	}
	end := fmt.Sprintf("exit status %d", st.ExitCode)
	if st.Signal != 0 {
		end = server.SignalName(st.Signal)
	}
	f := &failure{class: record.ClassServerDied, ends: true,
		err: fmt.Errorf("%s: the server ended during the benchmark (%s); its log is %s", a.x.host.Name, end, st.LogPath)}
	c, err := a.watching().ended(ctx, st, false)
	if err != nil {
		return err
	}
	if c != nil {
		f.class = crashClass(*c, true)
		f.err = &diedError{f.err.Error() + ": " + c.Evidence, c.Advice}
	}
	a.death = f
	return f
}

// diedError carries the advice of a crash rule.
type diedError struct{ msg, advice string }

func (e *diedError) Error() string { return e.msg }

func (e *diedError) Hint() string { return e.advice }

// blame looks at a server whose load went wrong: its *failure when it is to
// blame, else nil.
func (w *serverWatch) blame(ctx context.Context, symptom string) error {
	if err := w.look(ctx, 0, 0); err != nil {
		return err
	}
	if w.crash != nil {
		return w.crashed(*w.crash, symptom)
	}
	st, err := w.a.x.host.Server.LookClosely(ctx, w.a.rec.ID, w.a.leases.Port, true)
	if err != nil {
		return err
	}
	if err := w.port(ctx, st); err != nil {
		return err
	}
	w.moved.See(st, time.Now())
	if c := w.suspect(); c != nil {
		return w.crashed(*c, symptom)
	}
	if len(st.Ended) > 0 {
		return w.closely(ctx, 0, symptom)
	}
	return nil
}

// isFailure tells a result from an error that ends the execution.
func isFailure(err error) bool {
	var f *failure
	return errors.As(err, &f)
}

// startText is a step of a start with its time, which the live line's own, of the
// sweep, does not tell.
func startText(p server.Progress) string {
	if p.Milestone == "" || p.Silent > 0 || p.Note != "" || p.Elapsed < time.Second {
		return p.String()
	}
	return p.String() + " after " + p.Elapsed.Round(time.Second).String()
}

// noteKilled says that a server did not end when it was asked to.
func (a *attempt) noteKilled(p server.Proof) {
	if !outlivedGrace(p) {
		return
	}
	grace := server.DefaultGrace
	if g := time.Duration(a.x.plan.StopGrace); g > 0 {
		grace = g
	}
	a.x.note(fmt.Sprintf("%s: the server of launch %s did not end within %v of SIGTERM and was killed (%d processes); server.stop.grace is what it gets",
		a.x.host.Name, a.rec.ID, grace, len(p.Killed)))
}

// outlivedGrace tells that the stop had to end the server itself. That it ended by
// SIGKILL alone does not: SGLang, once it has drained, kills its own processes, the
// first one last.
func outlivedGrace(p server.Proof) bool {
	return p.Terminated && p.Signal == sigKill && slices.Contains(p.Killed, p.Identity.PID)
}

// sigKill is SIGKILL on a host, whatever the controller runs on.
const sigKill = 9

// lookBack finds out, once the server is stopped, that it had ended by itself
// before: its last run keeps its numbers, with a label that says so.
func (a *attempt) lookBack(ctx context.Context) {
	if a.death != nil || a.proof == nil || a.proof.Terminated || a.proof.Identity.PID == 0 || a.ready.BaseURL == "" {
		return
	}
	var last *record.Result
	for i := range a.x.results {
		if r := &a.x.results[i]; r.Run.LaunchID == a.rec.ID && r.Run.State == record.RunDone {
			last = r
		}
	}
	if last == nil {
		return
	}
	ctx, cancel := a.x.cleaning(ctx)
	defer cancel()
	end := fmt.Sprintf("exit status %d", a.proof.ExitCode)
	if a.proof.Signal != 0 {
		end = server.SignalName(a.proof.Signal)
	}
	text := fmt.Sprintf("the server ended before its stop (%s)", end)
	c, err := a.watching().ended(ctx, server.State{Signal: a.proof.Signal}, true)
	switch {
	case err != nil:
		text += ", why is not known: " + err.Error() // the label is worth more than its reason
	case c != nil:
		text += ": " + c.Evidence
	}
	text = a.hider().text(text)
	label := record.Label{Name: trust.DiedAfter, Reason: text}
	a.late = map[string][]record.Label{last.Run.ID: {label}}
	last.Data.Labels = append(slices.Clone(last.Data.Labels), label)
	a.x.note(fmt.Sprintf("%s: launch %s: %s; run %s keeps its numbers, labelled %s", a.x.host.Name, a.rec.ID, text, last.Run.ID, label.Name))
}
