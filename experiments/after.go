package experiments

import (
	"context"
	"encoding/json"
	"fmt"

	"specrun/deploy/server"
	"specrun/experiments/record"
)

// stepAfter is what is done when every launch of a sweep is made and its patches
// are as they were found.
const stepAfter = "after"

// Left is the server that a sweep left running.
type Left struct {
	After    After
	Launch   string
	Identity server.Identity
	Port     int
	URL      string // as seen from the host
	LogPath  string
	Cell     *Cell      // whose server it is; nil: one that ran before the sweep
	Patches  []PatchRef // in its files
	Saved    string     // id of the saved server that serves again; "" else
}

// ends is how far an earlier controller came with what is done at the end.
type ends struct {
	best  *attempt // launch of the best cell's server
	done  bool     // the server was left running: whatever became of it, nothing is done again
	saved map[string]bool
}

// recall takes from the journals what was done at the end.
func (e *ends) recall(events []record.Event) error {
	for _, ev := range events {
		if ev.Step != stepAfter || ev.Kind != record.EventDone {
			continue
		}
		var done struct {
			Saved string `json:"saved"`
		}
		if err := json.Unmarshal(ev.Evidence, &done); err != nil {
			return fmt.Errorf("journal of launch %s, event %d: %w", ev.LaunchID, ev.Seq, err)
		}
		if done.Saved != "" {
			if e.saved == nil {
				e.saved = map[string]bool{}
			}
			e.saved[done.Saved] = true
		}
	}
	return nil
}

// leave does what after: says beside the patches, once per sweep. Errors leave the
// sweep open: resume tries again.
func (x *execution) leave(ctx context.Context) error {
	if x.last == nil || x.plan.attaches() {
		return nil
	}
	switch x.plan.After {
	case AfterRestore:
		return x.startSaved(ctx)
	case AfterBest:
		return x.startBest(ctx)
	}
	return nil
}
