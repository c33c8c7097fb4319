package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// get reads the first of paths that the server knows. Old releases lack the new
// names; new ones warn about the old.
func get(ctx context.Context, client *http.Client, base string, into any, paths ...string) error {
	var failed error
	for _, p := range paths {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+p, nil)
		if err != nil {
			return err
		}
		err = do(client, req, into)
		var status *StatusError
		if errors.As(err, &status) && (status.Status == http.StatusNotFound || status.Status == http.StatusMethodNotAllowed) {
			failed = err
			continue
		}
		return err
	}
	return failed
}

// EffectiveConfig implements Engine. What changes while the server works
// (internal_states) is left out.
func (sglang) EffectiveConfig(ctx context.Context, client *http.Client, base string) (map[string]string, error) {
	var raw map[string]any
	if err := get(ctx, client, base, &raw, "/server_info", "/get_server_info"); err != nil {
		return nil, fmt.Errorf("read the effective configuration: %w", err)
	}
	out := make(map[string]string, len(raw))
	for key, v := range raw {
		if key == "internal_states" {
			continue
		}
		text, err := plainJSON(v)
		if err != nil {
			return nil, fmt.Errorf("effective %s: %w", key, err)
		}
		out[key] = text
	}
	return out, nil
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

// Model implements Engine.
func (sglang) Model(ctx context.Context, client *http.Client, base string) (string, error) {
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := get(ctx, client, base, &list, "/v1/models"); err != nil {
		return "", fmt.Errorf("read the model's name: %w", err)
	}
	if len(list.Data) == 0 || list.Data[0].ID == "" {
		return "", fmt.Errorf("read the model's name: %s/v1/models lists none", base)
	}
	return list.Data[0].ID, nil
}

// rule is what the server is known to do with a flag; says says whether it
// explains the effective value.
type rule struct {
	key  string
	says func(flags []Flag, effective map[string]string) bool
	text string
}

var sglangRules = []rule{
	{"speculative_num_draft_tokens", func(flags []Flag, effective map[string]string) bool {
		draft, ok := draftTokens(flags)
		return ok && effective["speculative_num_draft_tokens"] == draft
	}, "with speculative-eagle-topk 1 the server drafts num-steps + 1 tokens"},
	{"speculative_attention_mode", func(_ []Flag, effective map[string]string) bool {
		return effective["speculative_attention_mode"] == "decode"
	}, "newer releases force decode for some models and backends"},
	{"max_running_requests", func(flags []Flag, _ map[string]string) bool {
		_, ok := find(flags, "speculative_algorithm")
		return ok
	}, "speculative runs are capped, by default at 48"},
}

// Compare implements Engine.
func (sglang) Compare(asked []Flag, effective map[string]string) []Mismatch {
	var out []Mismatch
	for _, f := range asked {
		key := sglangKey(f.Name)
		got, ok := effective[key]
		if !ok || f.Kind == Omitted {
			continue
		}
		if sameValue(key, f, got) {
			continue
		}
		m := Mismatch{Flag: f.Name, Asked: f.Text(), Effective: got}
		for _, r := range sglangRules {
			if r.key == key && r.says(asked, effective) {
				m.Rule = r.text
			}
		}
		out = append(out, m)
	}
	return out
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
