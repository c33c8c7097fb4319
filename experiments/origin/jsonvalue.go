package origin

import (
	"bytes"
	"encoding/json"
	"io"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// jsonValue is a JSON value with the order of its members and the text of its
// numbers.
type jsonValue struct {
	kind   byte // { [ or s for a scalar
	names  []string
	values []jsonValue
	text   string // of a scalar, as it is in JSON
	word   string // of a string, decoded
	quoted bool
}

// parseJSON reads a JSON object; false for anything else.
func parseJSON(text string) (jsonValue, bool) {
	if !strings.HasPrefix(strings.TrimSpace(text), "{") {
		return jsonValue{}, false
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	v, ok := readJSON(dec)
	if _, err := dec.Token(); !ok || err != io.EOF {
		return jsonValue{}, false
	}
	return v, true
}

func readJSON(dec *json.Decoder) (jsonValue, bool) {
	t, err := dec.Token()
	if err != nil {
		return jsonValue{}, false
	}
	v := jsonValue{kind: 's'}
	switch t := t.(type) {
	case json.Delim:
		v.kind = byte(t)
		for dec.More() {
			if t == '{' {
				name, err := dec.Token()
				word, isText := name.(string)
				if err != nil || !isText {
					return v, false
				}
				v.names = append(v.names, word)
			}
			inner, ok := readJSON(dec)
			if !ok {
				return v, false
			}
			v.values = append(v.values, inner)
		}
		_, err := dec.Token()
		return v, err == nil
	case string:
		v.word, v.quoted = t, true
		v.text = quoteJSON(t)
	case json.Number:
		v.text = t.String()
	case bool:
		v.text = strconv.FormatBool(t)
	default:
		v.text = "null"
	}
	return v, true
}

// quoteJSON writes a text as the experiment file's maps are rendered.
func quoteJSON(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(s) != nil {
		return "" // a string always encodes
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// compact is the value as a map of an experiment file becomes an argument.
func (v jsonValue) compact() string {
	var parts []string
	for i, inner := range v.values {
		text := inner.compact()
		if v.kind == '{' {
			text = quoteJSON(v.names[i]) + ":" + text
		}
		parts = append(parts, text)
	}
	switch v.kind {
	case '{':
		return "{" + strings.Join(parts, ",") + "}"
	case '[':
		return "[" + strings.Join(parts, ",") + "]"
	}
	return v.text
}

// member is the text of an object's member that is a scalar.
func (v jsonValue) member(name string) string {
	for i, n := range v.names {
		if n == name && v.values[i].kind == 's' && !v.values[i].quoted {
			return v.values[i].text
		}
	}
	return ""
}

// isMap says that the experiment file can hold the value as a map, and makes the
// very same text of it: without blanks, each member once, and none of the forms
// that mean something else there.
func (v jsonValue) isMap(text string) bool {
	if v.compact() != text {
		return false
	}
	only := func(names ...string) bool {
		for _, n := range names {
			found := false
			for _, o := range v.names {
				found = found || o == n
			}
			if !found {
				return false
			}
		}
		return len(v.names) == len(names)
	}
	return !only("repeat") && !only("join", "values") && v.regular()
}

func (v jsonValue) regular() bool {
	seen := map[string]bool{}
	for _, n := range v.names {
		if seen[n] || n == "<<" {
			return false
		}
		seen[n] = true
	}
	for _, inner := range v.values {
		if !inner.regular() {
			return false
		}
	}
	if v.kind == 's' && !v.quoted && v.text != "null" && v.text != "true" && v.text != "false" {
		_, err := strconv.ParseFloat(v.text, 64)
		return err == nil
	}
	return true
}

// node writes the value as YAML; template stands for the member of that name of
// the outermost object.
func (v jsonValue) node(member, template string) *yaml.Node {
	switch v.kind {
	case '{':
		n := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
		for i, inner := range v.values {
			value := inner.node("", "")
			if member != "" && v.names[i] == member {
				value = quotedNode(template)
			}
			n.Content = append(n.Content, node(v.names[i]), value)
		}
		return n
	case '[':
		n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, inner := range v.values {
			n.Content = append(n.Content, inner.node("", ""))
		}
		return n
	}
	if !v.quoted {
		return &yaml.Node{Kind: yaml.ScalarNode, Value: v.text}
	}
	n := scalar(v.word)
	if n.Style == 0 && v.word != "" && strings.Trim(v.word, "-+.0123456789eE") == "" {
		n.Style, n.Tag = yaml.SingleQuotedStyle, "!!str" // a number in quotes stays a text
	}
	if n.Style == 0 && strings.ContainsAny(v.word, ",") {
		n.Style, n.Tag = yaml.SingleQuotedStyle, "!!str"
	}
	return n
}

// quotedNode is a template within { } or [ ], where it needs quotes.
func quotedNode(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Value: text, Style: yaml.DoubleQuotedStyle, Tag: "!!str"}
}
