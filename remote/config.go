package remote

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Config says how to reach one host over SSH. Name, Address and User must
// be set. Paths are paths here, absolute ones: nothing in this package knows the
// home folder.
type Config struct {
	Name    string // as the user named it; it is in every error
	Address string // host name or IP address, without port
	User    string // must be set, too: nothing here knows who runs specrun
	Port    int    // 0 is 22

	IdentityFiles  []string // private keys, in order; a missing one is no error as long as another serves
	IdentitiesOnly bool     // offer no agent key but those of IdentityFiles
	AgentSocket    string   // path of the ssh-agent's socket, "" is none
	// Prompt asks the user on a terminal for a key's passphrase; nil when there
	// is none to ask.
	Prompt func(ctx context.Context, question string) (string, error)

	KnownHosts   []string // read all; the first is specrun's own, the only one written
	AcceptNew    bool     // record the key of a host of which none is known
	HostKeyAlias string   // look the key up under this name

	Jump []string // hosts to go through, in order: NAME, user@host, host:port
	// Resolve finds what ssh_config says about a jump host (see ResolveAlias);
	// nil takes their names as they are.
	Resolve func(ctx context.Context, name string) (Alias, error)

	ProxyCommand string // not supported: set, it makes Dial fail with a hint

	DialTimeout      time.Duration // TCP connect, 0 is 10 s
	HandshakeTimeout time.Duration // key exchange and authentication, 0 is 15 s
	ChannelTimeout   time.Duration // opening a session or forward, 0 is 10 s
	KeepAlive        time.Duration // between probes of a silent connection, 0 is 15 s; dead after three
	MaxSessions      int           // at once on the connection, 0 is 8; less when the server says so
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&c.DialTimeout, 10*time.Second)
	set(&c.HandshakeTimeout, 15*time.Second)
	set(&c.ChannelTimeout, 10*time.Second)
	set(&c.KeepAlive, 15*time.Second)
	if c.Port == 0 {
		c.Port = 22
	}
	if c.MaxSessions == 0 {
		c.MaxSessions = 8
	}
	return c
}

func (c Config) check() error {
	fail := func(what, next string) error {
		return &Error{Host: c.Name, Op: "dial", Kind: ErrUnreachable, Err: fmt.Errorf("%s", what), Next: next}
	}
	switch {
	case c.Address == "":
		return fail("no address", "give one as user@address, or in hosts.yaml")
	case c.ProxyCommand != "":
		return fail("ssh_config reaches it through a ProxyCommand, which specrun cannot use", "use ProxyJump instead, or a hosts.yaml entry with jump:")
	case c.User == "":
		return fail("no user", "give one as user@address, or in hosts.yaml")
	case c.Port < 0 || c.Port > 65535:
		return fail(fmt.Sprintf("port %d is none", c.Port), "")
	}
	return nil
}

func (c Config) hostPort() string { return net.JoinHostPort(c.Address, strconv.Itoa(c.Port)) }

// keyName is the name under which known_hosts has the host's key, as
// "name:port". Never the connection's remote address: through a jump host that
// is 0.0.0.0:0.
func (c Config) keyName() string {
	if strings.HasPrefix(c.HostKeyAlias, "[") { // "[name]:port", as in known_hosts
		return c.HostKeyAlias
	}
	if c.HostKeyAlias != "" {
		return net.JoinHostPort(c.HostKeyAlias, "22")
	}
	return c.hostPort()
}

// ParseAddress splits [user@]host[:port]; an IPv6 address with a port is in
// brackets. Missing parts are "" and 0.
func ParseAddress(s string) (user, host string, port int, err error) {
	rest := s
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		user, rest = rest[:i], rest[i+1:]
		if user == "" {
			return "", "", 0, fmt.Errorf("address %q: no user before the @", s)
		}
	}
	host = rest
	if strings.HasPrefix(rest, "[") || strings.Count(rest, ":") == 1 {
		var digits string
		if strings.HasSuffix(rest, "]") {
			rest += ":22"
		}
		host, digits, err = net.SplitHostPort(rest)
		if err != nil {
			return "", "", 0, fmt.Errorf("address %q: %w", s, err)
		}
		port, err = strconv.Atoi(digits)
		if err != nil || port < 1 || port > 65535 {
			return "", "", 0, fmt.Errorf("address %q: port %q is not between 1 and 65535", s, digits)
		}
		if strings.HasSuffix(s, "]") {
			port = 0
		}
	}
	if host == "" || strings.ContainsAny(host, " \t\r\n/") || host[0] == '-' {
		return "", "", 0, fmt.Errorf("address %q: no usable host name", s)
	}
	return user, host, port, nil
}

// route returns the configs of the hops before c, in the order of dialling.
// The first hop's own ProxyJump comes before it, as ssh does.
func (c Config) route(ctx context.Context) ([]Config, error) {
	var hops []Config
	var names []string
	jump := c.Jump
	for depth := 0; len(jump) > 0; depth++ {
		var front []Config
		var next []string
		for i, name := range jump {
			if slices.Contains(names, name) || depth > 8 {
				return nil, &Error{Host: c.Name, Op: "jump hosts", Kind: ErrUnreachable,
					Err: fmt.Errorf("%s leads back to itself", name), Next: "look at ProxyJump in ssh_config"}
			}
			names = append(names, name)
			hop, own, err := c.hop(ctx, name)
			if err != nil {
				return nil, err
			}
			front = append(front, hop)
			if i == 0 {
				next = own
			}
		}
		hops = append(front, hops...)
		jump = next
	}
	return hops, nil
}

func (c Config) hop(ctx context.Context, name string) (hop Config, jump []string, err error) {
	fail := func(err error) (Config, []string, error) {
		return Config{}, nil, &Error{Host: c.Name, Op: "jump host " + name, Kind: ErrUnreachable, Err: err}
	}
	user, host, port, err := ParseAddress(name)
	if err != nil {
		return fail(err)
	}
	hop = c
	hop.Name = c.Name + " via " + name
	hop.Address, hop.HostKeyAlias, hop.Jump = host, "", nil
	hop.Port = port
	if user != "" {
		hop.User = user
	}
	if c.Resolve == nil {
		return hop.withDefaults(), nil, nil
	}
	alias, err := c.Resolve(ctx, host)
	if err != nil {
		return fail(err)
	}
	if user == "" {
		hop.User = "" // the alias's, not the target's
	}
	// The hop's own keys first; those of the target often serve there, too.
	hop.IdentityFiles, hop.IdentitiesOnly = nil, false
	alias.Fill(&hop)
	for _, f := range c.IdentityFiles {
		if !slices.Contains(hop.IdentityFiles, f) {
			hop.IdentityFiles = append(slices.Clip(hop.IdentityFiles), f)
		}
	}
	if hop.User == "" {
		hop.User = c.User
	}
	jump, hop.Jump = hop.Jump, nil
	if err := hop.check(); err != nil {
		return Config{}, nil, err
	}
	return hop.withDefaults(), jump, nil
}
