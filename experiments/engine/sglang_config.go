package engine

import (
	"context"
	"fmt"
	"net/http"
)

// EffectiveConfig implements Engine. What changes while the server works
// (internal_states) is left out.
func (sglang) EffectiveConfig(ctx context.Context, client *http.Client, base string, _ StartLog) (map[string]string, error) {
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

// Model implements Engine.
func (sglang) Model(ctx context.Context, client *http.Client, base string) (string, error) {
	return firstModel(ctx, client, base)
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
