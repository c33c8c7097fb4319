package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Alias is what the user's ssh_config says about one name.
type Alias struct {
	Name           string
	HostName, User string
	Port           int
	IdentityFiles  []string
	IdentitiesOnly bool
	IdentityAgent  string // "" is not set, "none" is none
	KnownHosts     []string
	HostKeyAlias   string
	ProxyJump      []string
	ProxyCommand   string // not supported: Dial refuses it
}

// AliasOptions says how to ask.
type AliasOptions struct {
	SSH        string // the program, "" is ssh from PATH
	ConfigFile string // instead of the user's own, "" is ssh's default
	Home       string // what "~" stands for in the answer
}

// ErrNoSSH says that there is no ssh program to ask.
var ErrNoSSH = errors.New("no ssh program found")

// aliasLimit bounds one question; a "Match exec" of the user's runs in it.
const aliasLimit = 5 * time.Second

// ResolveAlias asks "ssh -G" what name means: only ssh itself reads ssh_config
// right (Match, Include, tokens). It runs the user's own Match exec lines, as
// ssh would. A name that ssh_config does not mention resolves to itself;
// KnownAlias tells the two apart. It fails with ErrNoSSH where there is no ssh.
func ResolveAlias(ctx context.Context, name string, o AliasOptions) (Alias, error) {
	out, err := askSSH(ctx, name, o)
	if err != nil {
		return Alias{}, err
	}
	return parseAlias(name, out, o.Home), nil
}

// KnownAlias says whether ssh_config holds anything about name beyond what it
// says about every name.
func KnownAlias(ctx context.Context, name string, o AliasOptions) (bool, error) {
	out, err := askSSH(ctx, name, o)
	if err != nil {
		return false, err
	}
	// Of the same shape, and nobody's.
	other := "specrun-" + newMarker()
	ref, err := askSSH(ctx, other, o)
	if err != nil {
		return false, err
	}
	return !bytes.Equal(out, bytes.ReplaceAll(ref, []byte(other), []byte(name))), nil
}

func askSSH(ctx context.Context, name string, o AliasOptions) ([]byte, error) {
	if name == "" || name[0] == '-' || strings.ContainsAny(name, " \t\r\n") {
		return nil, fmt.Errorf("ssh_config: %q cannot be a host name", name)
	}
	program := o.SSH
	if program == "" {
		program = "ssh"
	}
	args := []string{"-G"}
	if o.ConfigFile != "" {
		args = append(args, "-F", o.ConfigFile)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, aliasLimit,
		fmt.Errorf("%w after %v: a Match exec in ssh_config may hang", ErrTimeout, aliasLimit))
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append(args, "--", name)...)
	cmd.WaitDelay = time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("ssh_config of %s: %w", name, ErrNoSSH)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("ssh_config of %s: %w", name, context.Cause(ctx))
	case err != nil:
		return nil, fmt.Errorf("ssh_config of %s: ssh -G: %w: %s", name, err, lastLine(stderr.Bytes()))
	}
	return out, nil
}

func parseAlias(name string, out []byte, home string) Alias {
	a := Alias{Name: name}
	path := func(p string) string {
		if rest, ok := strings.CutPrefix(p, "~/"); ok && home != "" {
			return filepath.Join(home, rest)
		}
		return p
	}
	for line := range strings.Lines(string(out)) {
		key, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
		switch strings.ToLower(key) {
		case "hostname":
			a.HostName = value
		case "user":
			a.User = value
		case "port":
			a.Port, _ = strconv.Atoi(value) // ssh checked it
		case "identityfile":
			if value != "none" {
				a.IdentityFiles = append(a.IdentityFiles, path(value))
			}
		case "identitiesonly":
			a.IdentitiesOnly = value == "yes"
		case "identityagent":
			if value != "SSH_AUTH_SOCK" {
				a.IdentityAgent = path(value)
			}
		case "userknownhostsfile", "globalknownhostsfile":
			for _, f := range strings.Fields(value) {
				if f != "none" && f != "/dev/null" {
					a.KnownHosts = append(a.KnownHosts, path(f))
				}
			}
		case "hostkeyalias":
			a.HostKeyAlias = value
		case "proxyjump":
			if value != "none" {
				for _, hop := range strings.Split(value, ",") {
					a.ProxyJump = append(a.ProxyJump, strings.TrimPrefix(strings.TrimSpace(hop), "ssh://"))
				}
			}
		case "proxycommand":
			if value != "none" {
				a.ProxyCommand = value
			}
		}
	}
	return a
}

// Fill puts what the alias knows into c, where c has nothing yet. Known-hosts
// files are added behind those of c, so that c's first stays the one written.
func (a Alias) Fill(c *Config) {
	// ssh says "hostname" for every name; the dialled one is the alias's.
	if a.HostName != "" {
		c.Address = a.HostName
	}
	if c.User == "" {
		c.User = a.User
	}
	if c.Port == 0 {
		c.Port = a.Port
	}
	if c.HostKeyAlias == "" {
		c.HostKeyAlias = a.HostKeyAlias
	}
	if len(c.IdentityFiles) == 0 {
		c.IdentityFiles = a.IdentityFiles
	}
	c.IdentitiesOnly = c.IdentitiesOnly || a.IdentitiesOnly
	switch {
	case a.IdentityAgent == "none":
		c.AgentSocket = ""
	case a.IdentityAgent != "":
		c.AgentSocket = a.IdentityAgent
	}
	for _, f := range a.KnownHosts {
		if !slices.Contains(c.KnownHosts, f) {
			c.KnownHosts = append(slices.Clip(c.KnownHosts), f)
		}
	}
	if len(c.Jump) == 0 {
		c.Jump = a.ProxyJump
		c.ProxyCommand = a.ProxyCommand
	}
}
