package lab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// SettingNames are the names that Set knows, in the order of documentation.
func SettingNames() []string {
	var names []string
	for f := range reflect.TypeFor[Settings]().Fields() {
		names = append(names, f.Tag.Get("json"))
	}
	return names
}

// Setting is what a person wants to know of one.
type Setting struct{ Name, Default, Help string }

// SettingList describes the settings, in the order of documentation. The unit is
// the end of the name: ms are nominal milliseconds, pct is percent.
func SettingList() []Setting {
	var list []Setting
	defaults, err := site.ReadFile("site/specrun_lab/default.json")
	values := map[string]json.RawMessage{}
	if err == nil {
		err = json.Unmarshal(defaults, &values)
	}
	if err != nil {
		panic("the practice host's own settings: " + err.Error()) // they are part of the program
	}
	for f := range reflect.TypeFor[Settings]().Fields() {
		name := f.Tag.Get("json")
		list = append(list, Setting{name, strings.ReplaceAll(string(values[name]), " ", ""), settingHelp(name)})
	}
	return list
}

func settingHelp(name string) string {
	switch name {
	case "scale":
		return "factor on every time of the model"
	case "seed":
		return "of the noise; 0: other noise each start"
	case "draft_step_ms":
		return "each draft step"
	case "verify_base_ms":
		return "verify"
	case "verify_token_ms":
		return "verify, more for each position"
	case "extend_ms":
		return "draft re-extend"
	case "host_extend_ms":
		return "host work before the re-extend"
	case "host_draft_ms":
		return "host work behind the re-extend"
	case "host_verify_ms":
		return "host work behind the draft"
	case "plain_token_ms":
		return "a token without speculation"
	case "plain_host_ms":
		return "its host work"
	case "prefill_ms":
		return "prefill of a request"
	case "nccl_verify_ms":
		return "verify, more without NCCL_PROTO=LL"
	case "nccl_plain_ms":
		return "the same for a plain token"
	case "acceptance":
		return "probability of each draft position"
	case "sync_cost_ms":
		return "each synchronize"
	case "context_slope_pct":
		return "more verify per 1000 tokens"
	case "cycle_noise_pct":
		return "deviation from cycle to cycle"
	case "launch_noise_pct":
		return "deviation from start to start"
	case "behind_ms":
		return "most that a server may lag"
	case "load_ms":
		return "loading of weights"
	case "failures":
		return `[{"kind":"crash","steps":2}]: servers that
                                           fail: crash, never-ready, stall, die`
	}
	return ""
}

// Set changes one setting by its name in the settings file (dashes may stand
// for underscores): a number, a list of numbers as 0.9,0.8 for acceptance, JSON
// for failures. On error the settings are as before.
func (s *Settings) Set(name, value string) error {
	key := strings.ReplaceAll(name, "-", "_")
	if !slices.Contains(SettingNames(), key) {
		return fmt.Errorf("lab setting %q is unknown: there are %s", name, strings.Join(SettingNames(), ", "))
	}
	text := value
	if key == "acceptance" && !strings.HasPrefix(value, "[") {
		text = "[" + value + "]"
	}
	bad := fmt.Errorf("lab setting %s: %q is not a usable value", name, value)
	if !json.Valid([]byte(text)) { // on its own: what is composed below must not hold a second setting
		return bad
	}
	next := *s
	next.Acceptance, next.Failures = nil, nil // decoding must not write into what s points to
	d := json.NewDecoder(bytes.NewReader([]byte(fmt.Sprintf("{%q: %s}", key, text))))
	d.DisallowUnknownFields()
	if err := d.Decode(&next); err != nil {
		return bad
	}
	if key != "acceptance" {
		next.Acceptance = s.Acceptance
	}
	if key != "failures" {
		next.Failures = s.Failures
	}
	if err := next.Validate(); err != nil {
		return err
	}
	*s = next
	return nil
}
