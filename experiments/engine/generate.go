package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// probeTokens is how much a server must generate to be ready: a health check's
// single token comes from the prefill and runs no decode cycle.
const probeTokens = 16

// probePrompt is what a probe asks for.
const probePrompt = "The capital of France is"

// complete makes one greedy completion of at most probeTokens over an
// OpenAI-compatible route and says how many tokens came back; chat is the other
// shape of a request. Without forced the model may end earlier.
func complete(ctx context.Context, client *http.Client, base, model string, chat, forced bool) (int, error) {
	body := map[string]any{"model": model, "max_tokens": probeTokens, "temperature": 0}
	path := "/v1/completions"
	if chat {
		path = "/v1/chat/completions"
		body["messages"] = []map[string]string{{"role": "user", "content": probePrompt}}
	} else {
		body["prompt"] = probePrompt
	}
	if forced {
		body["ignore_eos"] = true
	}
	var answer struct {
		Choices []struct{} `json:"choices"`
		Usage   struct {
			CompletionTokens int `json:"completion_tokens"`
		} `json:"usage"`
	}
	if err := post(ctx, client, base+path, body, &answer); err != nil {
		return 0, fmt.Errorf("generate: %w", err)
	}
	if len(answer.Choices) == 0 {
		return 0, fmt.Errorf("generate: %s answers without a choice", path)
	}
	return answer.Usage.CompletionTokens, nil
}

// tooFew is the error of a generation that proves no decode cycle.
func tooFew(got int) error {
	return fmt.Errorf("generate: %d tokens came back, %d were asked for", got, probeTokens)
}

// completeAny probes a server of which it is only known that it may be
// OpenAI-compatible: it must generate something on the first route that it has.
// A server with neither route is not asked, tried is false then.
func completeAny(ctx context.Context, client *http.Client, base string) (tried bool, err error) {
	model, err := firstModel(ctx, client, base)
	if absent(err) {
		model, err = anyModel, nil
	}
	if err != nil {
		return true, err
	}
	for _, chat := range []bool{false, true} {
		got, err := complete(ctx, client, base, model, chat, true)
		if refusesBody(err) { // it is strict about what it does not know
			got, err = complete(ctx, client, base, model, chat, false)
		}
		switch {
		case absent(err):
			continue
		case err != nil:
			return true, err
		case got < 1:
			return true, tooFew(got)
		}
		return true, nil
	}
	return false, nil
}

// anyModel names the model of a server that lists none.
const anyModel = "default"

func refusesBody(err error) bool {
	var status *StatusError
	return errors.As(err, &status) && (status.Status == http.StatusBadRequest || status.Status == http.StatusUnprocessableEntity)
}
