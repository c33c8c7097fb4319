package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"specrun/deploy/server"
	"specrun/experiments/metrics"
)

// probeTokens is how much a server must generate to be ready: a health check's
// single token comes from the prefill and runs no decode cycle.
const probeTokens = 16

// maxLine bounds the memory that one line without an end may take.
const maxLine = 64 << 10

// sglangReadiness follows one start. Milestones and the ready marker are its
// own; what is a crash is judged by package metrics, as in a finished log.
type sglangReadiness struct {
	follower *metrics.Follower
	partial  []byte
	last     string // milestone
}

func newSGLangReadiness() *sglangReadiness {
	return &sglangReadiness{follower: metrics.NewFollower()}
}

// Observe implements server.Readiness.
func (r *sglangReadiness) Observe(chunk []byte) server.Observation {
	var seen server.Observation
	for rest := chunk; len(rest) > 0; {
		end := bytes.IndexAny(rest, "\r\n") // a progress bar ends its lines with CR
		if end < 0 {
			if len(r.partial)+len(rest) <= maxLine {
				r.partial = append(r.partial, rest...)
			}
			break
		}
		if len(r.partial)+end <= maxLine {
			r.line(string(append(r.partial, rest[:end]...)), &seen)
		}
		r.partial = r.partial[:0]
		rest = rest[end+1:]
	}
	r.follower.Write(chunk)
	// Only the verdict is wanted; what else was found would pile up.
	r.follower.Samples()
	r.follower.Decode()
	r.follower.Rows()
	seen.Crash = crash(r.follower.Crash())
	return seen
}

func (r *sglangReadiness) line(line string, seen *server.Observation) {
	msg := line[len(sglangPrefix.FindString(line)):]
	if strings.Contains(msg, sglangReady) {
		seen.Ready = true
		r.milestone("ready marker", seen)
		return
	}
	for _, m := range sglangMilestones {
		at := m.re.FindStringSubmatchIndex(msg)
		if at == nil {
			continue
		}
		name := m.re.ExpandString(nil, m.name, msg, at)
		r.milestone(strings.Join(strings.Fields(string(name)), " "), seen)
		return
	}
}

// milestone reports one once, though each rank prints it.
func (r *sglangReadiness) milestone(name string, seen *server.Observation) {
	if name != r.last {
		r.last = name
		seen.Milestones = append(seen.Milestones, name)
	}
}

// Ended implements server.Explainer.
func (r *sglangReadiness) Ended() *server.Crash {
	r.follower.Close()
	return crash(r.follower.Crash())
}

// CrashIn finds in the end of a log why its server died; nil when it does not
// say. The first line may be cut.
func (sglang) CrashIn(tail []byte) *server.Crash {
	f := metrics.NewFollower()
	f.Write(tail)
	f.Close()
	return crash(f.Crash())
}

func crash(c *metrics.Crash) *server.Crash {
	if c == nil {
		return nil
	}
	evidence := c.Evidence
	if c.Message != "" && !strings.Contains(evidence, c.Message) { // the head of a traceback does not say what happened
		evidence += " " + c.Message
	}
	return &server.Crash{Kind: c.Kind, Evidence: evidence, Advice: crashAdvice[c.Kind]}
}

// Probe implements server.Readiness with one greedy generation of probeTokens.
func (r *sglangReadiness) Probe(ctx context.Context, client *http.Client, base string) error {
	body := fmt.Sprintf(`{"text":"The capital of France is","sampling_params":{"temperature":0,"max_new_tokens":%d,"ignore_eos":true}}`, probeTokens)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/generate", strings.NewReader(body))
	if err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	var answer struct {
		Meta struct {
			CompletionTokens int `json:"completion_tokens"`
		} `json:"meta_info"`
	}
	if err := do(client, req, &answer); err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	if got := answer.Meta.CompletionTokens; got < probeTokens {
		return fmt.Errorf("generate: %d tokens came back, %d were asked for", got, probeTokens)
	}
	return nil
}

// StatusError is an HTTP answer other than 200.
type StatusError struct {
	URL    string
	Status int
	Body   string // its beginning
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s answers %d: %s", e.URL, e.Status, strings.TrimSpace(e.Body))
}

// do sends req and decodes the JSON that comes back; numbers in an interface
// stay text.
func do(client *http.Client, req *http.Request, into any) error {
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		head, err := io.ReadAll(io.LimitReader(resp.Body, 500))
		if err != nil {
			return fmt.Errorf("%s answers %d: %w", req.URL, resp.StatusCode, err)
		}
		return &StatusError{URL: req.URL.String(), Status: resp.StatusCode, Body: string(head)}
	}
	dec := json.NewDecoder(resp.Body)
	dec.UseNumber()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("%s: %w", req.URL, err)
	}
	return nil
}
