package experiments

import (
	"context"
	"encoding/json"
	"fmt"

	"specrun/experiments/record"
)

// Names of steps in the journal.
const (
	stepLaunch  = "launch"
	stepLease   = "lease"
	stepFound   = "found" // what the sweep found, before its first change
	stepPatch   = "patch"
	stepStart   = "start"
	stepReady   = "ready"
	stepCheck   = "check"
	stepRun     = "run"
	stepWarm    = "warm"
	stepBench   = "bench"
	stepCollect = "collect"
	stepStop    = "stop"
	stepRestore = "restore"
	stepSweep   = "sweep"
)

// launchEvidence says which launch of the plan a journal belongs to.
type launchEvidence struct {
	N     int          `json:"n"`
	Round int          `json:"round"`
	Runs  []PlannedRun `json:"runs"`
	Best  *int         `json:"best,omitempty"` // of a launch that leaves a cell's server running, see after.go
}

type failureEvidence struct {
	Class  record.Class `json:"class"`
	Reason string       `json:"reason"`
}

// journal is what the events of a launch say. It hints; Look decides.
type journal struct {
	seq     int64 // of the last event
	launch  launchEvidence
	lease   *leaseEvidence
	done    map[string]json.RawMessage // evidence of the launch's own steps
	undoing bool
	failed  *failureEvidence
}

func readJournal(events []record.Event) (journal, error) {
	j := journal{done: map[string]json.RawMessage{}}
	for _, e := range events {
		j.seq = max(j.seq, e.Seq)
		if e.RunID != "" {
			continue
		}
		var err error
		switch {
		case e.Step == stepLaunch && e.Kind == record.EventIntent:
			err = json.Unmarshal(e.Evidence, &j.launch)
		case e.Step == stepLease && (e.Kind == record.EventIntent || e.Kind == record.EventSkip || e.Kind == record.EventDone):
			j.lease = &leaseEvidence{}
			err = json.Unmarshal(e.Evidence, j.lease)
		case e.Kind == record.EventDone || e.Kind == record.EventSkip:
			j.done[e.Step] = e.Evidence
		case e.Kind == record.EventUndo:
			j.undoing = true
		case e.Kind == record.EventFailed:
			j.failed = &failureEvidence{}
			err = json.Unmarshal(e.Evidence, j.failed)
		}
		if err != nil {
			return j, fmt.Errorf("journal of launch %s, event %d: %w", e.LaunchID, e.Seq, err)
		}
	}
	return j, nil
}

// record makes an event durable together with what it changes. It does not end
// with ctx: what has happened has to be written down.
func (a *attempt) record(ctx context.Context, runID, step string, kind record.EventKind, evidence any, c record.Change) error {
	e := record.Event{LaunchID: a.rec.ID, Seq: a.journal.seq + 1, RunID: runID, AtUs: a.x.nowUs(), Step: step, Kind: kind}
	if evidence != nil {
		raw, err := json.Marshal(evidence)
		if err != nil {
			return &fatalError{fmt.Errorf("evidence of %s: %w", step, err)}
		}
		switch step {
		case stepLaunch, stepLease, stepFound, stepPatch: // what resume acts by; no words of a server
		default:
			raw = a.hider().json(raw)
		}
		e.Evidence = raw
	}
	a.x.deps.Hook(BeforeEvent, e)
	if err := a.x.deps.Recorder.Record(context.WithoutCancel(ctx), e, c); err != nil {
		return &fatalError{fmt.Errorf("record %s of launch %s: %w", step, a.rec.ID, err)}
	}
	a.journal.seq++
	a.x.deps.Hook(AfterEvent, e)
	return nil
}
