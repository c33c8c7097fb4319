package experiments

import (
	"regexp"

	"gopkg.in/yaml.v3"
)

func (d *decoder) flags(n *yaml.Node, name string, allowed *regexp.Regexp, to *[]Flag) error {
	return d.entries(n, name, func(key, value *yaml.Node) error {
		full := join(name, key.Value)
		if !allowed.MatchString(key.Value) {
			return d.fail(key, full, "write it without its dashes: tp-size", "%q is no flag name", key.Value)
		}
		v, err := d.value(value, full)
		if err != nil {
			return err
		}
		*to = append(*to, Flag{Name: key.Value, Value: v, Pos: pos(key)})
		return nil
	})
}

// value reads a flag's value.
func (d *decoder) value(n *yaml.Node, name string) (Value, error) {
	v := Value{Pos: pos(n)}
	var err error
	switch n.Kind {
	case yaml.SequenceNode:
		v.Kind = KindList
		v.Items, err = d.flatItems(n, name)
		return v, err
	case yaml.MappingNode:
		if items := only(n, "repeat"); items != nil && items.Kind == yaml.SequenceNode {
			v.Kind = KindRepeat
			v.Items, err = d.flatItems(items, name+".repeat")
			return v, err
		}
		if lookup(n, "join") != nil && len(n.Content) == 4 && lookup(n, "values") != nil {
			v.Kind = KindJoin
			if err := d.text(&v.Sep)(lookup(n, "join"), name+".join"); err != nil {
				return v, err
			}
			v.Items, err = d.flatItems(lookup(n, "values"), name+".values")
			return v, err
		}
		return d.nested(n, name)
	}
	v.Scalar, err = d.scalar(n, name)
	return v, err
}

func (d *decoder) flatItems(n *yaml.Node, name string) ([]Value, error) {
	items := []Value{}
	err := d.items(n, name, func(n *yaml.Node, name string) error {
		s, err := d.scalar(n, name)
		if err != nil {
			return err
		}
		if s.IsNull() {
			return d.fail(n, name, `an empty text is written ""`, "is empty")
		}
		items = append(items, Value{Scalar: s, Pos: pos(n)})
		return nil
	})
	if err == nil && len(items) == 0 {
		return nil, d.fail(n, name, "null leaves the flag out", "the list is empty")
	}
	return items, err
}

// nested reads a value that becomes JSON.
func (d *decoder) nested(n *yaml.Node, name string) (Value, error) {
	v := Value{Pos: pos(n)}
	var err error
	switch n.Kind {
	case yaml.SequenceNode:
		v.Kind, v.Items = KindList, []Value{}
		err = d.items(n, name, func(n *yaml.Node, name string) error {
			it, err := d.nested(n, name)
			v.Items = append(v.Items, it)
			return err
		})
	case yaml.MappingNode:
		v.Kind, v.Fields = KindMap, []Field{}
		err = d.entries(n, name, func(key, value *yaml.Node) error {
			f, err := d.nested(value, join(name, key.Value))
			v.Fields = append(v.Fields, Field{Name: key.Value, Value: f})
			return err
		})
	default:
		v.Scalar, err = d.scalar(n, name)
	}
	return v, err
}

func (d *decoder) env(n *yaml.Node, name string, to *[]EnvVar) error {
	return d.entries(n, name, func(key, value *yaml.Node) error {
		full := join(name, key.Value)
		if !envName.MatchString(key.Value) {
			return d.fail(key, full, "", "%q is no name of an environment variable", key.Value)
		}
		v := EnvVar{Name: key.Value, Pos: pos(key)}
		if value.Kind == yaml.MappingNode {
			from := ""
			v.From = key.Value
			err := d.object(value, full, map[string]field{"from": d.word(&from, "env"), "name": d.text(&v.From)})
			if err == nil && from == "" {
				err = d.fail(value, full, "write {from: env}", "a reference needs from")
			}
			*to = append(*to, v)
			return err
		}
		s, err := d.scalar(value, full)
		v.Value = s
		*to = append(*to, v)
		return err
	})
}

// only gives the value of a map's single key, nil when it is another map.
func only(n *yaml.Node, key string) *yaml.Node {
	if len(n.Content) != 2 {
		return nil
	}
	return lookup(n, key)
}

func lookup(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return deref(n.Content[i+1])
		}
	}
	return nil
}
