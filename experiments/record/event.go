package record

import "encoding/json"

// EventKind says what an event states about its step.
type EventKind string

// Kinds of events. An intent is durable before the step acts; done after.
const (
	EventIntent EventKind = "intent"
	EventDone   EventKind = "done"
	EventFailed EventKind = "failed"
	EventSkip   EventKind = "skip" // Look found the step already done
	EventUndo   EventKind = "undo" // intent to undo
	EventUndone EventKind = "undone"
	EventNote   EventKind = "note"
)

// Event is one line of a launch's journal. (LaunchID, Seq) is unique.
type Event struct {
	LaunchID string
	Seq      int64
	RunID    string // "" when the event belongs to the launch as a whole
	AtUs     int64  // controller's clock, microseconds UTC
	HostAtUs int64  // host's clock, 0 when unknown
	Step     string
	Kind     EventKind
	Evidence json.RawMessage // nil or a JSON object: pid identity, log cursor, output path
}

// Change is what an event changes, stored in the same transaction as the event.
// Zero fields change nothing.
type Change struct {
	Launch    *Launch  // inserted, or state and identity updated
	Run       *Run     // inserted, or state, class, reason and end updated
	Supersede string   // run id set to superseded before Run is inserted
	Data      *RunData // what Run measured; replaces earlier data of that run
	// Labels are added to those of runs that have ended, by run id; one whose name a
	// run has already takes its place.
	Labels     map[string][]Label
	SweepID    string     // with SweepState
	SweepState SweepState // "" leaves it
}
