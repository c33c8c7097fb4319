package report

import (
	"time"

	"specrun/experiments/record"
)

// RunHead is what the JSON lines of a run have in common: where it belongs and
// how it ended.
type RunHead struct {
	ID       string        `json:"id"`
	Sweep    string        `json:"sweep"`
	Name     string        `json:"name"`
	Kind     string        `json:"kind"`
	Host     string        `json:"host"`
	Params   record.Params `json:"params"`
	Baseline bool          `json:"baseline"`
	Round    int           `json:"round"`  // from 1
	Repeat   int           `json:"repeat"` // from 1
	Attempt  int           `json:"attempt"`
	State    string        `json:"state"`
	Class    string        `json:"class,omitempty"`
	Reason   string        `json:"reason,omitempty"`
	Start    string        `json:"start,omitempty"` // RFC 3339
	End      string        `json:"end,omitempty"`   // RFC 3339
}

func headOf(r record.Run, c record.Cell, sl record.Slot, sweep, name, kind string) RunHead {
	h := RunHead{ID: r.ID, Sweep: sweep, Name: name, Kind: kind, Host: r.Host, Params: c.Params, Baseline: c.Baseline,
		Round: sl.Round + 1, Repeat: sl.Repeat + 1, Attempt: r.Attempt, State: string(r.State), Class: string(r.Class), Reason: r.Reason}
	if h.Params == nil {
		h.Params = record.Params{}
	}
	if r.StartUs != 0 {
		h.Start = stamp(r.StartUs)
	}
	if r.EndUs != 0 {
		h.End = stamp(r.EndUs)
	}
	return h
}

// stateText is a state with the class of its failure.
func stateText(r record.Run, between string) string {
	if r.Class == record.ClassNone {
		return string(r.State)
	}
	return string(r.State) + between + string(r.Class)
}

// precise keeps the microseconds: events and samples follow each other closely.
func precise(us int64) string {
	return time.UnixMicro(us).UTC().Format(time.RFC3339Nano)
}
