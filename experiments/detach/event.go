package detach

import (
	"time"

	"specrun/experiments"
	"specrun/experiments/record"
)

// Event is one thing that happened in a sweep, as its followers are told. Cells
// are named by their place in the plan, which followers have.
type Event struct {
	AtUs     int64             `json:"at_us"`           // of the host's clock
	Began    string            `json:"began,omitempty"` // a process took the sweep: who it is
	Launch   int               `json:"launch,omitempty"`
	Launches int               `json:"launches,omitempty"`
	Round    int               `json:"round,omitempty"`
	Repeat   int               `json:"repeat,omitempty"`
	Cells    []int             `json:"cells,omitempty"`
	Cell     *int              `json:"cell,omitempty"`
	Step     string            `json:"step,omitempty"`
	Phase    experiments.Phase `json:"phase,omitempty"`
	Message  string            `json:"message,omitempty"`
	Result   *Result           `json:"result,omitempty"`
	Times    int               `json:"times,omitempty"` // results like that one

	// Ago is how long before the look it was, by the host's own clock: the one here
	// may differ by any time.
	Ago time.Duration `json:"-"`

	end int64 // the position behind it in the events
}

// Result is how a run ended, with what a line about it shows. The rest is
// fetched.
type Result struct {
	Run     string          `json:"run"`
	State   record.RunState `json:"state"`
	Class   record.Class    `json:"class,omitempty"`
	Reason  string          `json:"reason,omitempty"`
	Metrics []Metric        `json:"metrics,omitempty"` // finite ones
}

// Metric is a number of a run.
type Metric struct {
	Name   string  `json:"name"`
	Unit   string  `json:"unit"`
	Value  float64 `json:"value"`
	N      int     `json:"n"`
	Source string  `json:"source"`
}

// NewEvent is what followers are told of a progress.
func NewEvent(p experiments.Progress, atUs int64) Event {
	e := Event{AtUs: atUs, Launch: p.Launch, Launches: p.Launches, Round: p.Round, Repeat: p.Repeat, Step: p.Step, Phase: p.Phase, Message: p.Message, Times: p.Times}
	for _, c := range p.Cells {
		e.Cells = append(e.Cells, c.Ord)
	}
	if p.Cell != nil {
		e.Cell = &p.Cell.Ord
	}
	if r := p.Result; r != nil {
		e.Result = &Result{Run: r.Run.ID, State: r.Run.State, Class: r.Run.Class, Reason: r.Run.Reason}
		for _, m := range r.Data.Metrics {
			if m.Value-m.Value == 0 { // JSON has no other numbers
				e.Result.Metrics = append(e.Result.Metrics, Metric(m))
			}
		}
	}
	return e
}

// Progress is the event as whoever watches an execution is told it. Cells are
// those of the plan, quotes included.
func (e Event) Progress(sweepID, host string, cells []experiments.Cell) experiments.Progress {
	p := experiments.Progress{SweepID: sweepID, Host: host, Launch: e.Launch, Launches: e.Launches, Round: e.Round, Repeat: e.Repeat,
		Step: e.Step, Phase: e.Phase, Message: e.Message, Times: e.Times}
	for _, ord := range e.Cells {
		if ord >= 0 && ord < len(cells) {
			p.Cells = append(p.Cells, cells[ord])
		}
	}
	if e.Cell != nil && *e.Cell >= 0 && *e.Cell < len(cells) {
		p.Cell = &cells[*e.Cell]
	}
	if r := e.Result; r != nil {
		p.Result = &record.Result{Run: record.Run{ID: r.Run, Host: host, State: r.State, Class: r.Class, Reason: r.Reason}}
		for _, m := range r.Metrics {
			p.Result.Data.Metrics = append(p.Result.Data.Metrics, record.Metric(m))
		}
	}
	return p
}

// End is how a process ended its sweep.
type End struct {
	AtUs    int64                `json:"at_us"`
	BeganUs int64                `json:"began_us"`
	Summary *experiments.Summary `json:"summary,omitempty"` // nil: it was refused before it had begun
	Exit    int                  `json:"exit"`              // of the process
	Error   string               `json:"error,omitempty"`
	Hint    string               `json:"hint,omitempty"`
}
