package remote

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

// workerLine is a shell inside of a container that runs scripts one after another,
// each as a process in a session of its own: an exec of the engine costs a hundred
// milliseconds and more, a script in a worker costs a few. A script is a line of
// its own choice, the text, that line again; behind its output the line is printed
// to both streams, with the script's status.
const workerLine = `/bin/sh -c '` +
	`n=$(printf "\nx");n=${n%x};while IFS= read -r d;do s=;e=;while IFS= read -r l;do [ "$l" = "$d" ]&&e=1&&break;s=$s$l$n;done;[ "$e" ]||exit;` +
	`printf %s "$s"|setsid /bin/sh -s;r=$?;printf "%s %s\n" "$d" $r;printf "%s %s\n" "$d" $r >&2;done'`

// idleWorkers bounds those that wait: each holds an exec of the engine, and over
// SSH a session.
const idleWorkers = 2

// worker is one such shell. One turn at a time has it.
type worker struct {
	p         process
	out, errs []byte // read, and not of a turn any more
}

// turn is one script in a worker, as a process.
type turn struct {
	driver    *containerDriver
	worker    *worker
	mark      string
	worn      bool // it is not the worker's first
	out, errs *turnStream
	done      chan struct{}
	end       exitStatus // written before done is closed
	once      sync.Once
}

// begin makes the next turn of a worker.
func (d *containerDriver) begin(w *worker, worn bool) (process, error) {
	mark := newMarker()
	t := &turn{driver: d, worker: w, mark: mark, worn: worn, done: make(chan struct{}),
		out:  &turnStream{r: w.p.stdout(), held: &w.out, mark: []byte(mark + " "), reached: make(chan struct{}), broken: make(chan struct{})},
		errs: &turnStream{r: w.p.stderr(), held: &w.errs, mark: []byte(mark + " "), reached: make(chan struct{}), broken: make(chan struct{})}}
	// An exec that was refused may have ended before it read this; what it said
	// then tells more than this error does.
	if _, err := io.WriteString(w.p, mark+"\n"); err != nil && worn {
		w.p.release()
		return nil, &Error{Host: d.base.name, Op: "start a script in container " + d.in.Name, Kind: ErrLost, Err: err}
	}
	go t.watch()
	return t, nil
}

func (t *turn) watch() {
	select {
	case <-t.out.reached:
	case <-t.worker.p.exited():
		// What it printed last may be on its way.
		select {
		case <-t.out.reached:
		case <-t.out.broken:
		case <-time.After(drainLimit):
		}
	}
	select {
	case <-t.out.reached:
		t.end = exitStatus{code: t.out.status}
	default:
		t.end = t.worker.p.status()
	}
	close(t.done)
}

func (t *turn) Write(b []byte) (int, error) { return t.worker.p.Write(b) }

// Close ends the script's text; the worker goes on.
func (t *turn) Close() error {
	_, err := io.WriteString(t.worker.p, t.mark+"\n")
	return err
}

func (t *turn) stdout() io.Reader       { return t.out }
func (t *turn) stderr() io.Reader       { return t.errs }
func (t *turn) signal(s string) error   { return t.worker.p.signal(s) }
func (t *turn) exited() <-chan struct{} { return t.done }
func (t *turn) status() exitStatus      { return t.end }

// release gives the worker back when the turn is over, which whoever reads the
// streams sees; one whose turn does not end is given up.
func (t *turn) release() {
	t.once.Do(func() {
		go func() {
			limit := time.NewTimer(drainLimit)
			defer limit.Stop()
			for _, s := range []*turnStream{t.out, t.errs} {
				select {
				case <-s.reached:
				case <-s.broken:
					t.worker.p.release()
					return
				case <-limit.C:
					t.worker.p.release()
					return
				}
			}
			t.driver.keep(t.worker)
		}()
	})
}

// keep lets a worker wait for its next turn, if there is place.
func (d *containerDriver) keep(w *worker) {
	d.mu.Lock()
	kept := !d.closed && d.waiting == 0 && len(d.idle) < idleWorkers
	if kept {
		d.idle = append(d.idle, w)
	}
	d.mu.Unlock()
	if !kept {
		w.p.release()
	}
}

// take returns a worker that waits and lives; nil when there is none.
func (d *containerDriver) take() *worker {
	for {
		d.mu.Lock()
		n := len(d.idle)
		if n == 0 {
			d.mu.Unlock()
			return nil
		}
		w := d.idle[n-1]
		d.idle = d.idle[:n-1]
		d.mu.Unlock()
		select {
		case <-w.p.exited(): // with its container, mostly
			w.p.release()
		default:
			return w
		}
	}
}

// makeRoom gives up the workers that wait.
func (d *containerDriver) makeRoom() {
	for w := d.take(); w != nil; w = d.take() {
		w.p.release()
	}
}

// turnStream is what one turn gets of a worker's stream: all up to the mark.
type turnStream struct {
	r       io.Reader
	held    *[]byte // the worker's
	mark    []byte
	status  int
	reached chan struct{} // closed at the mark
	broken  chan struct{} // closed at the end of the worker's stream
	atEnd   bool
}

// begun is how much of mark the end of text may be.
func begun(text, mark []byte) int {
	for n := min(len(text), len(mark)-1); n > 0; n-- {
		if bytes.HasSuffix(text, mark[:n]) {
			return n
		}
	}
	return 0
}

func (s *turnStream) Read(p []byte) (int, error) {
	if s.atEnd {
		return 0, io.EOF
	}
	for {
		i := bytes.Index(*s.held, s.mark)
		ready := len(*s.held) - begun(*s.held, s.mark)
		if i >= 0 {
			ready = i
		}
		if ready > 0 {
			n := copy(p, (*s.held)[:ready])
			*s.held = (*s.held)[n:]
			return n, nil
		}
		if i == 0 {
			if line, rest, whole := strings.Cut(string((*s.held)[len(s.mark):]), "\n"); whole {
				status, err := strconv.Atoi(line)
				if err != nil {
					return 0, fmt.Errorf("status %q of a script in a container: %w", line, err)
				}
				s.status, s.atEnd, *s.held = status, true, []byte(rest)
				close(s.reached)
				return 0, io.EOF
			}
		}
		buf := make([]byte, 32<<10)
		n, err := s.r.Read(buf)
		*s.held = append(*s.held, buf[:n]...)
		if n == 0 && err != nil {
			if !s.atEnd {
				s.atEnd = true
				close(s.broken)
			}
			if rest := *s.held; len(rest) > 0 && i != 0 {
				*s.held = nil
				return copy(p, rest), nil // shorter than a mark, so than any p
			}
			return 0, err
		}
	}
}
