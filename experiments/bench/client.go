package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// client sends requests of one job and notes what came back when.
type client struct {
	job   Job
	http  *http.Client
	clock clock
	token func() // called at each chunk with text

	// Whether the server took a request with extensions, or refused one that it
	// then took without them.
	taken, refused atomic.Bool
}

// clock turns monotonic readings into microseconds since the epoch.
type clock struct {
	base time.Time
}

func newClock() clock { return clock{time.Now()} }

func (c clock) us() int64 { return c.base.UnixMicro() + time.Since(c.base).Microseconds() }

// do sends one prompt and reads the answer to its end. What went wrong stands
// in Request.Error. A server that finds a request with extensions wrong is asked
// again without them; that it takes no other is remembered.
func (c *client) do(ctx context.Context, index int, prompt string) Request {
	q := c.ask(index, prompt)
	extended := c.job.extensible() && !c.refused.Load()
	err := c.exchange(ctx, &q, prompt, extended)
	var status *statusError
	if extended && !c.taken.Load() && errors.As(err, &status) && status.wrongRequest() {
		if err = c.exchange(ctx, &q, prompt, false); !errors.As(err, &status) || !status.wrongRequest() {
			c.refused.Store(true)
		}
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		q.Error = err.Error()
		q.EndUs = c.clock.us()
		return q
	}
	q.EndUs = q.StartUs + q.ChunkUs[len(q.ChunkUs)-1]
	return q
}

// ask is a request of which nothing is known yet.
func (c *client) ask(index int, prompt string) Request {
	return Request{Index: index, OutputTokens: -1, PromptTokens: -1, CachedTokens: -1, ReasoningTokens: -1, VerifyCalls: -1,
		PromptSHA: hashTexts([]string{prompt})}
}

// statusError is an answer with another status than 200.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return fmt.Sprintf("HTTP %d: %s", e.status, e.text) }

func (e *statusError) wrongRequest() bool {
	return e.status == http.StatusBadRequest || e.status == http.StatusUnprocessableEntity
}

func (c *client) exchange(ctx context.Context, q *Request, prompt string, extended bool) error {
	body, err := c.job.body(prompt, extended)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.job.url(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	q.StartUs = c.clock.us()
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 2000))
		return &statusError{resp.StatusCode, strings.Join(strings.Fields(string(text)), " ")}
	}
	if extended {
		c.taken.Store(true)
	}
	if t := resp.Header.Get("Content-Type"); !strings.HasPrefix(t, "text/event-stream") {
		return fmt.Errorf("the server did not stream: content type %q", t)
	}
	a := newAnswer(q)
	err = c.stream(resp.Body, a)
	a.close()
	if err != nil {
		return err
	}
	switch {
	case len(q.ChunkUs) == 0:
		return errors.New("the answer has no text")
	case q.OutputTokens < 1:
		return errors.New("the server sent no usage record: output tokens cannot be counted")
	}
	q.place(&a.track)
	return nil
}

// stream reads events until the end mark. Without it the answer counts only
// when a finish reason had come: some servers end with the connection.
func (c *client) stream(body io.Reader, a *answer) error {
	events := newEventReader(body)
	for {
		data, err := events.next()
		if errors.Is(err, io.EOF) && a.q.Finish != "" {
			return nil
		}
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return errors.New("the stream was cut before its end")
			}
			return fmt.Errorf("read the stream: %w", err)
		}
		if bytes.Equal(bytes.TrimSpace(data), []byte("[DONE]")) {
			return drained(events)
		}
		now := c.clock.us()
		text, err := a.add(data)
		if err != nil {
			return err
		}
		if text {
			if a.q.FirstTokenUs == 0 {
				a.q.FirstTokenUs = now
			}
			a.q.ChunkUs = append(a.q.ChunkUs, now-a.q.StartUs)
			a.track.chunk(a.usage.CompletionTokens, now-a.q.StartUs)
			c.token()
		}
	}
}

// drained reads what follows the end mark, so that the connection can be used
// again.
func drained(e *eventReader) error {
	io.Copy(io.Discard, io.LimitReader(e.r, 64<<10)) // an error here takes nothing from the answer
	return nil
}
