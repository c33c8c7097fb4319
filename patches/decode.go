package patches

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// decoder walks the nodes of one patch.yaml strictly: every key must be known,
// every value of the right kind. The first fault is kept; after it the getters
// return zero values, so that callers need not check each step.
type decoder struct {
	file string
	err  *LoadError
}

func (d *decoder) fail(n *yaml.Node, suggest, format string, args ...any) {
	if d.err == nil {
		d.err = &LoadError{File: d.file, Line: n.Line, Column: n.Column, Msg: fmt.Sprintf(format, args...), Suggest: suggest}
	}
}

// fields gives the values of a mapping by key. Keys beside the known ones and
// keys given twice are faults, as are required ones ("name!") that are absent.
func (d *decoder) fields(n *yaml.Node, what string, keys ...string) map[string]*yaml.Node {
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		d.fail(n, "", "%s must be a map, not %s", what, kindName(n))
		return nil
	}
	var known, required []string
	for _, k := range keys {
		name, must := strings.CutSuffix(k, "!")
		known = append(known, name)
		if must {
			required = append(required, name)
		}
	}
	out := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if !slices.Contains(known, k.Value) {
			suggest := ""
			if near := nearest(k.Value, known); len(near) > 0 {
				suggest = near[0]
			}
			d.fail(k, suggest, "unknown key %q in %s; it knows %s", k.Value, what, strings.Join(known, ", "))
			return nil
		}
		if out[k.Value] != nil {
			d.fail(k, "", "key %q stands twice in %s", k.Value, what)
			return nil
		}
		out[k.Value] = v
	}
	for _, k := range required {
		if out[k] == nil {
			d.fail(n, "", "%s needs %q", what, k)
			return nil
		}
	}
	return out
}

// text gives a scalar as written; "" for an absent one.
func (d *decoder) text(n *yaml.Node, what string) string {
	if n == nil {
		return ""
	}
	n = resolve(n)
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		d.fail(n, "", "%s must be text, not %s", what, kindName(n))
		return ""
	}
	return n.Value
}

// oneOf is text that must be among the given words, or absent.
func (d *decoder) oneOf(n *yaml.Node, what string, words ...string) string {
	s := d.text(n, what)
	if n == nil || slices.Contains(words, s) {
		return s
	}
	suggest := ""
	if near := nearest(s, words); len(near) > 0 {
		suggest = near[0]
	}
	d.fail(resolve(n), suggest, "%s is %q; it must be one of %s", what, s, strings.Join(words, ", "))
	return ""
}

func (d *decoder) flag(n *yaml.Node, what string) bool {
	return d.oneOf(n, what, "true", "false") == "true"
}

// list gives the items of a sequence; an absent one has none.
func (d *decoder) list(n *yaml.Node, what string) []*yaml.Node {
	if n == nil {
		return nil
	}
	n = resolve(n)
	if n.Kind != yaml.SequenceNode {
		d.fail(n, "", "%s must be a list, not %s", what, kindName(n))
		return nil
	}
	return n.Content
}

func (d *decoder) texts(n *yaml.Node, what string) []string {
	var out []string
	for _, item := range d.list(n, what) {
		out = append(out, d.text(item, what))
	}
	return out
}

func (d *decoder) textMap(n *yaml.Node, what string) map[string]string {
	if n == nil {
		return nil
	}
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		d.fail(n, "", "%s must be a map, not %s", what, kindName(n))
		return nil
	}
	out := map[string]string{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if _, twice := out[k.Value]; twice {
			d.fail(k, "", "key %q stands twice in %s", k.Value, what)
			return nil
		}
		out[k.Value] = d.text(n.Content[i+1], what+"."+k.Value)
	}
	return out
}

func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a map"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			return "empty"
		}
		return "text"
	}
	return "nothing"
}
