package yamlplace

import (
	"errors"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// The library's own errors are asked: another wording of a newer release shows
// here, and not in what users are told.
func TestOf_FindsTheLineOfTheLibrary(t *testing.T) {
	for text, want := range map[string]int{
		"a: 1\nb:\n\t- x\n":   3,
		"a: 1\nb: 2\n c: 3\n": 3,
	} {
		err := yaml.Unmarshal([]byte(text), &yaml.Node{})
		if err == nil {
			t.Errorf("%q: no error", text)
			continue
		}
		if line, msg := Of(err); line != want || msg == "" || strings.Contains(msg, "yaml") || strings.Contains(msg, "line ") {
			t.Errorf("%q: line %d, %q of %v", text, line, msg, err)
		}
	}
}

func TestOf_WithoutALineKeepsTheText(t *testing.T) {
	for text, want := range map[string]string{
		"yaml: control characters are not allowed": "control characters are not allowed",
		"something else":                        "something else",
		"yaml: line 99999999999999999999: huge": "line 99999999999999999999: huge",
	} {
		if line, msg := Of(errors.New(text)); line != 0 || msg != want {
			t.Errorf("%q: line %d, %q", text, line, msg)
		}
	}
}
