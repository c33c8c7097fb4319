package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"specrun/remote"
)

// Files of a run folder.
const (
	jobFile      = "job.json"
	reportFile   = "report.json"
	progressFile = "progress.json"
	identityFile = "identity"
	stoppedFile  = "stopped"
)

// RefusedError says that the host did not start a worker.
type RefusedError struct {
	Host, Dir, Reason string
	Log               string // end of the worker's output, "" when it wrote none
}

func (e *RefusedError) Error() string {
	msg := fmt.Sprintf("%s: benchmark in %s not started: %s", e.Host, e.Dir, e.Reason)
	if e.Log != "" {
		msg += ": " + lastLine(e.Log)
	}
	return msg
}

// SurvivorError says that a worker could not be ended.
type SurvivorError struct {
	Host, Dir string
	PID       string
}

func (e *SurvivorError) Error() string {
	return fmt.Sprintf("%s: benchmark worker %s of %s survived SIGKILL", e.Host, e.PID, e.Dir)
}

// Start starts the job in a run folder on the host as a process of its own, and
// returns once that process has its identity. At most one worker ever runs in a
// folder: called again it adopts what is there, running, done or dead; ask Poll
// which. After Stop it refuses (*RefusedError). A lost connection leaves it
// open whether it started: call it again.
//
// A worker that has no identity after 15 seconds is ended and refused.
func Start(ctx context.Context, h Host, workerPath, runDir string, j Job) error {
	return start(ctx, h, workerPath, runDir, j, 15*time.Second)
}

func start(ctx context.Context, h Host, workerPath, runDir string, j Job, limit time.Duration) error {
	if err := j.Check(); err != nil {
		return err
	}
	job, err := json.Marshal(j)
	if err != nil {
		return fmt.Errorf("benchmark: job: %w", err)
	}
	res, err := h.Run(ctx, script("start", startText,
		remote.Var{Name: "DIR", Value: runDir},
		remote.Var{Name: "WORKER", Value: workerPath},
		remote.Var{Name: "JOB", Value: string(job)},
		remote.Var{Name: "BEGIN", Value: strconv.Itoa(int(limit / (10 * time.Millisecond)))}))
	if err != nil {
		return fmt.Errorf("start the benchmark: %w", err)
	}
	first, rest, _ := strings.Cut(string(res.Stdout), "\n")
	if reason, ok := strings.CutPrefix(first, "refused "); ok {
		return &RefusedError{Host: h.Name(), Dir: runDir, Reason: reason, Log: rest}
	}
	if !strings.HasPrefix(first, "state ") {
		return fmt.Errorf("%s: start the benchmark: unexpected answer %q", h.Name(), res.Stdout)
	}
	return nil
}

// Poll tells how the benchmark in a run folder stands, with its report when it
// is done. It changes nothing.
func Poll(ctx context.Context, h Host, runDir string) (Progress, error) {
	res, err := h.Run(ctx, script("poll", pollText, remote.Var{Name: "DIR", Value: runDir}))
	if err != nil {
		return Progress{}, fmt.Errorf("look at the benchmark: %w", err)
	}
	p, err := parsePoll(string(res.Stdout))
	if err != nil {
		return p, fmt.Errorf("%s: look at the benchmark: %w", h.Name(), err)
	}
	if p.State != StateDone {
		return p, nil
	}
	var buf bytes.Buffer
	path := strings.TrimRight(runDir, "/") + "/" + reportFile
	if _, _, err := h.Get(ctx, path, &buf); err != nil {
		return p, fmt.Errorf("fetch the benchmark's report: %w", err)
	}
	p.Report = &Report{}
	if err := json.Unmarshal(buf.Bytes(), p.Report); err != nil {
		return p, fmt.Errorf("%s: report %s: %w", h.Name(), path, err)
	}
	return p, nil
}

func parsePoll(out string) (Progress, error) {
	var p Progress
	head, log, _ := strings.Cut(out, "\nlog\n")
	for line := range strings.Lines(head) {
		line = strings.TrimSuffix(line, "\n")
		key, value, _ := strings.Cut(line, " ")
		if key == "progress" {
			if err := json.Unmarshal([]byte(value), &p); err != nil {
				return p, fmt.Errorf("progress: %w", err)
			}
		}
	}
	// What the worker wrote last is older than what was just seen.
	state := State(strings.TrimPrefix(firstLine(out), "state "))
	switch state {
	case StateAbsent, StateRunning, StateDone, StateDead:
		p.State, p.Log = state, log
		return p, nil
	}
	return p, fmt.Errorf("unexpected answer %q", out)
}

// Stop ends the worker of a run folder, by its identity, and sees it gone: TERM,
// a grace of two seconds, KILL. A folder without one is marked, so that none
// begins later. Repeating it does no harm. *SurvivorError when it could not.
func Stop(ctx context.Context, h Host, runDir string) error {
	s := script("stop", stopText, remote.Var{Name: "DIR", Value: runDir}, remote.Var{Name: "GRACE", Value: "20"})
	s.Timeout = 30 * time.Second
	res, err := h.Run(ctx, s)
	if err != nil {
		return fmt.Errorf("stop the benchmark: %w", err)
	}
	switch state := parseAnswer(res.Stdout).first("state"); {
	case state == "gone":
		return nil
	case strings.HasPrefix(state, "survived "):
		return &SurvivorError{Host: h.Name(), Dir: runDir, PID: strings.TrimPrefix(state, "survived ")}
	}
	return fmt.Errorf("%s: stop the benchmark: unexpected answer %q", h.Name(), res.Stdout)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}
