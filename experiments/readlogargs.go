package experiments

import (
	"strconv"
	"strings"

	"specrun/experiments/record"
)

// argFacts makes facts of the "key=value, ..." that SGLang prints of its
// arguments, under the names and in the spelling of the effective configuration
// that is read back from a running server. What is None was not set.
func argFacts(args string) (facts []record.Fact, values map[string]string) {
	values = map[string]string{}
	hide := newRedactor("import", nil) // one salt for all files, so that they can be compared
	for _, pair := range splitArgs(args) {
		key, text, ok := strings.Cut(pair, "=")
		key = strings.TrimSpace(key)
		if !ok || key == "" || strings.ContainsAny(key, " '\"([{") {
			continue
		}
		value := pythonValue(strings.TrimSpace(text))
		if value == "None" || value == "" {
			continue
		}
		value = hide.value(key, value)
		values[key] = value
		facts = append(facts, record.Fact{Group: "flags", Key: key, Value: value})
	}
	return facts, values
}

// splitArgs cuts at the commas outside quotes and brackets.
func splitArgs(s string) []string {
	var out []string
	depth, start := 0, 0
	var quote byte
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0:
			if c == '\\' {
				i++
			} else if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case strings.IndexByte("([{<", c) >= 0:
			depth++
		case strings.IndexByte(")]}>", c) >= 0:
			depth--
		case c == ',' && depth <= 0:
			out = append(out, s[start:i])
			start = i + 1
		}
	}
	return append(out, s[start:])
}

// pythonValue turns a printed value into the text that JSON has for it, strings
// without their quotes.
func pythonValue(s string) string {
	switch s {
	case "True":
		return "true"
	case "False":
		return "false"
	}
	if n := len(s); n >= 2 && (s[0] == '\'' || s[0] == '"') && s[n-1] == s[0] {
		inner := s[1 : n-1]
		if s[0] == '\'' {
			inner = strings.ReplaceAll(strings.ReplaceAll(inner, `\'`, `'`), `"`, `\"`)
		}
		if u, err := strconv.Unquote(`"` + inner + `"`); err == nil {
			return u
		}
		return s[1 : n-1]
	}
	return s
}
