package configs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"specrun/remote"
)

// decoder walks the YAML tree of one hosts file.
type decoder struct{ file string }

func (d decoder) errorAt(n *yaml.Node, field, advice, format string, args ...any) error {
	return &FileError{File: d.file, Line: n.Line, Column: n.Column, Field: field, Msg: fmt.Sprintf(format, args...), Advice: advice}
}

func decode(file string, src []byte) (*Hosts, error) {
	d := decoder{file}
	h := &Hosts{File: file, hosts: map[string]Host{}, groups: map[string][]string{}}
	var doc yaml.Node
	if err := yaml.Unmarshal(src, &doc); err != nil {
		return nil, &FileError{File: file, Msg: strings.TrimPrefix(err.Error(), "yaml: ")}
	}
	if len(doc.Content) == 0 {
		return h, nil // an empty file knows no host
	}
	err := d.walk(doc.Content[0], "", []string{"hosts", "groups"}, func(key string, v *yaml.Node) error {
		if key == "hosts" {
			return d.walk(v, key, nil, func(name string, v *yaml.Node) error {
				host, err := d.host(name, v)
				h.hosts[name] = host
				return err
			})
		}
		return d.walk(v, key, nil, func(name string, v *yaml.Node) error {
			members, err := d.list(v, key+"."+name)
			h.groups[name] = members
			return err
		})
	})
	return h, err
}

// walk calls f for each key of a mapping. known, when not nil, are the keys that
// it may have.
func (d decoder) walk(n *yaml.Node, field string, known []string, f func(key string, value *yaml.Node) error) error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		return d.errorAt(n, field, "", "a mapping of names is needed here")
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if seen[key.Value] {
			return d.errorAt(key, field, "", "%s is given twice", key.Value)
		}
		seen[key.Value] = true
		if known != nil && !slices.Contains(known, key.Value) {
			advice := "known keys: " + strings.Join(known, ", ")
			if near := nearest(key.Value, known); near != "" {
				advice = fmt.Sprintf("did you mean %q?", near)
			}
			return d.errorAt(key, field, advice, "unknown key %q", key.Value)
		}
		if err := f(key.Value, value); err != nil {
			return err
		}
	}
	return nil
}

var hostKeys = []string{"address", "user", "port", "identity_file", "known_hosts", "jump", "python", "env", "cwd", "container", "state_dir", "spec", "labels"}

func (d decoder) host(name string, n *yaml.Node) (Host, error) {
	h := Host{Name: name, Kind: KindSSH}
	field := "hosts." + name
	texts := map[string]*string{
		"user": &h.User, "identity_file": &h.IdentityFile, "known_hosts": &h.KnownHosts, "jump": &h.Jump,
		"python": &h.Python, "cwd": &h.Cwd, "container": &h.Container, "state_dir": &h.StateDir, "spec": &h.Spec,
	}
	err := d.walk(n, field, hostKeys, func(key string, v *yaml.Node) error {
		at := field + "." + key
		switch key {
		case "address":
			return d.address(&h, v, at)
		case "port":
			text, err := d.text(v, at)
			if err != nil {
				return err
			}
			port, err := strconv.Atoi(text)
			if err != nil || port < 1 || port > 65535 {
				return d.errorAt(v, at, "", "%q is no port: a number from 1 to 65535 is needed", text)
			}
			h.Port = port
			return nil
		case "env":
			return d.texts(v, at, &h.Env)
		case "labels":
			return d.texts(v, at, &h.Labels)
		}
		text, err := d.text(v, at)
		*texts[key] = text
		return err
	})
	if err != nil {
		return h, err
	}
	if name == "local" {
		h.Kind = KindLocal
		return h, nil
	}
	if h.Address == "" {
		h.Address = name // may be an alias of ssh_config
	}
	base := filepath.Dir(d.file)
	for _, path := range []*string{&h.IdentityFile, &h.KnownHosts, &h.Spec} {
		if *path, err = localPath(base, *path); err != nil {
			return h, d.errorAt(n, field, "", "%v", err)
		}
	}
	return h, nil
}

// address may hold the user and port, which keys of their own overrule.
func (d decoder) address(h *Host, v *yaml.Node, field string) error {
	text, err := d.text(v, field)
	if err != nil {
		return err
	}
	user, address, port, err := remote.ParseAddress(text)
	if err != nil {
		return d.errorAt(v, field, "give host, user@host or user@host:port", "%v", err)
	}
	h.Address = address
	if h.User == "" {
		h.User = user
	}
	if h.Port == 0 {
		h.Port = port
	}
	return nil
}

func (d decoder) text(n *yaml.Node, field string) (string, error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return "", d.errorAt(n, field, "", "a text is needed here")
	}
	return n.Value, nil
}

func (d decoder) texts(n *yaml.Node, field string, into *map[string]string) error {
	*into = map[string]string{}
	return d.walk(n, field, nil, func(key string, v *yaml.Node) error {
		text, err := d.text(v, field+"."+key)
		(*into)[key] = text
		return err
	})
}

func (d decoder) list(n *yaml.Node, field string) ([]string, error) {
	if n.Kind != yaml.SequenceNode {
		return nil, d.errorAt(n, field, "write [name, name]", "a list of hosts is needed here")
	}
	var all []string
	for i, item := range n.Content {
		text, err := d.text(item, fmt.Sprintf("%s[%d]", field, i))
		if err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, nil
}

// localPath makes a path of the hosts file absolute: relative ones are beside
// the file, "~/" is the home folder.
func localPath(base, path string) (string, error) {
	if path == "" || filepath.IsAbs(path) {
		return path, nil
	}
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", errors.New("there is no home folder to put in place of ~")
		}
		return filepath.Join(home, rest), nil
	}
	return filepath.Abs(filepath.Join(base, path))
}
