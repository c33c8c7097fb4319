package remote

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	stdoutCap = 64 << 20
	stderrCap = 1 << 20

	// How long output may still come after the shell's end is known.
	drainLimit = 2 * time.Second
	// How long a cancelled script gets to show its pid.
	identityLimit = 2 * time.Second
	defaultGrace  = 2 * time.Second
	// Beside the grace, bounds ending a script and proving it, after its context has ended.
	endLimit = 15 * time.Second
)

//go:embed scripts/end.sh
var endText string

// Run sends a script and waits for its end. The error is nil only when the
// script ended (Outcome Done) with status 0; with another status it is an
// *ExitError and the Result is filled as well. Otherwise the error says what
// happened and Result.Outcome what is known about the script.
//
// When ctx ends, or the script's time, its process group (its whole session
// where that is its own) gets SIGTERM, after s.Grace SIGKILL, and Run
// returns when they are seen gone: the error wraps the context's cause or is a
// *TimeoutError, or, when they could not be seen gone, a *SurvivorError.
// Processes that the script detached into their own session are left alone.
func (h *Host) Run(ctx context.Context, s Script) (Result, error) {
	var input io.Reader
	if s.Payload != nil {
		input = strings.NewReader(string(s.Payload))
	}
	stdout := &capped{limit: stdoutCap}
	res, err := h.run(ctx, s, input, stdout)
	res.Stdout = stdout.buf.Bytes()
	if err == nil && stdout.cut > 0 {
		err = &Error{Host: h.name, Op: "script " + s.Name, Kind: ErrOutputTooLong,
			Err: fmt.Errorf("%d bytes beyond the first %d", stdout.cut, stdoutCap)}
	}
	return res, err
}

// Stream is Run for output of any length: it goes to w as it comes, and a slow w
// holds the script up. What w got is to be thrown away on an error. Result.Stdout
// stays empty. The first error of w is returned at the script's end; to end it
// earlier, cancel ctx.
func (h *Host) Stream(ctx context.Context, s Script, w io.Writer) (Result, error) {
	var input io.Reader
	if s.Payload != nil {
		input = strings.NewReader(string(s.Payload))
	}
	return h.run(ctx, s, input, w)
}

// run is Run with the script's output going to sink and its input from input.
func (h *Host) run(ctx context.Context, s Script, input io.Reader, sink io.Writer) (Result, error) {
	op := "script " + s.Name
	marker := newMarker()
	text, err := s.render(marker, input != nil)
	if err != nil {
		return Result{}, &Error{Host: h.name, Op: op, Kind: ErrBadScript, Err: err}
	}
	limit := s.Timeout
	if limit == 0 {
		limit = DefaultScriptTimeout
	}
	timeout := &TimeoutError{Host: h.name, Op: op, After: limit}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, timeout)
	defer cancel()

	line := execLine
	if input != nil {
		line, text = execPayloadLine, text+".\n"
	}
	p, err := h.driver.start(ctx, line, false)
	if err != nil {
		return Result{}, err
	}
	defer p.release()
	x := h.follow(p, marker, text, input, sink)

	select {
	case <-x.out.ended:
		x.drain(ctx)
	case <-p.exited():
		x.drain(ctx)
		if ctx.Err() != nil && !x.ended() {
			return h.cancelled(ctx, s, p, x)
		}
	case <-x.drained:
		// Both streams closed first: the status is on its way.
		select {
		case <-p.exited():
		case <-time.After(drainLimit):
		}
	case <-ctx.Done():
		return h.cancelled(ctx, s, p, x)
	}
	res, err := x.verdict(h.name, s.Name, op)
	if t, ok := p.(*turn); ok && t.worn && res.Outcome == NotStarted && ctx.Err() == nil {
		// Its worker had ended, and nobody had noticed.
		t.driver.makeRoom()
		return h.run(ctx, s, nil, sink)
	}
	if e, ok := h.driver.(explainer); ok && (errors.Is(err, ErrNoise) || errors.Is(err, ErrLost)) {
		err = e.unstarted(ctx, err)
	}
	return res, err
}

// explainer is a driver that knows why a script may not have begun, or not ended.
type explainer interface {
	unstarted(ctx context.Context, err error) error
}

// execution is a running script seen from here.
type execution struct {
	p         process
	out, errs *frame
	stderr    *capped
	sent      atomic.Bool   // the host may have the whole script
	drained   chan struct{} // closed when both streams have ended
}

// follow starts the goroutines that feed and drain a process. They end when
// the process's streams do: at the latest when the driver is closed.
func (h *Host) follow(p process, marker, text string, input io.Reader, sink io.Writer) *execution {
	x := &execution{p: p, stderr: &capped{limit: stderrCap}, drained: make(chan struct{})}
	x.out, x.errs = newFrame(marker, sink), newFrame(marker, x.stderr)
	h.spawn(func() {
		defer p.Close()
		// The script runs as soon as its last byte is there, and may have ended
		// before this goroutine goes on: from just before that byte on it may run.
		last := len(text) - 1
		if _, err := io.WriteString(p, text[:last]); err != nil {
			return
		}
		x.sent.Store(true)
		if _, err := io.WriteString(p, text[last:]); err != nil {
			return
		}
		if input != nil {
			// A script may end before it has read all; its status tells more
			// than this error.
			io.Copy(p, input)
		}
	})
	errs := make(chan struct{})
	h.spawn(func() {
		io.Copy(x.errs, p.stderr())
		close(errs)
	})
	h.spawn(func() {
		io.Copy(x.out, p.stdout())
		<-errs
		close(x.drained)
	})
	return x
}

// drain waits for the rest of the output: both end marks, or both streams
// closed. The exit status may overtake megabytes of output on a slow link, so
// it waits as long as bytes come; and a process left in the background may hold
// a stream open for ever, so no longer than that.
func (x *execution) drain(ctx context.Context) {
	tick := time.NewTicker(drainLimit)
	defer tick.Stop()
	for _, ended := range []chan struct{}{x.out.ended, x.errs.ended} {
		for waiting := true; waiting; {
			before := x.out.received.Load() + x.errs.received.Load()
			select {
			case <-ended:
				waiting = false
			case <-x.drained:
				return
			case <-ctx.Done():
				return
			case <-tick.C:
				if x.out.received.Load()+x.errs.received.Load() == before {
					return
				}
			}
		}
	}
}

func (x *execution) ended() bool {
	select {
	case <-x.out.ended:
		return true
	default:
		return false
	}
}

// result seals the streams, so that nothing is written to them any more.
func (x *execution) result() (r Result, noise string, sinkErr error) {
	x.out.finish()
	x.errs.finish()
	status, done, noise, sinkErr := x.out.result()
	r = Result{Stderr: x.stderr.buf.Bytes(), StderrCut: x.stderr.cut > 0}
	switch {
	case done:
		r.Outcome, r.Exit = Done, status
	case x.sent.Load():
		r.Outcome = Unknown
	}
	return r, noise, sinkErr
}

// verdict is the end of a script that nobody cancelled.
func (x *execution) verdict(host, name, op string) (Result, error) {
	r, noise, sinkErr := x.result()
	if r.Outcome == Done {
		switch {
		case r.Exit != 0:
			return r, &ExitError{Host: host, Script: name, Code: r.Exit, Stderr: r.Stderr}
		case sinkErr != nil:
			return r, fmt.Errorf("%s: %s: keep its output: %w", host, op, sinkErr)
		}
		return r, nil
	}
	e := &Error{Host: host, Op: op, Kind: ErrLost}
	var st exitStatus
	select {
	case <-x.p.exited():
		st = x.p.status()
	default:
		st.lost = errors.New("the channel closed without an exit status")
	}
	_, _, errNoise, _ := x.errs.result()
	switch began := x.began(); {
	case st.lost != nil:
		e.Err = st.lost
		e.Next = "the script may have run; the next command asks the host"
		if r.Outcome == NotStarted {
			e.Next = "nothing ran; try again"
		}
	case st.signal != "":
		e.Err = fmt.Errorf("its shell was ended by SIG%s", strings.TrimPrefix(st.signal, "SIG"))
		e.Next = "find out who or what ended it (out of memory?); the next command asks the host what was done"
	case !began:
		// The line was executed by something that is not a POSIX shell, or a
		// forced command stood in its way: our script never ran.
		r.Outcome = NotStarted
		e.Kind = ErrNoise
		e.Err = fmt.Errorf("exit %d, printed %q", st.code, join(noise, errNoise))
		e.Next = "the account must be able to run /bin/sh: look for a forced command, a nologin shell, or an rc file that exits"
	default:
		e.Err = fmt.Errorf("its shell ended with %d and no end mark", st.code)
	}
	return r, e
}

func (x *execution) began() bool {
	select {
	case <-x.out.began:
		return true
	default:
		return false
	}
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + " / " + b
}

// cancelled ends a script whose context has ended.
func (h *Host) cancelled(ctx context.Context, s Script, p process, x *execution) (Result, error) {
	if x.ended() { // it was faster
		return x.verdict(h.name, s.Name, "script "+s.Name)
	}
	cause := context.Cause(ctx)
	if s.Grace == 0 {
		s.Grace = defaultGrace
	}
	end, cancel := cleanupContext(ctx, s.Grace+endLimit)
	defer cancel()
	left, err := h.endProcesses(end, s.Grace, p, x)
	if err == nil && len(left) == 0 {
		x.drain(end)
	}
	r, noise, _ := x.result()
	if err != nil || len(left) > 0 {
		return r, &SurvivorError{Host: h.name, Script: s.Name, PIDs: left, Cause: cause, Err: err}
	}
	var timeout *TimeoutError
	if errors.As(cause, &timeout) {
		timeout.Ended = true
		if !x.began() {
			timeout.Next = fmt.Sprintf("the login shell never started the script (it printed %q): "+
				"an rc file may wait for input", noise)
		}
		return r, timeout
	}
	return r, fmt.Errorf("%s: script %s: ended: %w", h.name, s.Name, cause)
}

// endProcesses ends a script's processes and returns those still there.
func (h *Host) endProcesses(ctx context.Context, grace time.Duration, p process, x *execution) (left []string, err error) {
	select {
	case <-x.out.began:
	case <-p.exited():
	case <-time.After(identityLimit):
	}
	if !x.began() {
		return nil, endNameless(ctx, p)
	}
	return h.endByIdentity(ctx, x.out.who(), grace)
}

// endNameless ends a process whose pid is not known, by the signals of its own
// channel. That its shell ended is all that can be said then. (OpenSSH before
// 9.8 does not signal sessions of root: those end in an error here.)
func endNameless(ctx context.Context, p process) error {
	for _, name := range []string{"TERM", "KILL"} {
		if err := p.signal(name); err != nil {
			return fmt.Errorf("signal %s: %w", name, err)
		}
		select {
		case <-p.exited():
			return p.status().lost
		case <-time.After(drainLimit):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.New("it ignores the signals sent through its channel")
}

// endByIdentity runs end.sh in a session of its own.
func (h *Host) endByIdentity(ctx context.Context, id identity, grace time.Duration) ([]string, error) {
	tenths := strconv.FormatInt(int64(grace/(100*time.Millisecond)), 10)
	s := Script{Name: "end", Text: hostText + endText, Vars: []Var{
		{"PID", id.pid}, {"PGID", id.pgid}, {"SID", id.sid}, {"TICKS", id.ticks}, {"GRACE", tenths}}}
	marker := newMarker()
	text, err := s.render(marker, false)
	if err != nil {
		return nil, err
	}
	p, err := h.driver.start(ctx, execLine, true)
	if err != nil {
		return nil, err
	}
	defer p.release()
	stdout := &capped{limit: 4 << 10}
	x := h.follow(p, marker, text, nil, stdout)
	select {
	case <-x.out.ended:
	case <-p.exited():
		x.drain(ctx)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if _, err := x.verdict(h.name, s.Name, "script end"); err != nil {
		return nil, err
	}
	words := strings.Fields(stdout.buf.String())
	switch {
	case len(words) == 1 && words[0] == "gone":
		return nil, nil
	case len(words) > 1 && words[0] == "left":
		return words[1:], nil
	}
	return nil, fmt.Errorf("the script that ends processes said %q", stdout.buf.String())
}
