package engine

import (
	"encoding/json"
	"regexp"
	"strings"
)

// pyNumber is a number as Python and JSON print it: "08" is text.
var pyNumber = regexp.MustCompile(`^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?$`)

// pyReader reads what Python prints of a value (its repr): literals, calls of
// constructors with named arguments, and objects in angle brackets. What it does
// not know is text as it stands; it never fails, for a log line may be cut.
type pyReader struct{ rest string }

// pyValue reads one value; maps are map[string]any, numbers json.Number.
func pyValue(s string) any {
	r := &pyReader{s}
	return r.value(0)
}

// pyArguments reads "name=value, name=value, ..." as far as it goes on like that.
func pyArguments(s string) map[string]any {
	r := &pyReader{s}
	return r.arguments(0)
}

// maxDepth bounds the nesting of what is read.
const maxDepth = 50

func (r *pyReader) space() { r.rest = strings.TrimLeft(r.rest, " \t") }

func (r *pyReader) take(prefix string) bool {
	r.space()
	rest, ok := strings.CutPrefix(r.rest, prefix)
	r.rest = rest
	return ok
}

func (r *pyReader) value(depth int) any {
	r.space()
	if r.rest == "" || depth > maxDepth {
		r.rest = ""
		return ""
	}
	switch c := r.rest[0]; c {
	case '\'', '"':
		return r.quoted()
	case '{':
		r.rest = r.rest[1:]
		return r.dict(depth)
	case '[', '(':
		r.rest = r.rest[1:]
		return r.list(depth, map[byte]string{'[': "]", '(': ")"}[c])
	case '<':
		return r.object()
	}
	end := strings.IndexAny(r.rest, ",)]}(")
	if end < 0 {
		end = len(r.rest)
	}
	word := strings.TrimSpace(r.rest[:end])
	if end < len(r.rest) && r.rest[end] == '(' && word != "" && !strings.ContainsAny(word, " :=") {
		r.rest = r.rest[end+1:]
		out := r.arguments(depth + 1)
		r.take(")")
		return out
	}
	if end < len(r.rest) && r.rest[end] == '(' { // an opening bracket within a text
		end++
		word = strings.TrimSpace(r.rest[:end])
	}
	r.rest = r.rest[end:]
	return bareWord(word)
}

func bareWord(word string) any {
	switch word {
	case "True", "true":
		return true
	case "False", "false":
		return false
	case "None", "null":
		return nil
	}
	if pyNumber.MatchString(word) {
		return json.Number(word)
	}
	return word
}

var pyEscapes = map[byte]byte{'n': '\n', 't': '\t', 'r': '\r'}

func (r *pyReader) quoted() string {
	quote := r.rest[0]
	var b strings.Builder
	for i := 1; i < len(r.rest); i++ {
		switch c := r.rest[i]; {
		case c == quote:
			r.rest = r.rest[i+1:]
			return b.String()
		case c == '\\' && i+1 < len(r.rest):
			i++
			c = r.rest[i]
			if e, ok := pyEscapes[c]; ok {
				c = e
			}
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	r.rest = ""
	return b.String()
}

func (r *pyReader) dict(depth int) any {
	out := map[string]any{}
	var set []any
	for r.rest != "" && !r.take("}") {
		key := r.value0(depth + 1)
		if r.take(":") {
			out[key] = r.value(depth + 1)
		} else {
			set = append(set, key)
		}
		if !r.take(",") && !r.atEnd('}') {
			r.rest = ""
		}
	}
	if len(out) == 0 && set != nil {
		return set
	}
	return out
}

// value0 is a key: like a value, but a bare one ends at a colon.
func (r *pyReader) value0(depth int) string {
	r.space()
	if r.rest != "" && !strings.ContainsRune(`'"{[(<`, rune(r.rest[0])) {
		end := strings.IndexAny(r.rest, ":,}")
		if end < 0 {
			end = len(r.rest)
		}
		word := strings.TrimSpace(r.rest[:end])
		r.rest = r.rest[end:]
		return word
	}
	text, err := plainJSON(r.value(depth))
	if err != nil {
		return ""
	}
	return text
}

func (r *pyReader) atEnd(c byte) bool {
	r.space()
	return r.rest != "" && r.rest[0] == c
}

func (r *pyReader) list(depth int, end string) []any {
	out := []any{}
	for r.rest != "" && !r.take(end) {
		out = append(out, r.value(depth+1))
		if !r.take(",") && !r.atEnd(end[0]) {
			r.rest = ""
		}
	}
	return out
}

// object is "<Enum.NAME: 'value'>", which means its value, or text that only
// says what it is.
func (r *pyReader) object() any {
	depth, end := 0, -1
	for i := range len(r.rest) {
		switch r.rest[i] {
		case '<':
			depth++
		case '>':
			depth--
		}
		if depth == 0 {
			end = i
			break
		}
	}
	if end < 0 {
		end = len(r.rest) - 1
	}
	text := r.rest[:end+1]
	r.rest = r.rest[end+1:]
	if _, v, ok := strings.Cut(strings.Trim(text, "<>"), ": "); ok {
		return pyValue(v)
	}
	return text
}

var pyName = regexp.MustCompile(`^[A-Za-z_]\w*=`)

func (r *pyReader) arguments(depth int) map[string]any {
	out := map[string]any{}
	for {
		r.space()
		name := pyName.FindString(r.rest)
		if name == "" {
			return out
		}
		r.rest = r.rest[len(name):]
		out[strings.TrimSuffix(name, "=")] = r.value(depth)
		if !r.take(",") {
			return out
		}
	}
}
