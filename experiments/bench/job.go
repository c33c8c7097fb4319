package bench

import (
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Phases of a job.
const (
	PhaseWarm    = "warm"    // the warm-up requests only
	PhaseMeasure = "measure" // the measured requests only
	PhaseBoth    = ""        // warm-up, then measured
)

// Endpoints of the driver.
const (
	EndpointChat        = "chat"        // POST /v1/chat/completions
	EndpointCompletions = "completions" // POST /v1/completions
	// EndpointGenerate is SGLang's own route, POST /generate: the prompt as it
	// is, no chat template. Also versions that tell nothing of speculation
	// elsewhere tell here how many verify steps each request took.
	EndpointGenerate = "generate"
)

// Job is one benchmark: what to send, how often and to whom. It is all that a
// worker needs to know.
type Job struct {
	BaseURL     string        `json:"base_url"` // http://127.0.0.1:30000, as seen by whoever does the work
	Endpoint    string        `json:"endpoint"`
	Model       string        `json:"model"`
	Prompts     string        `json:"prompts"`         // builtin:chat, or the name of what Texts holds
	Texts       []string      `json:"texts,omitempty"` // prompts that are not built in
	Requests    int           `json:"requests"`
	Concurrency int           `json:"concurrency"`
	MaxTokens   int           `json:"max_tokens"`
	Warmup      int           `json:"warmup"`                // requests before the measured ones, with other prompts
	WarmupAuto  bool          `json:"warmup_auto,omitempty"` // until they agree, instead of Warmup
	IgnoreEOS   bool          `json:"ignore_eos"`
	Temperature float64       `json:"temperature"`
	Seed        int64         `json:"seed"`
	Stall       time.Duration `json:"stall_ns"` // longest time without a token of any request; 0 = no limit
	Phase       string        `json:"phase"`
	LogPath     string        `json:"log_path,omitempty"` // server log, whose size marks the measured part
	// LogEvery is how often the server prints what it did meanwhile, when it does so
	// by the clock: the log is read until so long after the last response. 0: its
	// last lines come with the responses.
	LogEvery time.Duration `json:"log_every_ns,omitempty"`
	Watch    *Watch        `json:"watch,omitempty"` // what to look at on this machine meanwhile; nil: nothing
}

// Check says what is wrong with a job before anything is sent.
func (j Job) Check() error {
	u, err := url.Parse(j.BaseURL)
	switch {
	case err != nil:
		return fmt.Errorf("benchmark: base URL: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("benchmark: base URL %q: want http://HOST:PORT", j.BaseURL)
	case j.Endpoint != EndpointChat && j.Endpoint != EndpointCompletions && j.Endpoint != EndpointGenerate:
		return fmt.Errorf("benchmark: endpoint %q: want chat, completions or generate", j.Endpoint)
	case j.Phase != PhaseWarm && j.Phase != PhaseMeasure && j.Phase != PhaseBoth:
		return fmt.Errorf("benchmark: phase %q: want warm or measure", j.Phase)
	case j.Concurrency < 1:
		return fmt.Errorf("benchmark: concurrency %d: want 1 or more", j.Concurrency)
	case j.MaxTokens < 1:
		return fmt.Errorf("benchmark: max_tokens %d: want 1 or more", j.MaxTokens)
	case j.Requests < 1 && j.Phase != PhaseWarm:
		return fmt.Errorf("benchmark: requests %d: want 1 or more", j.Requests)
	case j.Warmup < 0 || j.Stall < 0:
		return fmt.Errorf("benchmark: warmup and stall must not be negative")
	}
	_, err = j.prompts()
	return err
}

func (j Job) path() string {
	switch j.Endpoint {
	case EndpointCompletions:
		return "/v1/completions"
	case EndpointGenerate:
		return "/generate"
	}
	return "/v1/chat/completions"
}

func (j Job) url() string { return strings.TrimRight(j.BaseURL, "/") + j.path() }
