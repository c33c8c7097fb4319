package experiments

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Duration is a time.Duration that JSON holds as text, 2m0s.
type Duration time.Duration

// MarshalJSON writes the duration as text.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	v, err := time.ParseDuration(text)
	*d = Duration(v)
	return err
}

// BenchPlan is the benchmark of one cell, all values known.
type BenchPlan struct {
	Driver      string   `json:"driver"`
	Where       string   `json:"where"` // host or controller
	Endpoint    string   `json:"endpoint"`
	Prompts     string   `json:"prompts"`
	Requests    int      `json:"requests"`
	Concurrency int      `json:"concurrency"`
	MaxTokens   int      `json:"max_tokens"`
	IgnoreEOS   bool     `json:"ignore_eos"`
	Temperature float64  `json:"temperature"`
	Warmup      Warmup   `json:"warmup"`
	Seed        int64    `json:"seed"`
	Stall       Duration `json:"stall"` // longest time without a token
	Quotable    bool     `json:"quotable"`
}

func defaultBench() BenchPlan {
	return BenchPlan{Driver: "openai", Where: "host", Endpoint: "chat", Prompts: "builtin:chat", Requests: 16, Concurrency: 1,
		MaxTokens: 512, Warmup: WarmupAuto, Seed: 1, Stall: Duration(2 * time.Minute)}
}

// benchFields are the keys of the bench block, in the file and as bench.KEY.
var benchFields = map[string]func(*BenchPlan, Scalar) error{
	"driver":      benchWord(func(b *BenchPlan) *string { return &b.Driver }, "openai"),
	"where":       benchWord(func(b *BenchPlan) *string { return &b.Where }, "host", "controller"),
	"endpoint":    benchWord(func(b *BenchPlan) *string { return &b.Endpoint }, "chat", "completions", "generate"),
	"prompts":     benchWord(func(b *BenchPlan) *string { return &b.Prompts }),
	"requests":    benchInt(func(b *BenchPlan) *int { return &b.Requests }, 1),
	"concurrency": benchInt(func(b *BenchPlan) *int { return &b.Concurrency }, 1),
	"max_tokens":  benchInt(func(b *BenchPlan) *int { return &b.MaxTokens }, 1),
	"warmup":      benchWarmup,
	"ignore_eos":  benchBool(func(b *BenchPlan) *bool { return &b.IgnoreEOS }),
	"quotable":    benchBool(func(b *BenchPlan) *bool { return &b.Quotable }),
	"temperature": func(b *BenchPlan, s Scalar) error {
		switch v := s.Value.(type) {
		case int64:
			b.Temperature = float64(v)
		case float64:
			b.Temperature = v
		default:
			return fmt.Errorf("must be a number, not %q", s.Text)
		}
		if b.Temperature < 0 {
			return fmt.Errorf("must not be negative, as %s is", s.Text)
		}
		return nil
	},
	"seed": func(b *BenchPlan, s Scalar) error {
		v, ok := s.Value.(int64)
		if !ok {
			return fmt.Errorf("must be a whole number, not %q", s.Text)
		}
		b.Seed = v
		return nil
	},
	"stall": func(b *BenchPlan, s Scalar) error {
		v, err := parseDuration(s.Text)
		if err != nil {
			return fmt.Errorf("%w: for example 90s or 2m", err)
		}
		b.Stall = Duration(v)
		return nil
	},
}

func benchWord(at func(*BenchPlan) *string, known ...string) func(*BenchPlan, Scalar) error {
	return func(b *BenchPlan, s Scalar) error {
		if s.IsNull() || s.Text == "" {
			return fmt.Errorf("is empty")
		}
		if len(known) > 0 && !slices.Contains(known, s.Text) {
			return fmt.Errorf("must be %s, not %q", strings.Join(known, " or "), s.Text)
		}
		*at(b) = s.Text
		return nil
	}
}

func benchInt(at func(*BenchPlan) *int, low int64) func(*BenchPlan, Scalar) error {
	return func(b *BenchPlan, s Scalar) error {
		v, ok := s.Value.(int64)
		if !ok {
			return fmt.Errorf("must be a whole number, not %q", s.Text)
		}
		if v < low || v > 1<<31-1 {
			return fmt.Errorf("must be at least %d, not %d", low, v)
		}
		*at(b) = int(v)
		return nil
	}
}

func benchBool(at func(*BenchPlan) *bool) func(*BenchPlan, Scalar) error {
	return func(b *BenchPlan, s Scalar) error {
		v, ok := s.Value.(bool)
		if !ok {
			return fmt.Errorf("must be true or false, not %q", s.Text)
		}
		*at(b) = v
		return nil
	}
}

// idleNotes says where a benchmark has fewer requests than it is to have at work
// at once: it would measure a smaller batch than its name says.
func idleNotes(cells []Cell) (out []string) {
	const enough = 4 // rounds of requests: ramp and drain weigh less then
	for _, c := range cells {
		b := c.Bench
		if b.Requests >= b.Concurrency {
			continue
		}
		text := fmt.Sprintf("bench.requests=%d is less than bench.concurrency=%d: no more than %d are at work at once; bench.requests=%d fills it",
			b.Requests, b.Concurrency, b.Requests, enough*b.Concurrency)
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}
