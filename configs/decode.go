package configs

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"specrun/internal/yamlplace"
	"specrun/remote"
)

// FileError is a mistake in a hosts file.
type FileError struct {
	File         string
	Line, Column int // from 1; 0 when not known
	Field        string
	Msg          string
	Next         string
	Err          error // of the system; nil when the file could be read
}

func (e *FileError) Unwrap() error { return e.Err }

func (e *FileError) Error() string {
	where := e.File
	if e.Line > 0 {
		where += fmt.Sprintf(":%d:%d", e.Line, e.Column)
	}
	if e.Field != "" {
		return fmt.Sprintf("%s: %s: %s", where, e.Field, e.Msg)
	}
	return fmt.Sprintf("%s: %s", where, e.Msg)
}

// Hint says what the user can do about it; it may be empty.
func (e *FileError) Hint() string { return e.Next }

// parse decodes by walking the nodes: a decoder into structs could say neither
// where an unknown key stands nor keep a port from being written as 0x16.
func parse(file string, text []byte, home string) (*Hosts, error) {
	h := &Hosts{looked: []string{file}, hosts: map[string]Host{}, groups: map[string][]string{}}
	d := &decoder{file: file, home: home}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, d.syntax(err)
	}
	if len(doc.Content) == 0 {
		return h, nil // empty, or comments only
	}
	places := map[string]*yaml.Node{}
	d.mapping(doc.Content[0], "", []string{"hosts", "groups"}, func(key string, v *yaml.Node) {
		switch key {
		case "hosts":
			d.mapping(v, key, nil, func(name string, v *yaml.Node) {
				places[name] = v
				h.hosts[name] = d.host(name, v)
			})
		case "groups":
			d.mapping(v, key, nil, func(name string, v *yaml.Node) {
				h.groups[name] = d.group(name, v, places)
			})
		}
	})
	d.checkGroups(h, doc.Content[0])
	if len(d.errs) > 0 {
		return nil, errors.Join(d.errs...)
	}
	return h, nil
}

type decoder struct {
	file, home string
	errs       []error
	members    []member
}

// member is a group's line, checked once all hosts are known.
type member struct {
	group, name string
	node        *yaml.Node
}

func (d *decoder) fail(n *yaml.Node, field, msg, next string) {
	d.errs = append(d.errs, &FileError{File: d.file, Line: n.Line, Column: n.Column, Field: field, Msg: msg, Next: next})
}

// syntax gives the parser's error its place.
func (d *decoder) syntax(err error) error {
	e := &FileError{File: d.file, Next: "the file is no valid YAML; tabs cannot indent"}
	if e.Line, e.Msg = yamlplace.Of(err); e.Line > 0 {
		e.Column = 1
	}
	return e
}

// mapping calls f for each key. allowed nil lets all keys be.
func (d *decoder) mapping(n *yaml.Node, field string, allowed []string, f func(key string, v *yaml.Node)) {
	n = follow(n)
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.fail(n, field, "must be a map", "")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		switch {
		case k.Kind != yaml.ScalarNode || k.Tag == "!!merge":
			d.fail(k, field, "a key must be a plain word", "")
			continue
		case seen[k.Value]:
			d.fail(k, join(field, k.Value), "given twice", "remove one of the two")
			continue
		case allowed != nil && !slices.Contains(allowed, k.Value):
			next := "known keys: " + strings.Join(allowed, ", ")
			if near := nearest(k.Value, allowed); len(near) > 0 {
				next = "did you mean " + near[0] + "?"
			}
			d.fail(k, join(field, k.Value), "unknown key", next)
			continue
		}
		seen[k.Value] = true
		f(k.Value, v)
	}
}

func follow(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func join(field, key string) string {
	if field == "" {
		return key
	}
	return field + "." + key
}

// text is a scalar's source text: 08 and on stay as written.
func (d *decoder) text(n *yaml.Node, field string) string {
	n = follow(n)
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		d.fail(n, field, "must be a text", "")
		return ""
	}
	return n.Value
}

var hostKeys = []string{"address", "user", "port", "identity_file", "known_hosts", "jump", "python", "env", "cwd", "container", "state_dir", "spec", "labels", "kind"}

func (d *decoder) host(name string, n *yaml.Node) Host {
	field := "hosts." + name
	h := Host{Name: name, Kind: SSH}
	if name == "" || strings.ContainsAny(name, " \t\n@,/") || name[0] == '-' {
		d.fail(n, field, "a host's name is one word without @ , /", "")
	}
	if name == string(Lab) {
		d.fail(n, field, "lab is the built-in practice host", "choose another name")
	}
	if name == string(Local) {
		h.Kind = Local
	}
	var addressNode *yaml.Node
	d.mapping(n, field, hostKeys, func(key string, v *yaml.Node) {
		at := join(field, key)
		switch key {
		case "address":
			h.Address, addressNode = d.text(v, at), v
		case "user":
			h.User = d.text(v, at)
		case "port":
			port, err := strconv.Atoi(d.text(v, at))
			if err != nil || port < 1 || port > 65535 {
				d.fail(v, at, "must be a number from 1 to 65535", "")
			}
			h.Port = port
		case "identity_file":
			h.IdentityFile = d.path(v, at)
		case "known_hosts":
			h.KnownHosts = d.path(v, at)
		case "spec":
			h.Spec = d.path(v, at)
		case "jump":
			h.Jump = d.text(v, at)
			for _, hop := range h.JumpHosts() {
				if _, _, _, err := remote.ParseAddress(hop); err != nil {
					d.fail(v, at, err.Error(), "")
				}
			}
		case "python":
			h.Python = d.text(v, at)
		case "cwd":
			h.Cwd = d.text(v, at)
		case "container":
			h.Container = d.text(v, at)
		case "state_dir":
			h.StateDir = d.text(v, at)
		case "env":
			h.Env = d.texts(v, at)
		case "labels":
			h.Labels = d.texts(v, at)
		case "kind":
			switch kind := Kind(d.text(v, at)); kind {
			case SSH, Local:
				h.Kind = kind
			default:
				d.fail(v, at, fmt.Sprintf("kind %q is none", kind), "use ssh or local")
			}
		}
	})
	if addressNode != nil {
		d.address(&h, addressNode, join(field, "address"))
	}
	if h.Kind == SSH && h.Address == "" {
		h.Address = name // a name that ssh_config or DNS knows
	}
	return h
}

// address splits user@host:port; what it names must not be given twice.
func (d *decoder) address(h *Host, n *yaml.Node, field string) {
	user, address, port, err := remote.ParseAddress(h.Address)
	if err != nil {
		d.fail(n, field, err.Error(), "write host, user@host or user@host:port")
		return
	}
	if user != "" && h.User != "" && user != h.User {
		d.fail(n, field, fmt.Sprintf("names user %s, and user: names %s", user, h.User), "give the user once")
	}
	if port != 0 && h.Port != 0 && port != h.Port {
		d.fail(n, field, fmt.Sprintf("names port %d, and port: names %d", port, h.Port), "give the port once")
	}
	h.Address = address
	if user != "" {
		h.User = user
	}
	if port != 0 {
		h.Port = port
	}
}

func (d *decoder) texts(n *yaml.Node, field string) map[string]string {
	m := map[string]string{}
	d.mapping(n, field, nil, func(key string, v *yaml.Node) { m[key] = d.text(v, join(field, key)) })
	return m
}

// path is a path on this machine.
func (d *decoder) path(n *yaml.Node, field string) string {
	p := d.text(n, field)
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		if d.home == "" {
			d.fail(n, field, "~ is not known: there is no home folder", "write the path in full")
		}
		return filepath.Join(d.home, rest)
	}
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(filepath.Dir(d.file), p)
}

func (d *decoder) group(name string, n *yaml.Node, hosts map[string]*yaml.Node) []string {
	field := "groups." + name
	if _, ok := hosts[name]; ok {
		d.fail(n, field, "there is a host of this name", "rename one of the two")
	}
	list := follow(n)
	if list.Kind != yaml.SequenceNode {
		d.fail(n, field, "must be a list of hosts", "")
		return nil
	}
	var members []string
	for i, item := range list.Content {
		m := d.text(item, fmt.Sprintf("%s[%d]", field, i))
		members = append(members, m)
		d.members = append(d.members, member{group: name, name: m, node: item})
	}
	return members
}

// checkGroups refuses members that mean nothing. Addresses and built-in names
// may stand in a group; an ssh_config alias needs an entry.
func (d *decoder) checkGroups(h *Hosts, root *yaml.Node) {
	for _, m := range d.members {
		if _, err := h.Resolve(m.name); err != nil && m.name != "" {
			next := "add it to hosts:"
			var unknown *UnknownHostError
			if errors.As(err, &unknown) && len(unknown.Nearest) > 0 {
				next = unknown.Hint()
			}
			d.fail(m.node, "groups."+m.group, fmt.Sprintf("no host %q", m.name), next)
		}
	}
	for name := range h.groups {
		if h.hosts[name].Name == "" && (name == string(Local) || name == string(Lab)) {
			d.fail(root, "groups."+name, "is a built-in host", "choose another name")
		}
	}
}
