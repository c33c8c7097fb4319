package experiments

import (
	"fmt"

	"gopkg.in/yaml.v3"
)

func (d *decoder) params(n *yaml.Node, name string, to *[]Param) error {
	return d.entries(n, name, func(key, value *yaml.Node) error {
		full := join(name, key.Value)
		if !paramName.MatchString(key.Value) {
			return d.fail(key, full, "letters, digits and _ only, so that expressions can name it", "%q is no param name", key.Value)
		}
		if value.Kind != yaml.MappingNode {
			return d.fail(value, full, fmt.Sprintf("write %s: {default: %s}", key.Value, value.Value), "must be a map with default, values, help")
		}
		p := Param{Name: key.Value, Pos: pos(key)}
		hasDefault := false
		err := d.object(value, full, map[string]field{
			"help":   d.text(&p.Help),
			"values": func(n *yaml.Node, name string) error { return d.paramValues(n, name, &p.Values) },
			"default": func(n *yaml.Node, name string) error {
				hasDefault = true
				var err error
				p.Default, err = d.scalar(n, name)
				return err
			},
		})
		if err != nil {
			return err
		}
		if !hasDefault {
			if len(p.Values) == 0 {
				return d.fail(value, full, "", "needs a default or values")
			}
			p.Default = p.Values[0]
		}
		*to = append(*to, p)
		return nil
	})
}

func (d *decoder) paramValues(n *yaml.Node, name string, to *[]Scalar) error {
	add := func(n *yaml.Node, name string) error {
		s, err := d.scalar(n, name)
		if err != nil {
			return err
		}
		if hasTemplate(s.Text) {
			return d.fail(n, name, "derived values belong into default", "values must be plain")
		}
		if _, isText := s.Value.(string); !isText || n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
			*to = append(*to, s)
			return nil
		}
		values, err := expandRange(s.Text)
		if err != nil {
			advice := ""
			if re, ok := err.(*rangeError); ok {
				advice = re.advice
			}
			return d.fail(n, name, advice, "%v", err)
		}
		*to = append(*to, values...)
		return nil
	}
	if n.Kind == yaml.ScalarNode {
		return add(n, name)
	}
	if err := d.items(n, name, add); err != nil {
		return err
	}
	if len(*to) == 0 {
		return d.fail(n, name, "", "the list is empty")
	}
	return nil
}

func (d *decoder) where(n *yaml.Node, name string, to *[]Rule) error {
	add := func(n *yaml.Node, name string) error {
		r := Rule{Pos: pos(n)}
		if err := d.text(&r.Expr)(n, name); err != nil {
			return err
		}
		*to = append(*to, r)
		return nil
	}
	if n.Kind == yaml.ScalarNode {
		return add(n, name)
	}
	return d.items(n, name, add)
}

func (d *decoder) baseline(n *yaml.Node, name string, to **Baseline) error {
	b := &Baseline{Pos: pos(n)}
	*to = b
	return d.object(n, name, map[string]field{
		"flags": func(n *yaml.Node, name string) error { return d.flags(n, name, flagGlob, &b.Flags) },
		"patches": func(n *yaml.Node, name string) error {
			b.HasPatches = true
			return d.texts(&b.Patches)(n, name)
		},
	})
}

func (d *decoder) bench(n *yaml.Node, name string, to *[]Entry) error {
	return d.entries(n, name, func(key, value *yaml.Node) error {
		full := join(name, key.Value)
		set, ok := benchFields[key.Value]
		if !ok {
			return d.fail(key, full, unknownHint(key.Value, sortedKeys(benchFields)), "unknown key")
		}
		s, err := d.scalar(value, full)
		if err != nil {
			return err
		}
		if !hasTemplate(s.Text) {
			var scratch BenchPlan
			if err := set(&scratch, s); err != nil {
				return d.fail(value, full, "", "%v", err)
			}
		}
		*to = append(*to, Entry{Name: key.Value, Value: s, Pos: pos(value)})
		return nil
	})
}
