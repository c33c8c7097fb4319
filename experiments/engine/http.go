package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// StatusError is an HTTP answer other than 200.
type StatusError struct {
	URL    string
	Status int
	Body   string // its beginning
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s answers %d: %s", e.URL, e.Status, strings.TrimSpace(e.Body))
}

// absent says that the server has no such route.
func absent(err error) bool {
	var status *StatusError
	return errors.As(err, &status) && (status.Status == http.StatusNotFound || status.Status == http.StatusMethodNotAllowed)
}

// maxAnswer bounds what is read of an answer: whoever holds the port may send
// anything, without an end.
const maxAnswer = 8 << 20

// LongAnswerError says that an answer has no end within what is read of one.
type LongAnswerError struct{ URL string }

func (e *LongAnswerError) Error() string {
	return fmt.Sprintf("%s answers more than %d MiB", e.URL, maxAnswer>>20)
}

// Hint says what to look at.
func (e *LongAnswerError) Hint() string {
	return "no engine says so much of itself: see who listens on that port"
}

// do sends req and decodes the JSON that comes back; numbers in an interface
// stay text. A nil into takes any answer with status 200.
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
	if into == nil {
		return nil
	}
	body := &io.LimitedReader{R: resp.Body, N: maxAnswer}
	dec := json.NewDecoder(body)
	dec.UseNumber()
	if err := dec.Decode(into); err != nil {
		if body.N == 0 {
			return &LongAnswerError{req.URL.String()}
		}
		return fmt.Errorf("%s: %w", req.URL, err)
	}
	return nil
}

// get reads the first of paths that the server knows. Old releases lack the new
// names; new ones warn about the old.
func get(ctx context.Context, client *http.Client, base string, into any, paths ...string) error {
	var failed error
	for _, p := range paths {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+p, nil)
		if err != nil {
			return err
		}
		if err = do(client, req, into); absent(err) {
			failed = err
			continue
		}
		return err
	}
	return failed
}

// post sends a JSON body and decodes the JSON that comes back.
func post(ctx context.Context, client *http.Client, url string, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	return do(client, req, into)
}

// modelNames lists the names under which an OpenAI-compatible server answers.
func modelNames(ctx context.Context, client *http.Client, base string) ([]string, error) {
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := get(ctx, client, base, &list, "/v1/models"); err != nil {
		return nil, fmt.Errorf("read the model's name: %w", err)
	}
	var names []string
	for _, m := range list.Data {
		if m.ID != "" {
			names = append(names, m.ID)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("read the model's name: %s/v1/models lists none", base)
	}
	return names, nil
}

func firstModel(ctx context.Context, client *http.Client, base string) (string, error) {
	names, err := modelNames(ctx, client, base)
	if err != nil {
		return "", err
	}
	return names[0], nil
}

// plainJSON is a string as it is, anything else as compact JSON.
func plainJSON(v any) (string, error) {
	if s, ok := v.(string); ok {
		return s, nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

func decode(s string, into any) error {
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if dec.More() {
		return fmt.Errorf("more than one value")
	}
	return nil
}
