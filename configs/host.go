package configs

import (
	"fmt"
	"maps"
	"strings"
)

// Kind says what sort of host a name means.
type Kind string

const (
	SSH   Kind = "ssh"   // reached over SSH
	Local Kind = "local" // this machine
	Lab   Kind = "lab"   // the practice host
)

// Host is one host as the user described it. Empty fields are not set.
// IdentityFile, KnownHosts and Spec are paths here ("~" and paths relative to
// hosts.yaml are resolved); the other paths are paths on the host.
type Host struct {
	Name          string
	Kind          Kind
	Address       string // host name or IP address; the alias itself for an ssh_config alias
	User          string
	Port          int // 0 is not set
	IdentityFile  string
	KnownHosts    string
	Jump          string // as in ssh -J: one or more, separated by commas
	Python        string
	Cwd           string
	Container     string
	StateDir      string
	Spec          string
	Env           map[string]string
	Labels        map[string]string
	FromSSHConfig bool // an alias that only ssh_config knows
}

// JumpHosts are the hosts of Jump in order; nil for none.
func (h Host) JumpHosts() []string {
	var hops []string
	for hop := range strings.SplitSeq(h.Jump, ",") {
		if hop = strings.TrimSpace(hop); hop != "" && hop != "none" {
			hops = append(hops, hop)
		}
	}
	return hops
}

// clone protects the file's own maps from the caller.
func (h Host) clone() Host {
	h.Env, h.Labels = maps.Clone(h.Env), maps.Clone(h.Labels)
	return h
}

// UnknownHostError says that a name means nothing. It is wrong usage.
type UnknownHostError struct {
	Name    string
	Nearest []string // known names that look alike, the likeliest first
	Looked  []string // where hosts.yaml was looked for
	Err     error    // why ssh_config could not be asked, nil when it could
}

func (e *UnknownHostError) Error() string {
	msg := fmt.Sprintf("unknown host %q", e.Name)
	if len(e.Looked) > 0 {
		msg += " (looked in " + strings.Join(e.Looked, ", ") + " and ssh_config)"
	}
	if e.Err != nil {
		msg += ": " + e.Err.Error()
	}
	return msg
}

// Hint says what the user can do about it.
func (e *UnknownHostError) Hint() string {
	if len(e.Nearest) > 0 {
		return "did you mean " + strings.Join(e.Nearest, " or ") + "?"
	}
	return fmt.Sprintf("give it as user@%s, add it to hosts.yaml, or use local or lab", e.Name)
}

func (e *UnknownHostError) Unwrap() error { return e.Err }
