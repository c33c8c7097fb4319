package experiments

import (
	"context"
	"errors"
	"time"

	"specrun/experiments/record"
)

// Deps is what an execution needs from outside. Fields without a remark must be
// set.
type Deps struct {
	Recorder Recorder
	Hosts    func(ctx context.Context, name string) (*Host, error) // connects
	Engines  func(name string) (Engine, error)
	Collect  Collector
	Now      func() time.Time
	IDs      func() string // fresh, short, letters and digits
	Getenv   func(name string) (string, bool)

	Controller     string                       // who we are, see Controller
	Detached       bool                         // the sweep goes on by itself: nobody can interrupt us
	ControllerGone func(controller string) bool // nil: nobody is ever known to be gone
	Version        string                       // of specrun, for provenance
	OnEvent        func(Progress)               // nil: nobody watches; called from one goroutine
	Hook           func(Boundary, record.Event) // nil; tests end the process in it

	Poll        time.Duration // between looks at a benchmark; 0 = 100 ms
	UndoTimeout time.Duration // for cleaning up one launch; 0 = 3 min
	Reconnect   time.Duration // how long a lost host is tried again; 0 = 2 min
	LeaseTTL    time.Duration // of leases and of the claim; 0 = 60 s
	Wait        time.Duration // in the queue, for what others have leased; 0: not at all
}

// Boundary is a moment around an event.
type Boundary string

// Moments around an event.
const (
	BeforeEvent Boundary = "before" // what led to it has happened; it is not durable yet
	AfterEvent  Boundary = "after"  // it is durable; what follows has not happened yet
)

func (d Deps) withDefaults() (Deps, error) {
	switch {
	case d.Recorder == nil, d.Hosts == nil, d.Engines == nil, d.Collect == nil, d.Now == nil, d.IDs == nil:
		return d, errors.New("execute: a dependency is missing")
	case d.Controller == "":
		return d, errors.New("execute: no controller id")
	}
	if d.Getenv == nil {
		d.Getenv = func(string) (string, bool) { return "", false }
	}
	if d.ControllerGone == nil {
		d.ControllerGone = func(string) bool { return false }
	}
	if d.OnEvent == nil {
		d.OnEvent = func(Progress) {}
	}
	if d.Hook == nil {
		d.Hook = func(Boundary, record.Event) {}
	}
	d.Poll = orDefault(d.Poll, 100*time.Millisecond)
	d.UndoTimeout = orDefault(d.UndoTimeout, 3*time.Minute)
	d.Reconnect = orDefault(d.Reconnect, 2*time.Minute)
	d.LeaseTTL = orDefault(d.LeaseTTL, 60*time.Second)
	return d, nil
}

func orDefault(v, otherwise time.Duration) time.Duration {
	if v > 0 {
		return v
	}
	return otherwise
}

// Phase is what a Progress says of its step.
type Phase string

// Phases of a step.
const (
	PhaseBegin  Phase = "begin"
	PhaseNote   Phase = "note" // something to show while it lasts
	PhaseDone   Phase = "done"
	PhaseFailed Phase = "failed"
	PhaseUndone Phase = "undone"
	PhaseResult Phase = "result" // a run has ended; Result is set
)

// Progress is one line for whoever watches an execution.
type Progress struct {
	SweepID  string
	Host     string
	Launch   int // from 1, of Launches; in the order in which they are made
	Launches int // planned now; resumed sweeps count what is left
	Round    int
	Cells    []Cell // of the launch
	Cell     *Cell  // of the run, when within one
	Repeat   int
	Step     string
	Phase    Phase
	Message  string
	Result   *record.Result
	// Times is how many runs of the cell ended so at once, the last of them with
	// Result: a launch that fails takes all of its runs along. 0 without a Result.
	Times int
}

// Summary is how an execution ended.
type Summary struct {
	SweepID  string
	Host     string
	Kind     string // of the plan
	State    record.SweepState
	Done     int // runs, over the sweep's whole life
	Failed   int
	Missing  int // slots without a result
	Launches int // made by this execution
	Notes    []string
	Left     []Left // servers that the sweep left running as after: says; keep is a note
}
