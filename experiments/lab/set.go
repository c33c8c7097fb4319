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
