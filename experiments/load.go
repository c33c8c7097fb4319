package experiments

import (
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

var (
	paramName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	envName   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	flagName  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)
	flagGlob  = regexp.MustCompile(`^[A-Za-z0-9*?][A-Za-z0-9_.*?-]*$`)
)

// Objectives that can rank cells.
var objectives = []string{"output_throughput", "total_throughput", "request_throughput",
	"tpot", "ttft", "itl", "cycle_total", "accept_len"}

// LoadSpec reads an experiment file strictly: an unknown key, a wrong type or a
// bad expression is a *SpecError with its place. name is only for messages.
// JSON made by Spec.MarshalJSON is read by the same way.
func LoadSpec(name string, src []byte) (*Spec, error) {
	d := &decoder{file: name}
	root, err := d.document(string(src))
	if err != nil {
		return nil, err
	}
	s := &Spec{File: name, Repeats: defaultRepeats, Rounds: defaultRounds, Order: OrderInterleave, After: AfterRestore,
		Objective: defaultObjective, Limits: Limits{Run: defaultRunLimit},
		Server: ServerSpec{Launch: "process", Ready: Ready{Timeout: defaultReadyTimeout, Stall: defaultReadyStall}}}
	version := 0
	seen := map[string]*yaml.Node{}
	note := func(name string, f field) field {
		return func(n *yaml.Node, full string) error { seen[name] = n; return f(n, full) }
	}
	err = d.object(root, "", map[string]field{
		"version":   note("version", d.integer(&version, 1, 1)),
		"name":      note("name", d.text(&s.Name)),
		"hosts":     d.texts(&s.Hosts),
		"patches":   d.texts(&s.Patches),
		"server":    note("server", func(n *yaml.Node, name string) error { return d.server(n, name, &s.Server) }),
		"params":    func(n *yaml.Node, name string) error { return d.params(n, name, &s.Params) },
		"where":     func(n *yaml.Node, name string) error { return d.where(n, name, &s.Where) },
		"baseline":  func(n *yaml.Node, name string) error { return d.baseline(n, name, &s.Baseline) },
		"bench":     func(n *yaml.Node, name string) error { return d.bench(n, name, &s.Bench) },
		"objective": d.word(&s.Objective, objectives...),
		"repeats":   d.integer(&s.Repeats, 1, 1000),
		"rounds":    d.integer(&s.Rounds, 1, 1000),
		"order":     d.word((*string)(&s.Order), string(OrderInterleave), string(OrderGrid)),
		"after":     func(n *yaml.Node, name string) error { return d.after(n, name, &s.After) },
		"limits": func(n *yaml.Node, name string) error {
			return d.object(n, name, map[string]field{"run": d.duration(&s.Limits.Run)})
		},
	})
	if err != nil {
		return nil, err
	}
	for _, key := range []string{"version", "name", "server"} {
		if seen[key] == nil {
			return nil, d.fail(root, key, map[string]string{
				"version": "begin the file with version: 1", "name": "give the experiment a name", "server": "say how the server is started",
			}[key], "is missing")
		}
	}
	if err := d.checkExpressions(s); err != nil {
		return nil, err
	}
	return s, nil
}

func (d *decoder) after(n *yaml.Node, name string, to *After) error {
	var word string
	if err := d.word(&word, string(AfterRestore), string(AfterStop), string(AfterKeep), "best")(n, name); err != nil {
		return err
	}
	if word == "best" {
		return d.fail(n, name, "use restore, stop or keep, and start the best cell with specrun server start", "best is not built yet")
	}
	*to = After(word)
	return nil
}

func (d *decoder) server(n *yaml.Node, name string, s *ServerSpec) error {
	err := d.object(n, name, map[string]field{
		"engine":    d.text(&s.Engine),
		"launch":    d.launch(&s.Launch),
		"python":    d.text(&s.Python),
		"cwd":       d.text(&s.Cwd),
		"gpus":      func(n *yaml.Node, name string) error { return d.gpus(n, name, &s.GPUs) },
		"port":      func(n *yaml.Node, name string) error { return d.port(n, name, &s.Port) },
		"prefix":    d.scalarList(&s.Prefix),
		"flags":     func(n *yaml.Node, name string) error { return d.flags(n, name, flagName, &s.Flags) },
		"args":      d.scalarList(&s.Args),
		"env":       func(n *yaml.Node, name string) error { return d.env(n, name, &s.Env) },
		"env_file":  d.text(&s.EnvFile),
		"login_env": d.boolean(&s.LoginEnv),
		"ready": func(n *yaml.Node, name string) error {
			return d.object(n, name, map[string]field{"timeout": d.duration(&s.Ready.Timeout), "stall": d.duration(&s.Ready.Stall)})
		},
	})
	if err != nil {
		return err
	}
	if s.Engine == "" {
		return d.fail(n, join(name, "engine"), "for example engine: sglang", "is missing")
	}
	return nil
}

func (d *decoder) launch(to *string) field {
	return func(n *yaml.Node, name string) error {
		if n.Kind == yaml.MappingNode {
			return d.fail(n, name, "use launch: process", "only process is supported so far, not attach")
		}
		if err := d.word(to, "process", "docker", "systemd", "command")(n, name); err != nil {
			return err
		}
		if *to != "process" {
			return d.fail(n, name, "use launch: process", "only process is supported so far, not %s", *to)
		}
		return nil
	}
}

func (d *decoder) gpus(n *yaml.Node, name string, to *[]int) error {
	if n.Kind == yaml.ScalarNode && n.Value == "all" {
		*to = nil
		return nil
	}
	const advice = "gpus: all, or a list such as [0-3] or [0, 2]"
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return d.fail(n, name, advice, "must be all or a list of numbers, not %s", kindOf(n))
	}
	seen := map[int]bool{}
	err := d.items(n, name, func(n *yaml.Node, name string) error {
		lo, hi, isRange := strings.Cut(n.Value, "-")
		first, err := strconv.Atoi(lo)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(hi)
		}
		if n.Kind != yaml.ScalarNode || err != nil || first < 0 || last < first || last > 1023 {
			return d.fail(n, name, advice, "%q is no GPU number or range", n.Value)
		}
		for g := first; g <= last; g++ {
			seen[g] = true
		}
		return nil
	})
	for g := range seen {
		*to = append(*to, g)
	}
	sort.Ints(*to)
	return err
}

func (d *decoder) port(n *yaml.Node, name string, to *int) error {
	if n.Kind == yaml.ScalarNode && n.Value == "auto" {
		*to = 0
		return nil
	}
	if err := d.integer(to, 1, 65535)(n, name); err != nil {
		return d.fail(n, name, "port: auto, or a number from 1 to 65535", "%q is no port", n.Value)
	}
	return nil
}

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
