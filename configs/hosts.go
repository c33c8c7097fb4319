package configs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"specrun/remote"
)

// FileName is the name of the hosts file.
const FileName = "hosts.yaml"

// Hosts are the hosts and groups of one hosts.yaml. They do not change after
// Load, except for Aliases, which the caller sets before the first Resolve.
type Hosts struct {
	// Aliases says whether ssh_config knows a name; nil: it knows none.
	Aliases func(ctx context.Context, name string) (bool, error)

	looked []string
	hosts  map[string]Host
	groups map[string][]string
}

// Find returns the hosts file to read: the one given (which must exist then),
// else ./hosts.yaml in dir, else specrun/hosts.yaml in the user's config
// folder; "" when there is none. looked names the places.
func Find(given, dir, configHome string) (path string, looked []string, err error) {
	if given != "" {
		_, err := os.Stat(given)
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil, &FileError{File: given, Msg: "no such file", Next: "give --hosts-file the path of a hosts file, or leave it out", Err: err}
		}
		if err != nil {
			return "", nil, fmt.Errorf("hosts file: %w", err)
		}
		return given, []string{given}, nil
	}
	looked = []string{filepath.Join(dir, FileName)}
	if configHome != "" {
		looked = append(looked, filepath.Join(configHome, "specrun", FileName))
	}
	for _, p := range looked {
		_, err := os.Stat(p)
		if err == nil {
			return p, looked, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", looked, fmt.Errorf("hosts file: %w", err)
		}
	}
	return "", looked, nil
}

// Load reads a hosts file. Every mistake in it is a *FileError with its place;
// several are joined. Paths on this machine are resolved against the file's
// folder, "~/" against home.
func Load(path, home string) (*Hosts, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("hosts file: %w", err)
	}
	return parse(path, text, home)
}

// None is for when there is no hosts file: only built-in names, addresses and
// aliases resolve. looked is for the error.
func None(looked []string) *Hosts { return &Hosts{looked: looked} }

// Names are the names of all hosts of the file, sorted.
func (h *Hosts) Names() []string { return slices.Sorted(maps.Keys(h.hosts)) }

// Groups are the names of all groups of the file, sorted.
func (h *Hosts) Groups() []string { return slices.Sorted(maps.Keys(h.groups)) }

// resolveLimit bounds the question to ssh_config.
const resolveLimit = 10 * time.Second

// Resolve says which host a name means: an entry of the file, local, lab,
// user@address[:port], or an ssh_config alias, in this order. A group is no
// host: see Expand. An unknown name is an *UnknownHostError.
func (h *Hosts) Resolve(name string) (Host, error) {
	if host, ok := h.hosts[name]; ok {
		return host.clone(), nil
	}
	if members, ok := h.groups[name]; ok {
		return Host{}, fmt.Errorf("%s is a group of %d hosts, not a host", name, len(members))
	}
	switch Kind(name) {
	case Local, Lab:
		return Host{Name: name, Kind: Kind(name)}, nil
	}
	user, address, port, err := remote.ParseAddress(name)
	if err != nil {
		return Host{}, &UnknownHostError{Name: name, Looked: h.looked, Err: err}
	}
	if user != "" {
		return Host{Name: name, Kind: SSH, Address: address, User: user, Port: port}, nil
	}
	unknown := &UnknownHostError{Name: name, Looked: h.looked, Nearest: nearest(name, h.known())}
	if h.Aliases == nil || port != 0 {
		return Host{}, unknown
	}
	ctx, cancel := context.WithTimeout(context.Background(), resolveLimit)
	defer cancel()
	known, err := h.Aliases(ctx, name)
	switch {
	case known:
		return Host{Name: name, Kind: SSH, Address: name, FromSSHConfig: true}, nil
	case err != nil && !errors.Is(err, remote.ErrNoSSH):
		unknown.Err = err
	}
	return Host{}, unknown
}

// Expand resolves names, and groups into their hosts, in order and each host
// once.
func (h *Hosts) Expand(names []string) ([]Host, error) {
	var all []Host
	seen := map[string]bool{}
	for _, name := range names {
		members := []string{name}
		if group, ok := h.groups[name]; ok {
			members = group
		}
		for _, m := range members {
			if seen[m] {
				continue
			}
			seen[m] = true
			host, err := h.Resolve(m)
			if err != nil {
				return nil, err
			}
			all = append(all, host)
		}
	}
	return all, nil
}

func (h *Hosts) known() []string {
	names := append(h.Names(), h.Groups()...)
	return append(names, string(Local), string(Lab))
}
