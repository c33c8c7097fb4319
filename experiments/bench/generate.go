package bench

import (
	"encoding/json"
	"fmt"
	"strings"
)

// metaInfo is what /generate says beside the text.
type metaInfo struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	CachedTokens     int `json:"cached_tokens"`
	FinishReason     *struct {
		Type string `json:"type"`
	} `json:"finish_reason"`
}

// generated takes an event of /generate. It carries the text from the beginning
// or, from a server that is told so, only what is new.
func (a *answer) generated(text string, raw json.RawMessage) (isNew bool, err error) {
	meta := metaInfo{PromptTokens: -1, CompletionTokens: -1, CachedTokens: -1}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &meta); err != nil {
			return false, fmt.Errorf("meta_info: %w", err)
		}
	}
	a.usage.CompletionTokens = meta.CompletionTokens
	keep(&a.q.OutputTokens, meta.CompletionTokens)
	keep(&a.q.PromptTokens, meta.PromptTokens)
	keep(&a.q.CachedTokens, meta.CachedTokens)
	if meta.FinishReason != nil {
		a.q.Finish = meta.FinishReason.Type
		a.server(raw)
		if meta.FinishReason.Type == "abort" {
			return false, fmt.Errorf("the server aborted the request: %s", clip(string(raw)))
		}
	}
	text = strings.TrimPrefix(text, a.content.String())
	a.content.WriteString(text)
	return text != "", nil
}
