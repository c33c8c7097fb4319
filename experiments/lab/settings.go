package lab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
)

// Settings are the numbers of the practice host. Times are nominal
// milliseconds before Scale. A server reads them once, when it starts, so a
// change holds from the next start on.
type Settings struct {
	Scale float64 `json:"scale"` // multiplies every model time
	Seed  int64   `json:"seed"`  // 0: other noise with every start; else it depends on this and the launch's id

	DraftStep   float64 `json:"draft_step_ms"`   // device, per draft step
	VerifyBase  float64 `json:"verify_base_ms"`  // device
	VerifyToken float64 `json:"verify_token_ms"` // device, per verified position (steps + 1 with topk 1)
	Extend      float64 `json:"extend_ms"`       // device, draft re-extend
	HostExtend  float64 `json:"host_extend_ms"`  // host, before the re-extend; exposed: the device is idle
	HostDraft   float64 `json:"host_draft_ms"`   // host, hidden behind the re-extend
	HostVerify  float64 `json:"host_verify_ms"`  // host, hidden behind the draft

	PlainToken float64 `json:"plain_token_ms"` // one token without speculation, PlainHost included
	PlainHost  float64 `json:"plain_host_ms"`
	Prefill    float64 `json:"prefill_ms"`

	NCCLVerify float64 `json:"nccl_verify_ms"` // added to verify unless NCCL_PROTO=LL
	NCCLPlain  float64 `json:"nccl_plain_ms"`  // added to a plain token unless NCCL_PROTO=LL

	// Acceptance is the probability of each draft position, given that the one
	// before was accepted; the last one stands for all that follow.
	Acceptance []float64 `json:"acceptance"`

	SyncCost     float64 `json:"sync_cost_ms"`            // of each synchronize, on top of waiting for the device
	ContextSlope float64 `json:"context_slope_pct"`       // percent of verify per 1,000 tokens of sequence
	PlainSlope   float64 `json:"plain_context_slope_pct"` // the same of a plain token
	BatchRequest float64 `json:"batch_request_ms"`        // device, per cycle for each request of a batch but the first
	CycleNoise   float64 `json:"cycle_noise_pct"`         // standard deviation of one factor per cycle
	LaunchNoise  float64 `json:"launch_noise_pct"`        // standard deviation of one factor per server start

	// Drift of all times with the servers started since the settings were
	// written: so many percent more with each, and Drift percent more for all
	// that DriftAfter others went before.
	DriftEach  float64 `json:"drift_pct_per_launch"`
	Drift      float64 `json:"drift_pct"`
	DriftAfter int     `json:"drift_after_launches"`

	// Behind is how far a server may be behind the wall clock before it gives
	// up catching up and sets its clock anew; it is not scaled. On a machine
	// with more work than cores a higher value keeps the mean cycle right.
	Behind float64 `json:"behind_ms"`

	Load        float64     `json:"load_ms"`      // loading of weights
	PrefixCache bool        `json:"prefix_cache"` // prompts seen before are not computed again; --disable-radix-cache turns it off
	Stops       []EarlyStop `json:"stops"`

	// What nvidia-smi says. Without cards it says that there is no driver.
	Cards       int     `json:"gpus"`
	CardName    string  `json:"gpu_name"`
	Driver      string  `json:"gpu_driver"`
	Clock       float64 `json:"gpu_clock_mhz"` // of a card in use, and the highest
	Power       float64 `json:"gpu_power_w"`   // limit
	Temperature float64 `json:"gpu_temp_c"`    // of a card in use

	// Throttle is the part of the time in which the clock of a card in use is
	// held down; device work then takes ThrottleSlower percent longer, and
	// nvidia-smi gives ThrottleReason.
	Throttle       float64     `json:"throttle_pct"`
	ThrottleSlower float64     `json:"throttle_slower_pct"`
	ThrottleReason string      `json:"throttle_reason"`
	Neighbours     []Neighbour `json:"neighbours"`

	Failures []Failure `json:"failures"`
}

// EarlyStop ends every answer of a launch early, whatever the request asks for.
type EarlyStop struct {
	Steps  *int `json:"steps,omitempty"` // launches with so many draft steps, 0 without speculation; nil: all
	Tokens int  `json:"tokens"`
}

// DefaultSettings returns what design and documentation give: 2 steps are best.
func DefaultSettings() (Settings, error) {
	src, err := site.ReadFile("site/specrun_lab/default.json")
	if err != nil {
		return Settings{}, fmt.Errorf("default settings: %w", err)
	}
	return decodeSettings("default settings", src)
}

// ReadSettings reads a settings file over the defaults. Unknown keys are errors.
func ReadSettings(path string) (Settings, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return Settings{}, fmt.Errorf("lab settings: %w", err)
	}
	return decodeSettings("lab settings "+path, src)
}

func decodeSettings(name string, src []byte) (Settings, error) {
	var s Settings
	defaults, err := site.ReadFile("site/specrun_lab/default.json")
	if err != nil {
		return s, fmt.Errorf("%s: %w", name, err)
	}
	for _, text := range [][]byte{defaults, src} {
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&s); err != nil {
			return s, fmt.Errorf("%s: %w", name, err)
		}
	}
	return s, s.Validate()
}

// Validate says which setting no server could run with.
func (s Settings) Validate() error {
	for _, f := range []struct {
		name     string
		v        float64
		positive bool
	}{
		{"scale", s.Scale, true},
		{"draft_step_ms", s.DraftStep, false}, {"verify_base_ms", s.VerifyBase, false},
		{"verify_token_ms", s.VerifyToken, false}, {"extend_ms", s.Extend, false},
		{"host_extend_ms", s.HostExtend, false}, {"host_draft_ms", s.HostDraft, false},
		{"host_verify_ms", s.HostVerify, false}, {"plain_token_ms", s.PlainToken, true},
		{"plain_host_ms", s.PlainHost, false}, {"prefill_ms", s.Prefill, false},
		{"nccl_verify_ms", s.NCCLVerify, false}, {"nccl_plain_ms", s.NCCLPlain, false},
		{"sync_cost_ms", s.SyncCost, false}, {"context_slope_pct", s.ContextSlope, false},
		{"cycle_noise_pct", s.CycleNoise, false}, {"launch_noise_pct", s.LaunchNoise, false},
		{"plain_context_slope_pct", s.PlainSlope, false}, {"batch_request_ms", s.BatchRequest, false},
		{"drift_pct_per_launch", s.DriftEach, false}, {"drift_pct", s.Drift, false},
		{"drift_after_launches", float64(s.DriftAfter), false},
		{"behind_ms", s.Behind, true}, {"load_ms", s.Load, false},
	} {
		if f.v < 0 || math.IsNaN(f.v) || math.IsInf(f.v, 0) || (f.positive && f.v == 0) {
			return fmt.Errorf("lab setting %s: %v is not a usable number", f.name, f.v)
		}
	}
	if len(s.Acceptance) == 0 {
		return fmt.Errorf("lab setting acceptance: no position given")
	}
	for i, p := range s.Acceptance {
		if !(p >= 0 && p <= 1) {
			return fmt.Errorf("lab setting acceptance: position %d is %v, not a probability", i+1, p)
		}
	}
	for i, stop := range s.Stops {
		if stop.Tokens < 1 {
			return fmt.Errorf("lab setting stops: number %d: tokens is %d, not at least 1", i+1, stop.Tokens)
		}
	}
	if err := s.validateCards(); err != nil {
		return err
	}
	for i, f := range s.Failures {
		if err := f.validate(); err != nil {
			return fmt.Errorf("lab setting failures: number %d: %w", i+1, err)
		}
	}
	return nil
}

// Cycle is the nominal time of one decode cycle in milliseconds: with so many
// draft steps at topk 1, or of one token without speculation for steps 0.
// syncs says how many synchronizes surround each phase (0 or 2).
func (s Settings) Cycle(steps int, lowLatency bool, syncs int) float64 {
	if steps == 0 {
		t := max(s.PlainToken, s.PlainHost)
		if !lowLatency {
			t += s.NCCLPlain
		}
		return t * s.Scale
	}
	verify := s.VerifyBase + s.VerifyToken*float64(steps+1)
	if !lowLatency {
		verify += s.NCCLVerify
	}
	draft := s.DraftStep * float64(steps)
	if syncs > 0 { // each phase starts with an idle device and waits for its own work
		sum := s.HostDraft + draft + s.HostVerify + verify + s.HostExtend + s.Extend
		return (sum + 3*float64(syncs)*s.SyncCost) * s.Scale
	}
	drafted := max(s.HostExtend+s.Extend, s.HostExtend+s.HostDraft) + draft
	return (max(drafted, s.HostExtend+s.HostDraft+s.HostVerify) + verify) * s.Scale
}

// AcceptLength is the mean number of tokens of a cycle, the bonus included.
func (s Settings) AcceptLength(steps int) float64 {
	total, p := 1.0, 1.0
	for i := range steps {
		p *= s.Acceptance[min(i, len(s.Acceptance)-1)]
		total += p
	}
	return total
}

// write replaces the settings file: a server that starts meanwhile reads the
// old or the new one.
func (s Settings) write(path string) error {
	if err := s.Validate(); err != nil {
		return err
	}
	if s.Failures == nil {
		s.Failures = []Failure{}
	}
	if s.Stops == nil {
		s.Stops = []EarlyStop{}
	}
	if s.Neighbours == nil {
		s.Neighbours = []Neighbour{}
	}
	return writeJSON(path, s)
}

// writeJSON replaces the file in one step.
func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return replaceFile(path, append(text, '\n'), 0o600)
}

// replaceFile writes the file in one step: who reads it meanwhile has the old
// or the new one.
func replaceFile(path string, text []byte, mode os.FileMode) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(text)
	if err == nil {
		err = tmp.Chmod(mode)
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
