package experiments

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// decoder walks a YAML document and says where it does not fit.
type decoder struct{ file string }

// field decodes one node; name is its full name, for messages.
type field func(n *yaml.Node, name string) error

func (d *decoder) fail(n *yaml.Node, name, advice, format string, args ...any) error {
	return &SpecError{File: d.file, Line: n.Line, Column: n.Column, Field: name, Msg: fmt.Sprintf(format, args...), Advice: advice}
}

// document parses the one document of a file.
func (d *decoder) document(src string) (*yaml.Node, error) {
	if err := d.utf8(src); err != nil {
		return nil, err
	}
	dec := yaml.NewDecoder(strings.NewReader(src))
	var doc yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, &SpecError{File: d.file, Msg: "the file is empty", Advice: "specrun init writes a commented experiment file"}
	case err != nil:
		return nil, d.syntax(err)
	}
	var second yaml.Node
	switch err := dec.Decode(&second); {
	case err == nil:
		return nil, d.fail(&second, "", "one experiment a file", "a second document begins here")
	case !errors.Is(err, io.EOF):
		return nil, d.syntax(err)
	}
	values := maxValues
	return doc.Content[0], d.readable(doc.Content[0], nil, &values)
}

// utf8 refuses a text in another encoding, at the place where that shows: the
// library names none. It reads UTF-16 that begins with its mark.
func (d *decoder) utf8(src string) error {
	if utf8.ValidString(src) || strings.HasPrefix(src, "\xff\xfe") || strings.HasPrefix(src, "\xfe\xff") {
		return nil
	}
	at := 0
	for at < len(src) {
		r, n := utf8.DecodeRuneInString(src[at:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	begin := strings.LastIndexByte(src[:at], '\n') + 1
	return &SpecError{File: d.file, Line: strings.Count(src[:at], "\n") + 1, Column: utf8.RuneCountInString(src[begin:at]) + 1,
		Msg: fmt.Sprintf("byte %#x is no UTF-8", src[at]), Advice: "save the file as UTF-8"}
}

// maxValues bounds what aliases make of a file; a range may well be thousands.
const maxValues = 1 << 20

// readable refuses what could not be read to an end: aliases that contain
// themselves, or grow without measure. It refuses a byte, too, that no argument,
// variable or path of a process can have. In are the anchors around n.
func (d *decoder) readable(n *yaml.Node, in []*yaml.Node, values *int) error {
	if *values--; *values < 0 {
		return d.fail(n, "", "write the values out", "aliases make more than %d values of the file", maxValues)
	}
	if strings.ContainsRune(n.Value, 0) {
		return d.fail(n, "", "take the \\0 out", "%q holds a NUL byte, which nothing can be started with", n.Value)
	}
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		if slices.Contains(in, n.Alias) {
			return d.fail(n, "", "write the values out", "the alias *%s stands within its own anchor", n.Value)
		}
		return d.readable(n.Alias, in, values)
	}
	if n.Anchor != "" {
		in = append(in[:len(in):len(in)], n)
	}
	for _, c := range n.Content {
		if err := d.readable(c, in, values); err != nil {
			return err
		}
	}
	return nil
}

var yamlLine = regexp.MustCompile(`^yaml: line ([0-9]+): (.*)$`)

// syntax takes the line out of the library's message; it offers no other way.
func (d *decoder) syntax(err error) error {
	out := &SpecError{File: d.file, Msg: strings.TrimPrefix(err.Error(), "yaml: "), Advice: "the file is no valid YAML; tabs cannot indent"}
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		if n, convErr := strconv.Atoi(m[1]); convErr == nil {
			out.Line, out.Column, out.Msg = n, 1, m[2]
		}
	}
	return out
}

// object decodes a map whose keys are all known.
func (d *decoder) object(n *yaml.Node, name string, known map[string]field) error {
	return d.entries(n, name, func(key, value *yaml.Node) error {
		f, ok := known[key.Value]
		full := join(name, key.Value)
		if !ok {
			names := make([]string, 0, len(known))
			for k := range known {
				names = append(names, k)
			}
			return d.fail(key, full, unknownHint(key.Value, names), "unknown key")
		}
		return f(value, full)
	})
}

// entries calls f for each entry of a map, in order, and refuses duplicates.
func (d *decoder) entries(n *yaml.Node, name string, f func(key, value *yaml.Node) error) error {
	n = deref(n)
	if n.Kind != yaml.MappingNode {
		return d.fail(n, name, "write key: value lines below it", "must be a map, not %s", kindOf(n))
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			return d.fail(key, name, "", "a key must be a plain word")
		}
		if key.Tag == "!!merge" {
			return d.fail(key, name, "write the entries out", "merge keys (<<) are not read")
		}
		if line, dup := seen[key.Value]; dup {
			return d.fail(key, join(name, key.Value), "remove one of the two", "set twice, before on line %d", line)
		}
		seen[key.Value] = key.Line
		if err := f(key, deref(value)); err != nil {
			return err
		}
	}
	return nil
}

// items calls f for each element of a list.
func (d *decoder) items(n *yaml.Node, name string, f func(n *yaml.Node, name string) error) error {
	if n.Kind != yaml.SequenceNode {
		return d.fail(n, name, "write it as [a, b]", "must be a list, not %s", kindOf(n))
	}
	for i, c := range n.Content {
		if err := f(deref(c), fmt.Sprintf("%s[%d]", name, i)); err != nil {
			return err
		}
	}
	return nil
}

// scalar reads a single value with its source text.
func (d *decoder) scalar(n *yaml.Node, name string) (Scalar, error) {
	if n.Kind != yaml.ScalarNode {
		return Scalar{}, d.fail(n, name, "", "must be a single value, not %s", kindOf(n))
	}
	if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return StringScalar(n.Value), nil
	}
	switch {
	case n.Style&yaml.TaggedStyle == 0:
		return ParseScalar(n.Value), nil
	case n.Tag == "!!str":
		return StringScalar(n.Value), nil
	}
	return Scalar{}, d.fail(n, name, "quote it where a text is meant", "the tag %s is not read", n.Tag)
}

func (d *decoder) text(to *string) field {
	return func(n *yaml.Node, name string) error {
		s, err := d.scalar(n, name)
		if err != nil {
			return err
		}
		if s.Text == "" || s.IsNull() {
			return d.fail(n, name, "", "is empty")
		}
		*to = s.Text
		return nil
	}
}

func (d *decoder) word(to *string, known ...string) field {
	return func(n *yaml.Node, name string) error {
		if err := d.text(to)(n, name); err != nil {
			return err
		}
		if !slices.Contains(known, *to) {
			return d.fail(n, name, unknownHint(*to, known), "unknown word %q", *to)
		}
		return nil
	}
}

func (d *decoder) texts(to *[]string) field {
	return func(n *yaml.Node, name string) error {
		*to = []string{}
		return d.items(n, name, func(n *yaml.Node, name string) error {
			var s string
			if err := d.text(&s)(n, name); err != nil {
				return err
			}
			*to = append(*to, s)
			return nil
		})
	}
}

func (d *decoder) integer(to *int, low, high int) field {
	return func(n *yaml.Node, name string) error {
		s, err := d.scalar(n, name)
		if err != nil {
			return err
		}
		v, ok := s.Value.(int64)
		if !ok {
			return d.fail(n, name, "", "must be a whole number, not %q", s.Text)
		}
		if v < int64(low) || v > int64(high) {
			return d.fail(n, name, "", "must be from %d to %d, not %d", low, high, v)
		}
		*to = int(v)
		return nil
	}
}

func (d *decoder) boolean(to *bool) field {
	return func(n *yaml.Node, name string) error {
		s, err := d.scalar(n, name)
		if err != nil {
			return err
		}
		v, ok := s.Value.(bool)
		if !ok {
			return d.fail(n, name, "", "must be true or false, not %q", s.Text)
		}
		*to = v
		return nil
	}
}

func (d *decoder) duration(to *time.Duration) field {
	return func(n *yaml.Node, name string) error {
		s, err := d.scalar(n, name)
		if err != nil {
			return err
		}
		v, err := parseDuration(s.Text)
		if err != nil {
			return d.fail(n, name, "for example 90s, 20m or 1h30m", "%v", err)
		}
		*to = v
		return nil
	}
}

// parseDuration reads a duration above zero; a bare number has no unit.
func parseDuration(text string) (time.Duration, error) {
	v, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is no duration", text)
	}
	if v <= 0 {
		return 0, fmt.Errorf("%q must be above zero", text)
	}
	return v, nil
}

// scalarList reads a list of scalars that may hold templates.
func (d *decoder) scalarList(to *[]Entry) field {
	return func(n *yaml.Node, name string) error {
		return d.items(n, name, func(n *yaml.Node, name string) error {
			s, err := d.scalar(n, name)
			if err != nil {
				return err
			}
			if s.IsNull() {
				return d.fail(n, name, `an empty argument is written ""`, "is empty")
			}
			*to = append(*to, Entry{Value: s, Pos: pos(n)})
			return nil
		})
	}
}

// deref follows an alias to its anchor.
func deref(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	return n
}

// pos is the place of a node's first character, behind an opening quote.
func pos(n *yaml.Node) Pos {
	if n.Kind == yaml.ScalarNode && n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
		return Pos{n.Line, n.Column + 1}
	}
	return Pos{n.Line, n.Column}
}

func join(outer, inner string) string {
	if outer == "" {
		return inner
	}
	return outer + "." + inner
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a map"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		if n.Value == "" || n.Tag == "!!null" {
			return "empty"
		}
		return fmt.Sprintf("the single value %q", n.Value)
	}
	return "that"
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
