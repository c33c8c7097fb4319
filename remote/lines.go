package remote

import "strings"

// Line is one line "key value" of a script's output; the value is all behind
// the first blank.
type Line struct{ Key, Value string }

// Lines reads what a script printed; empty lines are left out.
func Lines(out []byte) []Line {
	var lines []Line
	for text := range strings.Lines(string(out)) {
		text = strings.TrimSuffix(text, "\n")
		if text == "" {
			continue
		}
		key, value, _ := strings.Cut(text, " ")
		lines = append(lines, Line{key, value})
	}
	return lines
}
