package engine

import (
	"context"
	"fmt"
	"net/http"
)

// vllmReadiness follows one start of vLLM.
type vllmReadiness struct{ startLog }

// Probe implements server.Readiness: the engine says that it is well, and one
// greedy completion of probeTokens comes back. /health alone answers 200 before
// anything was generated.
func (*vllmReadiness) Probe(ctx context.Context, client *http.Client, base string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/health", nil)
	if err != nil {
		return err
	}
	if err := do(client, req, nil); err != nil {
		return fmt.Errorf("health: %w", err)
	}
	model, err := firstModel(ctx, client, base)
	if err != nil {
		return err
	}
	got, err := complete(ctx, client, base, model, false, true)
	if err != nil {
		return err
	}
	if got < probeTokens {
		return tooFew(got)
	}
	return nil
}
