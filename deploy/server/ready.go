package server

import (
	"bytes"
	"context"
	"fmt"
	"time"
)

const (
	// Between two looks at the process: a start that fails mostly fails early,
	// and a long one should not be disturbed.
	lookEarly = 150 * time.Millisecond
	lookLate  = time.Second
	early     = 10 * time.Second

	leastPause = 20 * time.Millisecond
	probeWait  = 500 * time.Millisecond // between two failed probes
	probeSaid  = 10 * time.Second       // between two lines about failed probes, at least
	probeText  = 300                    // characters of such a line
	// A crash sign may be followed by the line that says why: wait until the log
	// rests, but not for long.
	crashSettle = 500 * time.Millisecond
	crashLimit  = 3 * time.Second
	// A line that may tell of a crash counts when nothing at all goes on behind it
	// for so long.
	suspectStill = 10 * time.Second
	// A server whose marker is not seen is asked all the same when it listens and
	// its log has rested for so long: it may write in blocks.
	markerless = 10 * time.Second
	tailBytes  = 4096
)

// WaitReady waits until the server of st serves on port: its process lives, the
// engine's marker is in its log, the listener on the port is a process of this
// launch, and one real generation came back. It ends at once with a *CrashError
// or *ExitedError when the server cannot get there, with a *PortError when a
// stranger answers on the port, and with *StalledError or *NotReadyError at the
// limits. The server is left as it is in each case.
func WaitReady(ctx context.Context, h Host, st State, port int, r Readiness, o ReadyOptions) (Ready, error) {
	if port < 1 || port > 65535 {
		return Ready{}, fmt.Errorf("wait for launch %s: port %d", st.Launch, port)
	}
	if st.Phase == Absent || st.LogPath == "" {
		return Ready{}, fmt.Errorf("%s: wait for launch %s: it was not started", h.Name(), st.Launch)
	}
	if o.Timeout <= 0 {
		o.Timeout = 60 * time.Minute
	}
	if o.Stall <= 0 {
		o.Stall = 20 * time.Minute
	}
	if o.Poll <= 0 {
		o.Poll = 100 * time.Millisecond
	}
	now := time.Now()
	w := &wait{h: h, st: st, port: port, r: r, o: o, begin: now, lastByte: now, lastLook: now, lastClose: now}
	if u, ok := r.(Unmarked); ok && u.Unmarked() {
		w.marker, w.unmarked = true, true
	}
	ready, err := w.run(ctx)
	w.stopProbe()
	if err != nil {
		return Ready{}, err
	}
	return ready, nil
}

// wait is one call of WaitReady.
type wait struct {
	h    Host
	st   State
	port int
	r    Readiness
	o    ReadyOptions

	begin, lastByte, lastLook, lastClose, nextProbe, crashAt time.Time

	moved     Movement // of the processes, since the log became silent
	listens   bool     // one of ours does, as the last close look saw
	logFile   string
	offset    int64
	tail      []byte // last bytes of the log
	marker    bool
	unmarked  bool // no marker will come: as if it were there
	milestone string
	crash     *Crash

	probe      chan error // nil while none runs
	stop       context.CancelFunc
	probeErr   error
	probeBegan time.Time
	saidProbe  string    // the failure of one that was told last,
	saidAt     time.Time // and when
	base       string
	listenerIs Holder
}

func (w *wait) run(ctx context.Context) (Ready, error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return Ready{}, fmt.Errorf("%s: wait for launch %s: %w", w.h.Name(), w.st.Launch, context.Cause(ctx))
		case err := <-w.probe: // never when no probe runs
			w.endProbe(err)
			if err == nil {
				return w.finish(ctx)
			}
		case <-timer.C:
		}
		if err := w.step(ctx); err != nil {
			return Ready{}, err
		}
		timer.Reset(w.pause())
	}
}

// pause is the time to the next look: waiting for it is never more than a tenth
// of what the start took.
func (w *wait) pause() time.Duration {
	return min(w.o.Poll, max(time.Since(w.begin)/10, leastPause))
}

// step is one look at the log, the process, the port and the limits.
func (w *wait) step(ctx context.Context) error {
	if err := w.readLog(ctx); err != nil {
		return err
	}
	now := time.Now()
	if w.crash != nil && (w.crash.Final || now.Sub(w.lastByte) > crashSettle || now.Sub(w.crashAt) > crashLimit) {
		return w.crashed(ctx)
	}
	lookEvery := lookLate
	if now.Sub(w.begin) < early {
		lookEvery = lookEarly
	}
	silent := now.Sub(w.lastByte)
	asks := w.marker || w.listens && silent > min(markerless, w.o.Stall/2)
	startProbe := asks && w.probe == nil && !now.Before(w.nextProbe)
	closely := w.dueClosely(now)
	if startProbe || closely || now.Sub(w.lastLook) >= lookEvery {
		if err := w.lookAt(ctx, startProbe, closely); err != nil {
			return err
		}
	}
	if now.Sub(w.begin) > w.o.Timeout {
		return w.suspected(ctx, &NotReadyError{Host: w.h.Name(), After: w.o.Timeout, Milestone: w.milestone, Probe: w.lastProbe(),
			LogPath: w.st.LogPath, Tail: string(w.tail)})
	}
	// What was seen last is as old as the last close look.
	still := w.lastClose.Sub(w.moved.Last(w.lastByte))
	if still > min(suspectStill, w.o.Stall/2) {
		if c := w.suspect(); c != nil {
			w.crash = c
			return w.crashed(ctx)
		}
	}
	if (!w.marker || w.unmarked) && still > w.o.Stall {
		return &StalledError{Host: w.h.Name(), Silent: w.o.Stall, Milestone: w.milestone, Ended: w.moved.ended, Probe: w.lastProbe(),
			LogPath: w.st.LogPath, Tail: string(w.tail)}
	}
	return nil
}

// dueClosely says whether it is time to look at what the processes do: only when
// the log is silent, and ever more rarely.
func (w *wait) dueClosely(now time.Time) bool {
	silent := now.Sub(w.lastByte)
	first := min(closeFirst, w.o.Stall/4)
	every := min(max(silent/10, w.o.Stall/100, leastPause), closeRarely)
	return silent >= first && now.Sub(w.lastClose) >= every
}

// suspect is what the log says that would explain a standstill.
func (w *wait) suspect() *Crash {
	if x, ok := w.r.(Suspecter); ok {
		return x.Suspect()
	}
	return nil
}

// suspected puts the cause that the log suggests in the place of a symptom.
func (w *wait) suspected(ctx context.Context, symptom error) error {
	c := w.suspect()
	if c == nil {
		return symptom
	}
	w.crash = c
	return w.crashed(ctx)
}

// readLog reads to the present end of the log.
func (w *wait) readLog(ctx context.Context) error {
	buf := make([]byte, 64<<10)
	for {
		n, size, err := w.h.ReadAt(ctx, w.st.LogPath, buf, w.offset)
		if err != nil {
			return fmt.Errorf("follow the log of launch %s: %w", w.st.Launch, err)
		}
		if n == 0 && size < w.offset {
			w.note(fmt.Sprintf("its log was cut from %d to %d bytes: what was in it is lost", w.offset, size))
			w.offset = 0
			continue
		}
		if n == 0 {
			return nil
		}
		w.offset += int64(n)
		w.lastByte = time.Now()
		w.tail = append(w.tail, buf[:n]...)
		if over := len(w.tail) - tailBytes; over > 0 {
			w.tail = bytes.Clone(w.tail[over:])
		}
		w.take(w.r.Observe(buf[:n]))
	}
}

func (w *wait) note(text string) {
	if w.o.OnProgress != nil {
		w.o.OnProgress(Progress{Milestone: w.milestone, Elapsed: time.Since(w.begin), LogSize: w.offset, Note: text})
	}
}

func (w *wait) take(seen Observation) {
	for _, m := range seen.Milestones {
		w.milestone = m
		if w.o.OnProgress != nil {
			w.o.OnProgress(Progress{Milestone: m, Elapsed: time.Since(w.begin), LogSize: w.offset})
		}
	}
	w.marker = w.marker || seen.Ready
	// Later lines may say why, where the first only said that.
	if c := seen.Crash; c != nil && (w.crash == nil || !w.crash.Final) {
		if w.crash == nil {
			w.crashAt = time.Now()
		}
		w.crash = c
	}
}

// lookAt judges the process, when a probe is due the listener, and closely what
// the processes do.
func (w *wait) lookAt(ctx context.Context, startProbe, closely bool) error {
	w.lastLook = time.Now()
	port := 0 // not asked for
	if startProbe || closely {
		port = w.port
	}
	st, err := look(ctx, w.h, w.st.StateDir, w.st.Launch, port, closely)
	if err != nil {
		return err
	}
	if st.Phase != Running {
		return w.ended(ctx, st)
	}
	w.logFile = st.LogFile
	if closely {
		w.lastClose = w.lastLook
		w.listens = st.Listener != nil
		w.moved.See(st, w.lastLook)
		if w.o.OnProgress != nil {
			w.o.OnProgress(Progress{Milestone: w.milestone, Elapsed: time.Since(w.begin), LogSize: w.offset, Silent: time.Since(w.lastByte), Doing: w.moved.doing})
		}
	}
	if !startProbe {
		return nil
	}
	if l := st.Listener; l != nil {
		w.listenerIs = *l
		w.base = baseURL(l.Address, w.port)
		w.startProbe(ctx)
		return nil
	}
	w.nextProbe = time.Now().Add(w.pause())
	if w.unmarked { // there is no sign to hurry for
		w.nextProbe = time.Now().Add(probeWait)
	}
	if st.Stranger != nil {
		return &PortError{Host: w.h.Name(), Holder: *st.Stranger}
	}
	return nil
}

// ended says why a process that has ended did so. What it wrote last says more
// than its status, and what the kernel counted more than either.
func (w *wait) ended(ctx context.Context, st State) error {
	if err := w.readLog(ctx); err != nil {
		return err
	}
	if x, ok := w.r.(Explainer); ok {
		if c := x.Ended(); c != nil {
			w.crash = c
		}
	}
	death, err := Autopsy(ctx, w.h, w.st.StateDir, w.st.Launch)
	if err != nil {
		return err
	}
	cause := death.Cause(st.Signal)
	if w.crash != nil {
		w.crash = w.crash.With(cause)
		return w.crashed(ctx)
	}
	return &ExitedError{Host: w.h.Name(), Code: st.ExitCode, Signal: st.Signal, Cause: cause, LogPath: w.st.LogPath, Tail: string(w.tail)}
}

func (w *wait) crashed(ctx context.Context) error {
	c := *w.crash
	if c.Kind == KindPort {
		c.Evidence += w.whoHolds(ctx, c.Port)
	}
	return &CrashError{Host: w.h.Name(), Crash: c, LogPath: w.st.LogPath, Tail: string(w.tail)}
}

// whoHolds names the process that is in the way on a port, that of the server
// when the log names none. It only adds to an error that is known.
func (w *wait) whoHolds(ctx context.Context, port int) string {
	if port == 0 {
		port = w.port
	}
	holder, err := PortHolder(ctx, w.h, port)
	switch {
	case err != nil:
		return ""
	case holder == nil:
		return fmt.Sprintf(" (port %d is free again)", port)
	}
	return fmt.Sprintf(" (port %d is held by %s)", port, holder)
}

// finish makes sure that the process did not end while it answered. The socket
// that did was found to be ours right before, and stays so while it is open.
func (w *wait) finish(ctx context.Context) (Ready, error) {
	if err := w.lookAt(ctx, false, false); err != nil {
		return Ready{}, err
	}
	return Ready{BaseURL: w.base, Listener: w.listenerIs, LogOffset: w.offset, Elapsed: time.Since(w.begin), Unmarked: !w.marker, LogFile: w.logFile}, nil
}
