package remote

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// noiseCap bounds what is kept of output outside the frame, for messages.
const noiseCap = 16 << 10

// identity is what a script's begin mark tells about its shell.
type identity struct{ pid, pgid, sid, ticks string }

// frame takes one output stream of a script and passes on what lies between
// the begin and the end mark. It reads for ever: a stream that nobody drains
// stops the whole channel.
type frame struct {
	begin, end []byte // "\n<marker> begin", "\n<marker> end "
	sink       io.Writer
	began      chan struct{} // closed at the begin mark
	ended      chan struct{} // closed at the end mark

	received atomic.Int64 // bytes so far

	mu     sync.Mutex
	state  frameState
	hold   []byte // read and not yet judged
	noise  []byte
	self   identity
	status int
	err    error // first error of sink
}

type frameState int

const (
	before frameState = iota
	inside
	after
)

func newFrame(marker string, sink io.Writer) *frame {
	return &frame{
		begin: []byte("\n" + marker + " begin"),
		end:   []byte("\n" + marker + " end "),
		sink:  sink,
		began: make(chan struct{}),
		ended: make(chan struct{}),
	}
}

// Write never fails: an error of the sink is kept and the rest is dropped.
func (f *frame) Write(p []byte) (int, error) {
	f.received.Add(int64(len(p)))
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state == after {
		return len(p), nil
	}
	f.hold = append(f.hold, p...)
	if f.state == before {
		f.seekBegin()
	}
	if f.state == inside {
		f.passUntilEnd()
	}
	return len(p), nil
}

func (f *frame) seekBegin() {
	i := bytes.Index(f.hold, f.begin)
	if i < 0 {
		f.drop(len(f.hold) - len(f.begin) + 1)
		return
	}
	f.drop(i)
	line, rest, whole := bytes.Cut(f.hold[1:], []byte("\n"))
	if !whole {
		return
	}
	if w := strings.Fields(string(line)); len(w) == 6 {
		f.self = identity{pid: w[2], pgid: w[3], sid: w[4], ticks: w[5]}
	}
	f.hold = rest
	f.state = inside
	close(f.began)
}

// drop moves n bytes from hold to noise.
func (f *frame) drop(n int) {
	if n <= 0 {
		return
	}
	if room := noiseCap - len(f.noise); room > 0 {
		f.noise = append(f.noise, f.hold[:min(n, room)]...)
	}
	f.hold = f.hold[n:]
}

func (f *frame) passUntilEnd() {
	i := bytes.Index(f.hold, f.end)
	if i < 0 {
		f.pass(len(f.hold) - len(f.end) + 1)
		return
	}
	f.pass(i)
	line, _, whole := bytes.Cut(f.hold[len(f.end):], []byte("\n"))
	if !whole {
		return
	}
	status, err := strconv.Atoi(string(line))
	if err != nil { // not our mark: part of the output
		f.pass(len(f.end))
		f.passUntilEnd()
		return
	}
	f.status = status
	f.state = after
	f.hold = nil
	close(f.ended)
}

func (f *frame) pass(n int) {
	if n <= 0 {
		return
	}
	if f.err == nil {
		_, f.err = f.sink.Write(f.hold[:n])
	}
	f.hold = f.hold[n:]
}

// finish is called after the last Write: what is held back is output then.
func (f *frame) finish() {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch f.state {
	case before:
		f.drop(len(f.hold))
	case inside:
		f.pass(len(f.hold))
	}
}

func (f *frame) who() identity {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.self
}

func (f *frame) result() (status int, done bool, noise string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status, f.state == after, printable(f.noise), f.err
}

// capped keeps the first limit bytes and counts the rest.
type capped struct {
	buf   bytes.Buffer
	limit int
	cut   int64
}

func (c *capped) Write(p []byte) (int, error) {
	n := min(len(p), c.limit-c.buf.Len())
	c.buf.Write(p[:n])
	c.cut += int64(len(p) - n)
	return len(p), nil
}

// printable shortens text from the host for a message: control sequences are
// made visible, never sent to the user's terminal.
func printable(text []byte) string {
	s := strings.TrimSpace(string(text))
	if len(s) > 300 {
		s = s[:300] + "..."
	}
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}
