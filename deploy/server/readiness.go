package server

import (
	"context"
	"net/http"
	"time"
)

// Readiness is what an engine knows about its own start. One value serves one
// launch; WaitReady calls it from one goroutine at a time, but Probe may run
// while Observe is called.
type Readiness interface {
	// Observe takes the next bytes of the log, cut anywhere, and says what they
	// added.
	Observe(chunk []byte) Observation
	// Probe makes the server really generate, and returns nil only when it did.
	// It is called after Observe said Ready, again when it failed, and its
	// context ends when the server does.
	Probe(ctx context.Context, client *http.Client, baseURL string) error
}

// Explainer is a Readiness that, once the process has ended and all of its log
// was observed, can say why: a line that proves nothing while the server lives
// may be the cause when it is the last one.
type Explainer interface {
	Ended() *Crash
}

// Suspecter is a Readiness that can say, at any time, what in the log so far
// would explain an end: lines that prove nothing while the server goes on. It is
// asked when nothing goes on any more.
type Suspecter interface {
	Suspect() *Crash
}

// Unmarked is a Readiness that may know of no line that says that the server is
// ready: then Probe alone decides, asked again and again from the start.
type Unmarked interface {
	Unmarked() bool
}

// Observation is what a piece of the log says.
type Observation struct {
	Ready      bool     // the marker that the engine prints when it is ready was there
	Milestones []string // steps of the start that were there, in order
	Crash      *Crash   // nil when nothing says that it cannot become ready
}

// ReadyOptions are the limits of a wait; zero fields are the defaults.
type ReadyOptions struct {
	Timeout time.Duration // for the whole start; 60 min
	// Stall ends a start of which nothing was seen for so long, before it serves:
	// no new byte in the log, no CPU time, nothing read or written, no change of
	// the GPU memory held; 20 min.
	Stall time.Duration
	// Poll is the longest time between two looks at the log; 100 ms. A start that
	// is young is looked at more often: a tenth of its age, 20 ms or more.
	Poll time.Duration
	// OnProgress, when not nil, is called for each milestone, and now and then while
	// the log is silent, from WaitReady's goroutine.
	OnProgress func(Progress)
}

// Progress is one milestone of a start, or a look at one whose log is silent.
type Progress struct {
	Milestone string        // the last one
	Elapsed   time.Duration // since WaitReady was called
	LogSize   int64         // bytes read so far
	// Silent is for how long the log has said nothing, 0 at a milestone.
	Silent time.Duration
	// Doing is what the processes do meanwhile: "reads 1.2 GB/s, 8 cores busy";
	// "nothing" when nothing is seen of them.
	Doing string
	// Note is something else worth a line; "" mostly.
	Note string
}

// String is one line for people.
func (p Progress) String() string {
	switch {
	case p.Note != "":
		return p.Note
	case p.Silent > 0:
		text := "log silent for " + p.Silent.Round(time.Second).String() + ", " + p.Doing
		if p.Milestone != "" {
			text = p.Milestone + "; " + text
		}
		return text
	}
	return p.Milestone
}

// Ready is a server that has generated.
type Ready struct {
	BaseURL   string // as seen from the host: http://127.0.0.1:30000
	Listener  Holder // our process that answers
	LogOffset int64  // bytes of log read when it was ready
	Elapsed   time.Duration
	// Unmarked says that its log has no ready marker yet: a server that writes in
	// blocks.
	Unmarked bool
	// LogFile is State.LogFile at that moment.
	LogFile string
}
