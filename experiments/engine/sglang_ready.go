package engine

import (
	"context"
	"fmt"
	"net/http"
)

// sglangReadiness follows one start of SGLang.
type sglangReadiness struct{ startLog }

// Probe implements server.Readiness with one greedy generation of probeTokens.
func (*sglangReadiness) Probe(ctx context.Context, client *http.Client, base string) error {
	body := map[string]any{"text": probePrompt,
		"sampling_params": map[string]any{"temperature": 0, "max_new_tokens": probeTokens, "ignore_eos": true}}
	var answer struct {
		Meta struct {
			CompletionTokens int `json:"completion_tokens"`
		} `json:"meta_info"`
	}
	if err := post(ctx, client, base+"/generate", body, &answer); err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	if got := answer.Meta.CompletionTokens; got < probeTokens {
		return tooFew(got)
	}
	return nil
}
