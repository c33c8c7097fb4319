package experiments

import (
	"context"
	"strings"
	"testing"

	"specrun/deploy/server"
	"specrun/experiments/record"
)

// Somebody deletes the log of a server that is being measured: its runs keep
// what the client measured, and the other cells go on.
func TestExecute_GoesOnWithoutALogThatWasDeleted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.w.bench = func(l server.Launch, _ BenchJob) string {
		if r.w.starts == 1 {
			r.w.servers[l.ID].noLog = true
		}
		return ""
	}
	p := r.plan(nil, "steps=2")
	sum, err := Execute(context.Background(), r.deps(), p, nil)
	if err != nil || sum.Done != 2 {
		t.Fatalf("%+v, %v", sum, err)
	}
	if len(sum.Notes) != 1 || !strings.Contains(sum.Notes[0], "without its log") {
		t.Errorf("notes: %q", sum.Notes)
	}
	r.settled(p)
	noted, said := 0, 0
	for _, e := range r.view().Events {
		if e.Kind == record.EventNote && strings.Contains(string(e.Evidence), "server.log") {
			noted++
		}
	}
	for _, e := range r.seen {
		if e.Step == stepCollect && strings.Contains(e.Message, "cannot be read") {
			said++
		}
	}
	if noted != 1 || said != 1 {
		t.Errorf("the journal notes the log %d times, the progress %d times", noted, said)
	}
}
