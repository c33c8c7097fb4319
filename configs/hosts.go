package configs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"specrun/remote"
)

// Kind says how a host is reached.
type Kind string

// Kinds of hosts.
const (
	KindSSH   Kind = "ssh"
	KindLocal Kind = "local" // this machine
	KindLab   Kind = "lab"   // the practice host
)

// Host is one machine.
type Host struct {
	Name    string // as the user named it
	Kind    Kind
	Address string // host name or IP address; an alias of ssh_config when there is nothing else
	User    string // "" = ssh_config's, else the current user
	Port    int    // 0 = ssh_config's, else 22

	IdentityFile string // private key, a path on this machine
	KnownHosts   string // a path on this machine, read and with --accept-new written
	Jump         string // hosts to go through, separated by commas

	Python    string // interpreter that runs the server
	Cwd       string // working folder of the server
	Container string
	StateDir  string            // "" = the default, see deploy
	Env       map[string]string // of the server
	Spec      string            // experiment file, a path on this machine
	Labels    map[string]string
}

// Hosts is a hosts file, or none.
type Hosts struct {
	File   string   // "" when there is none
	looked []string // where a file was looked for
	hosts  map[string]Host
	groups map[string][]string

	// knownAlias tells whether ssh_config knows a name; tests replace it.
	knownAlias func(ctx context.Context, name string) (bool, error)
}

// FileName is what a hosts file is called.
const FileName = "hosts.yaml"

// Find loads the hosts file: the named one, else ./hosts.yaml, else the one in
// the config folder. Only a named file must exist. Errors are *FileError.
func Find(named, configDir string) (*Hosts, error) {
	if named != "" {
		return Load(named)
	}
	candidates := []string{FileName, filepath.Join(configDir, FileName)}
	for _, file := range candidates {
		h, err := Load(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return h, err
	}
	return &Hosts{looked: candidates, knownAlias: askSSH}, nil
}

// Load reads a hosts file strictly. A fault is a *FileError.
func Load(file string) (*Hosts, error) {
	src, err := os.ReadFile(file)
	if err != nil {
		return nil, &FileError{File: file, Err: err}
	}
	h, err := decode(file, src)
	if err != nil {
		return nil, err
	}
	h.looked, h.knownAlias = []string{file}, askSSH
	return h, nil
}

func askSSH(ctx context.Context, name string) (bool, error) {
	return remote.KnownAlias(ctx, name, remote.AliasOptions{})
}

// Names lists the hosts and groups of the file, sorted.
func (h *Hosts) Names() []string {
	var names []string
	for n := range h.hosts {
		names = append(names, n)
	}
	for n := range h.groups {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Expand replaces groups by their members, keeping the order and each host once.
func (h *Hosts) Expand(names []string) ([]string, error) {
	var all []string
	add := func(n string) {
		if !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	for _, n := range names {
		members, isGroup := h.groups[n]
		if _, isHost := h.hosts[n]; !isGroup || isHost {
			add(n)
			continue
		}
		for _, m := range members {
			add(m)
		}
	}
	return all, nil
}

// Resolve finds a host by name. It asks ssh for an alias only when nothing else
// fits; one that nobody knows is an *UnknownHostError.
func (h *Hosts) Resolve(ctx context.Context, name string) (Host, error) {
	if host, ok := h.hosts[name]; ok {
		return host, nil
	}
	switch name {
	case "local":
		return Host{Name: name, Kind: KindLocal}, nil
	case "lab":
		return Host{Name: name, Kind: KindLab}, nil
	case "":
		return Host{}, &UnknownHostError{Name: name, Looked: h.looked}
	}
	if strings.ContainsAny(name, "@:") {
		user, address, port, err := remote.ParseAddress(name)
		if err != nil {
			return Host{}, &UnknownHostError{Name: name, Looked: h.looked, Err: err}
		}
		return Host{Name: name, Kind: KindSSH, User: user, Address: address, Port: port}, nil
	}
	known, err := h.knownAlias(ctx, name)
	if err != nil && !errors.Is(err, remote.ErrNoSSH) {
		return Host{}, err
	}
	if !known {
		return Host{}, &UnknownHostError{Name: name, Looked: h.looked, Nearest: nearest(name, append(h.Names(), "local", "lab"))}
	}
	return Host{Name: name, Kind: KindSSH, Address: name}, nil
}

// UnknownHostError says that no file and no ssh_config knows a name.
type UnknownHostError struct {
	Name    string
	Nearest string // a name that looks alike, or ""
	Looked  []string
	Err     error // what is wrong with an address, nil otherwise
}

func (e *UnknownHostError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("host %q: %v", e.Name, e.Err)
	}
	return fmt.Sprintf("unknown host %q: not in %s, no alias of ssh_config", e.Name, strings.Join(e.Looked, " or "))
}

func (e *UnknownHostError) Unwrap() error { return e.Err }

// Hint says what to do next.
func (e *UnknownHostError) Hint() string {
	if e.Nearest != "" {
		return fmt.Sprintf("did you mean %q?", e.Nearest)
	}
	return "add it to hosts.yaml, or give user@address[:port], local or lab"
}

// FileError says what is wrong with a hosts file, and where.
type FileError struct {
	File         string
	Line, Column int    // from 1; 0 when it is not about a place
	Field        string // hosts.kimi-8gpu.port
	Msg          string
	Advice       string
	Err          error
}

func (e *FileError) Error() string {
	place := e.File
	if e.Line > 0 {
		place = fmt.Sprintf("%s:%d:%d", e.File, e.Line, e.Column)
	}
	var notFound *fs.PathError
	switch {
	case errors.As(e.Err, &notFound):
		return fmt.Sprintf("hosts file %s: %v", place, notFound.Err)
	case e.Err != nil:
		return fmt.Sprintf("hosts file %s: %v", place, e.Err)
	case e.Field != "":
		return fmt.Sprintf("%s: %s: %s", place, e.Field, e.Msg)
	}
	return fmt.Sprintf("%s: %s", place, e.Msg)
}

func (e *FileError) Unwrap() error { return e.Err }

// Hint says what to do next; "" when the message says it all.
func (e *FileError) Hint() string { return e.Advice }
