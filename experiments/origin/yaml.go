package origin

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// YAML writes the experiment file.
func (d *Draft) YAML() ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Written by specrun init from %s.\n# Below is what that server runs with; %s.\n", oneLine(d.command.From), d.summary())
	for _, n := range d.Notes {
		fmt.Fprintf(&b, "# - %s\n", oneLine(n))
	}
	b.WriteString("version: 1\n")
	if err := section(&b, "name", scalar(d.name())); err != nil {
		return nil, err
	}
	if d.options.Host == "" {
		b.WriteString("# hosts: [NAME]       # from hosts.yaml, ssh_config or user@address; or give --host\n")
	} else if err := section(&b, "hosts", flow(scalar(d.options.Host))); err != nil {
		return nil, err
	}
	if d.Engine == SGLang {
		b.WriteString("# patches: [profiling-v4]   # adds TOTAL, the time of a decode cycle; see specrun patch list\n")
	}
	if err := section(&b, "server", d.server()); err != nil {
		return nil, err
	}
	if err := d.writeParams(&b); err != nil {
		return nil, err
	}
	b.WriteString(`bench: { endpoint: ` + d.endpoint() + `, requests: 16, concurrency: 1, max_tokens: 512, temperature: 0, warmup: auto, seed: 1 }
rounds: 3            # launches per cell
repeats: 1           # runs within one launch
after: restore       # what a sweep leaves: the patches as it found them, and no server
`)
	return b.Bytes(), nil
}

// endpoint is the route that the benchmark calls: of a program of which nothing
// is known, the one that nearly all have.
func (d *Draft) endpoint() string {
	if d.Engine == Another {
		return "completions"
	}
	return "chat"
}

func (d *Draft) summary() string {
	if len(d.Notes) == 0 {
		return "nothing was left out"
	}
	return "what is not as it was, or is not known"
}

// oneLine makes a text one that a comment can hold.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 {
			return ' '
		}
		return r
	}, s)
}

// section writes one key of the file.
func section(b *bytes.Buffer, key string, value *yaml.Node) error {
	return write(b, mapping(pair(key, value)))
}

func write(b *bytes.Buffer, n *yaml.Node) error {
	enc := yaml.NewEncoder(b)
	enc.SetIndent(2)
	if err := enc.Encode(n); err != nil {
		return fmt.Errorf("write the experiment file: %w", err)
	}
	return enc.Close()
}

type entry struct{ key, value *yaml.Node }

func pair(key string, value *yaml.Node) entry { return entry{node(key), value} }

func (e entry) comment(text string) entry {
	switch {
	case text == "":
	case e.value.Kind == yaml.ScalarNode || e.value.Style&yaml.FlowStyle != 0:
		e.value.LineComment = "# " + oneLine(text)
	default:
		e.key.HeadComment = "# " + oneLine(text)
	}
	return e
}

func mapping(entries ...entry) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, e := range entries {
		n.Content = append(n.Content, e.key, e.value)
	}
	return n
}

func flow(items ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle, Content: items}
}

func words(texts []string) *yaml.Node {
	n := flow()
	for _, t := range texts {
		n.Content = append(n.Content, item(t))
	}
	return n
}

// item is a scalar within [ ], where a comma ends it.
func item(text string) *yaml.Node {
	n := scalar(text)
	if n.Style == 0 && strings.ContainsAny(text, ",{}") {
		n.Style, n.Tag = yaml.SingleQuotedStyle, "!!str"
	}
	return n
}

// server writes the server block.
func (d *Draft) server() *yaml.Node {
	e := []entry{pair("engine", node(d.Engine))}
	switch {
	case d.run != nil:
		e = append(e, pair("launch", node(d.run.runtime)).comment("one container for each launch"),
			pair("container", mapping(pair("image", scalar(d.run.image)), pair("args", words(d.run.args)))))
	case d.command.Container != "":
		e = append(e, pair("launch", node(firstOf(d.command.Runtime, "docker"))).comment("in a container that runs; paths are those inside"),
			pair("container", scalar(d.command.Container)))
	}
	if d.Engine != Another {
		if d.python != "" {
			e = append(e, pair("python", scalar(d.python)).comment("patches go where it imports the engine from"))
		}
	}
	if d.cwd != "" && d.cwd != "/" {
		e = append(e, pair("cwd", scalar(d.cwd)))
	}
	gpus := d.gpusEntry()
	if d.Engine != Another && d.python == "" {
		gpus.key.HeadComment = "# python: ~/venv/bin/python3   # not known from the command; the host's in hosts.yaml is taken"
	}
	e = append(e, gpus, d.portEntry())
	if d.Engine == Another {
		e = append(e, d.commandEntries()...)
	} else {
		if len(d.split.prefix) > 0 {
			e = append(e, pair("prefix", words(d.split.prefix)))
		}
		e = append(e, d.flagsEntry())
		if len(d.args.args) > 0 {
			e = append(e, pair("args", words(d.args.args)).comment("behind all flags"))
		}
	}
	if len(d.env)+len(d.secrets) > 0 {
		e = append(e, d.envEntry())
	}
	return mapping(e...)
}

func (d *Draft) gpusEntry() entry {
	if d.gpus == nil {
		return pair("gpus", node("all"))
	}
	var items []*yaml.Node
	for i := 0; i < len(d.gpus); {
		j := i
		for j+1 < len(d.gpus) && d.gpus[j+1] == d.gpus[j]+1 {
			j++
		}
		text := strconv.Itoa(d.gpus[i])
		if j > i {
			text += "-" + strconv.Itoa(d.gpus[j])
		}
		items = append(items, node(text))
		i = j + 1
	}
	return pair("gpus", flow(items...)).comment("as CUDA_VISIBLE_DEVICES had them")
}

func (d *Draft) portEntry() entry {
	if d.port == 0 {
		return pair("port", node("auto"))
	}
	return pair("port", node(strconv.Itoa(d.port))).comment("auto takes the first free port instead")
}

// commandEntries are those of a server of which only the command line is known.
func (d *Draft) commandEntries() []entry {
	n := flow()
	for _, w := range d.words {
		text := strings.ReplaceAll(strings.ReplaceAll(w, "${", "$${"), "\x00", "${port}")
		it := node(text)
		if it.Style == 0 && strings.ContainsAny(text, ",{}") {
			it.Style, it.Tag = yaml.SingleQuotedStyle, "!!str"
		}
		n.Content = append(n.Content, it)
	}
	ready := mapping(pair("url", node("/health")).comment("a guess: a path that answers 200 once the server serves, or marker: REGEX of a log line"))
	return []entry{pair("command", n).comment("${port} is server.port"), pair("ready", ready)}
}

func (d *Draft) flagsEntry() entry {
	var e []entry
	for _, f := range d.args.flags {
		e = append(e, d.flag(f))
	}
	n := mapping(e...)
	if len(d.args.flags) == 0 {
		n.Style = yaml.FlowStyle
	}
	key := node("flags")
	var left []string
	for _, name := range d.omitted {
		left = append(left, "# "+name+": left out, a secret")
	}
	key.HeadComment = strings.Join(left, "\n")
	return entry{key, n}
}

// flag writes a flag so that its words come out as they stood.
func (d *Draft) flag(f flag) entry {
	template, lifted := d.lifted[f.name]
	switch {
	case f.repeat:
		return pair(f.name, mapping(pair("repeat", words(f.values))))
	case len(f.values) == 0:
		return pair(f.name, &yaml.Node{Kind: yaml.ScalarNode, Value: "true"})
	case len(f.values) > 1:
		return pair(f.name, words(f.values))
	}
	value := f.values[0]
	v, isJSON := parseJSON(value)
	switch {
	case isJSON && v.isMap(value):
		return pair(f.name, v.node(memberOf(lifted), template))
	case isJSON && lifted:
		text := strings.ReplaceAll(value, "${", "$${")
		return pair(f.name, node(tokensMember.ReplaceAllString(text, "${1}"+strings.ReplaceAll(template, "$", "$$"))))
	case lifted:
		return pair(f.name, node(template))
	}
	return pair(f.name, scalar(value))
}

// memberOf is the member of a map that is lifted.
func memberOf(lifted bool) string {
	if lifted {
		return vllmTokens
	}
	return ""
}

var tokensMember = regexp.MustCompile(`("` + vllmTokens + `"\s*:\s*)[0-9]+`)

func (d *Draft) envEntry() entry {
	var e []entry
	for _, name := range slices.Sorted(maps.Keys(d.env)) {
		e = append(e, pair(name, scalar(d.env[name])))
	}
	for _, name := range d.secrets {
		ref := mapping(pair("from", node("env")))
		ref.Style = yaml.FlowStyle
		e = append(e, pair(name, ref).comment("taken from your environment when it starts; kept nowhere"))
	}
	return entry{node("env"), mapping(e...)}
}

// writeParams writes params, where and baseline.
func (d *Draft) writeParams(b *bytes.Buffer) error {
	if len(d.params) == 0 {
		b.WriteString("# params:            # what a sweep varies; any flag can be varied without: specrun sweep flag.NAME=a,b\n")
	} else {
		var e []entry
		for _, p := range d.params {
			one := mapping()
			one.Style = yaml.FlowStyle
			add := func(key string, value *yaml.Node) { one.Content = append(one.Content, node(key), value) }
			if p.values != "" {
				add("values", values(p.values))
			}
			fallback := node(p.fallback)
			if strings.Contains(p.fallback, "${") {
				fallback = quotedNode(p.fallback)
			}
			add("default", fallback)
			add("help", item(p.help))
			e = append(e, pair(p.name, one))
		}
		if err := section(b, "params", mapping(e...)); err != nil {
			return err
		}
	}
	if len(d.rules) > 0 {
		n := flow()
		for _, rule := range d.rules {
			n.Content = append(n.Content, quotedNode(rule))
		}
		if err := section(b, "where", n); err != nil {
			return err
		}
	}
	if len(d.baseline) == 0 {
		b.WriteString("# baseline: { flags: { NAME: null } }   # the cell to compare with; null leaves a flag out\n")
		return nil
	}
	removed := mapping()
	removed.Style = yaml.FlowStyle
	for _, name := range d.baseline {
		key := &yaml.Node{Kind: yaml.ScalarNode, Value: name, Style: yaml.DoubleQuotedStyle, Tag: "!!str"}
		removed.Content = append(removed.Content, key, null())
	}
	n := mapping(pair("flags", removed), pair("patches", flow()))
	n.Style = yaml.FlowStyle
	e := pair("baseline", n)
	n.LineComment = "# without speculation"
	return write(b, mapping(e))
}

// node0 is null.
func null() *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: "null"} }

// values is 1..4, or a list.
func values(text string) *yaml.Node {
	list, ok := strings.CutPrefix(text, "[")
	if !ok {
		return node(text)
	}
	return words(strings.Split(strings.TrimSuffix(list, "]"), ", "))
}

var notInName = regexp.MustCompile(`[^a-z0-9._-]+`)

// name is that of the experiment: what was asked for, or the model's.
func (d *Draft) name() string {
	if d.options.Name != "" {
		return d.options.Name
	}
	for _, flag := range []string{"served-model-name", "model-path", "model"} {
		if value, ok := d.args.find(flag); ok {
			if name := strings.Trim(notInName.ReplaceAllString(strings.ToLower(path.Base(value)), "-"), "-."); name != "" {
				return name
			}
		}
	}
	return d.Engine + "-server"
}
