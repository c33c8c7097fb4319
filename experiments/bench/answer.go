package bench

import (
	"encoding/json"
	"fmt"
	"strings"
)

// answer collects one streamed answer.
type answer struct {
	q         *Request
	track     tracker
	usage     usage // of the event read last; -1 what it does not say
	reasoning strings.Builder
	content   strings.Builder
}

// event is a chunk of either endpoint. Servers differ in the name of the
// reasoning text.
type event struct {
	Choices []struct {
		Delta struct {
			Content          *string `json:"content"`
			ReasoningContent *string `json:"reasoning_content"`
			Reasoning        *string `json:"reasoning"`
		} `json:"delta"`
		Text         *string         `json:"text"`
		FinishReason *string         `json:"finish_reason"`
		MetaInfo     json.RawMessage `json:"meta_info"`
	} `json:"choices"`
	Usage    *usage          `json:"usage"`
	Text     *string         `json:"text"` // of /generate
	MetaInfo json.RawMessage `json:"meta_info"`
	SGLExt   json.RawMessage `json:"sglext"`
	Error    json.RawMessage `json:"error"`
}

// usage is the count of tokens so far. Plain values, set to -1 before an event
// is read: a server may send one with each token.
type usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	ReasoningTokens  int `json:"reasoning_tokens"`
	PromptDetails    struct {
		CachedTokens int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		ReasoningTokens int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func (u *usage) clear() {
	u.PromptTokens, u.CompletionTokens, u.ReasoningTokens = -1, -1, -1
	u.PromptDetails.CachedTokens, u.CompletionDetails.ReasoningTokens = -1, -1
}

func newAnswer(q *Request) *answer { return &answer{q: q} }

// add takes one event; text says whether it carried any.
func (a *answer) add(data []byte) (text bool, err error) {
	a.usage.clear()
	e := event{Usage: &a.usage}
	if err := json.Unmarshal(data, &e); err != nil {
		return false, fmt.Errorf("an event is no JSON: %w", err)
	}
	if len(e.Error) > 0 && string(e.Error) != "null" {
		return false, fmt.Errorf("the server reports an error: %s", clip(string(e.Error)))
	}
	for _, c := range e.Choices {
		text = put(&a.reasoning, c.Delta.ReasoningContent) || text
		if c.Delta.ReasoningContent == nil {
			text = put(&a.reasoning, c.Delta.Reasoning) || text
		}
		text = put(&a.content, c.Delta.Content) || text
		text = put(&a.content, c.Text) || text
		if c.FinishReason != nil && *c.FinishReason != "" {
			a.q.Finish = *c.FinishReason
		}
		a.server(c.MetaInfo)
	}
	if e.Text != nil {
		return a.generated(*e.Text, e.MetaInfo)
	}
	a.server(e.MetaInfo)
	a.server(e.SGLExt)
	keep(&a.q.OutputTokens, a.usage.CompletionTokens)
	keep(&a.q.PromptTokens, a.usage.PromptTokens)
	keep(&a.q.CachedTokens, a.usage.PromptDetails.CachedTokens)
	keep(&a.q.ReasoningTokens, max(a.usage.ReasoningTokens, a.usage.CompletionDetails.ReasoningTokens))
	return text, nil
}

// server keeps what the response says about speculation in this request.
func (a *answer) server(raw json.RawMessage) {
	if len(raw) == 0 || string(raw) == "null" {
		return
	}
	a.q.Server = append(json.RawMessage(nil), raw...)
	var known struct {
		VerifyCt *int `json:"spec_verify_ct"`
		Details  *struct {
			VerifyCt *int `json:"spec_verify_ct"`
		} `json:"spec_tokens_details"`
	}
	if json.Unmarshal(raw, &known) != nil {
		return // another shape: kept as sent
	}
	set(&a.q.VerifyCalls, known.VerifyCt)
	if known.Details != nil {
		set(&a.q.VerifyCalls, known.Details.VerifyCt)
	}
}

// close fills in what is known once the text is whole.
func (a *answer) close() {
	reasoning, content := a.reasoning.String(), a.content.String()
	if reasoning == "" && content == "" {
		return
	}
	a.q.OutputSHA = hashTexts([]string{reasoning, content})
	a.q.Output = strings.ToValidUTF8((reasoning + content)[:min(len(reasoning)+len(content), maxOutput)], "")
}

func put(b *strings.Builder, s *string) bool {
	if s == nil || *s == "" {
		return false
	}
	b.WriteString(*s)
	return true
}

// keep takes a count that is known.
func keep(to *int, v int) {
	if v >= 0 {
		*to = v
	}
}

func set(to *int, v *int) {
	if v != nil {
		*to = *v
	}
}

func clip(s string) string {
	if len(s) > 500 {
		return strings.ToValidUTF8(s[:500], "") + "..."
	}
	return s
}
