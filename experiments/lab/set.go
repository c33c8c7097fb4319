package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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
	values := map[string]any{}
	if err == nil {
		err = json.Unmarshal(defaults, &values)
	}
	if err != nil {
		panic("the practice host's own settings: " + err.Error()) // they are part of the program
	}
	for f := range reflect.TypeFor[Settings]().Fields() {
		name := f.Tag.Get("json")
		text, ok := values[name].(string)
		if !ok {
			plain, err := json.Marshal(values[name])
			if err != nil {
				panic("the practice host's own settings: " + err.Error())
			}
			text = string(plain)
		}
		list = append(list, Setting{name, text, settingHelp[name]})
	}
	return list
}

// Changed lists the settings of the practice host in dir that are not the
// defaults, as NAME=VALUE in the order of documentation; none where no settings
// are kept yet.
func Changed(dir string) ([]string, error) {
	now, err := ReadSettings(layout(dir).settings())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defaults, err := DefaultSettings()
	if err != nil {
		return nil, err
	}
	var out []string
	have, usual := reflect.ValueOf(now), reflect.ValueOf(defaults)
	for i, name := range SettingNames() {
		value := have.Field(i)
		if value.Kind() == reflect.Slice && value.Len() == 0 && usual.Field(i).Len() == 0 || reflect.DeepEqual(value.Interface(), usual.Field(i).Interface()) {
			continue
		}
		text, err := json.Marshal(value.Interface())
		if err != nil {
			return nil, fmt.Errorf("lab setting %s: %w", name, err)
		}
		out = append(out, name+"="+string(text))
	}
	return out, nil
}

var settingHelp = map[string]string{
	"scale":                   "factor on every time of the model",
	"seed":                    "of the noise; 0: other noise each start",
	"draft_step_ms":           "each draft step",
	"verify_base_ms":          "verify",
	"verify_token_ms":         "verify, more for each position",
	"extend_ms":               "draft re-extend",
	"host_extend_ms":          "host work before the re-extend",
	"host_draft_ms":           "host work behind the re-extend",
	"host_verify_ms":          "host work behind the draft",
	"plain_token_ms":          "a token without speculation",
	"plain_host_ms":           "its host work",
	"prefill_ms":              "prefill of a request",
	"nccl_verify_ms":          "verify, more without NCCL_PROTO=LL",
	"nccl_plain_ms":           "the same for a plain token",
	"acceptance":              "probability of each draft position",
	"sync_cost_ms":            "each synchronize",
	"context_slope_pct":       "more verify per 1000 tokens",
	"plain_context_slope_pct": "the same for a plain token",
	"batch_request_ms":        "each further request of a batch",
	"cycle_noise_pct":         "deviation from cycle to cycle",
	"launch_noise_pct":        "deviation from start to start",
	"drift_pct_per_launch":    "all times, more with each start",
	"drift_pct":               "all times, more from some start on",
	"drift_after_launches":    "starts before drift_pct comes",
	"behind_ms":               "most that a server may lag",
	"load_ms":                 "loading of weights",
	"prefix_cache":            "known prompts are not computed again",
	"stops": `[{"steps":3,"tokens":52}]: answers
                                               that end by then`,
	"gpus":                "cards; 0: no driver",
	"gpu_name":            "what nvidia-smi says",
	"gpu_driver":          "the same, its version",
	"gpu_clock_mhz":       "of a card in use",
	"gpu_power_w":         "power limit",
	"gpu_temp_c":          "of a card in use",
	"throttle_pct":        "of the time with the clock held down",
	"throttle_slower_pct": "device work then takes more",
	"throttle_reason":     "why, as nvidia-smi names it",
	"neighbours": `[{"gpu":0,"mib":9000,"name":"train"}]:
                                               others on a card while a server runs
                                               ("always":true: all the time)`,
	"failures": "servers that go wrong, see below",
}

// Set changes one setting by its name in the settings file (dashes may stand
// for underscores): a number, true or false, a text, a list of numbers as
// 0.9,0.8 for acceptance, else JSON. On error the settings are as before.
func (s *Settings) Set(name, value string) error {
	key := strings.ReplaceAll(name, "-", "_")
	at := slices.Index(SettingNames(), key)
	if at < 0 {
		return fmt.Errorf("lab setting %q is unknown: there are %s", name, strings.Join(SettingNames(), ", "))
	}
	next := *s
	field := reflect.ValueOf(&next).Elem().Field(at)
	text := value
	switch {
	case field.Kind() == reflect.String && !strings.HasPrefix(value, `"`):
		quoted, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("lab setting %s: %w", name, err)
		}
		text = string(quoted)
	case key == "acceptance" && !strings.HasPrefix(value, "["):
		text = "[" + value + "]"
	}
	if text == "null" || !json.Valid([]byte(text)) { // on its own: the decoder below reads only the first value
		return fmt.Errorf("lab setting %s: %q is not a usable value", name, value)
	}
	into := reflect.New(field.Type()) // a new one: decoding must not write into what s points to
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into.Interface()); err != nil {
		return fmt.Errorf("lab setting %s: %q is not a usable value: %w", name, value, err)
	}
	field.Set(into.Elem())
	if err := next.Validate(); err != nil {
		return err
	}
	*s = next
	return nil
}
