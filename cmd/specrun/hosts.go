package main

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"specrun/configs"
	"specrun/deploy"
	"specrun/experiments"
	"specrun/experiments/lab"
	"specrun/remote"
)

// labHost is the practice host's name.
const labHost = "lab"

// parallel bounds the connections that are open at once.
const parallel = 16

// connection is one host that a command works on.
type connection struct {
	*remote.Host
	entry  configs.Host
	around *remote.Host // whose container Host is; nil: Host is in none
}

// Close ends the connection, also that around a container.
func (c *connection) Close() error {
	err := c.Host.Close()
	if c.around != nil {
		err = errors.Join(err, c.around.Close())
	}
	return err
}

// where names the interpreter and environment of a host's server. What the
// command line says comes before the spec, and that before the hosts file.
func (c *connection) where(a *app, spec *experiments.Spec) deploy.Where {
	host := experiments.HostConfig{Name: c.entry.Name, Python: c.entry.Python, Cwd: c.entry.Cwd, Env: c.entry.Env, StateDir: c.entry.StateDir}
	w := experiments.WhereOf(spec, host, a.flags.python)
	return deploy.Where{Python: w.Python, Env: w.Env, Cwd: w.Cwd, StateDir: c.entry.StateDir, Engine: w.Engine}
}

// hostEntries resolves the --host flags, else the hosts of the spec.
func (a *app) hostEntries(ctx context.Context, spec *experiments.Spec) ([]configs.Host, error) {
	names := a.flags.hosts
	if len(names) == 0 && spec != nil {
		names = spec.Hosts
	}
	if len(names) == 0 {
		return nil, usagef("give --host NAME: a host from hosts.yaml, an ssh_config alias, user@address, local or lab", "no host")
	}
	hosts, err := a.loadHosts()
	if err != nil {
		return nil, err
	}
	entries, err := hosts.Expand(names)
	if err != nil {
		return nil, err
	}
	for i, e := range entries {
		if e.Kind == configs.Lab {
			if entries[i], err = a.labEntry(ctx); err != nil {
				return nil, err
			}
		}
	}
	return entries, nil
}

func (a *app) loadHosts() (*configs.Hosts, error) {
	path, looked, err := configs.Find(a.flags.hostsFile, ".", filepath.Dir(a.configDir()))
	if err != nil {
		return nil, err
	}
	hosts := configs.None(looked)
	if path != "" {
		if hosts, err = configs.Load(path, a.home); err != nil {
			return nil, err
		}
	}
	hosts.Aliases = func(ctx context.Context, name string) (bool, error) {
		return remote.KnownAlias(ctx, name, remote.AliasOptions{Home: a.home})
	}
	return hosts, nil
}

// eachHost runs f on every host named, several at a time, and joins what failed
// in the order of the hosts.
func (a *app) eachHost(ctx context.Context, f func(context.Context, *connection) error) error {
	spec, err := a.specForHosts()
	if err != nil {
		return err
	}
	entries, err := a.hostEntries(ctx, spec)
	if err != nil {
		return err
	}
	errs := make([]error, len(entries))
	var group errgroup.Group
	group.SetLimit(parallel)
	for i, e := range entries {
		group.Go(func() error {
			c, err := a.connect(ctx, e)
			if err == nil {
				err = errors.Join(f(ctx, c), c.Close())
			}
			errs[i] = unwrapOne(err)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return unwrapOne(errors.Join(errs...))
}

// unwrapOne gives the error itself when a join holds a single one.
func unwrapOne(err error) error {
	if parts := flatten(err); len(parts) == 1 {
		return parts[0]
	}
	return err
}

// specForHosts is the spec whose hosts count when no --host is given.
func (a *app) specForHosts() (*experiments.Spec, error) {
	if len(a.flags.hosts) > 0 {
		return nil, nil
	}
	spec, _, err := a.optionalSpec("", configs.Host{})
	return spec, err
}

// connect opens the one connection to a host, and goes into its container where
// the hosts file names one.
func (a *app) connect(ctx context.Context, e configs.Host) (*connection, error) {
	h, err := a.connectHost(ctx, e)
	if err != nil {
		return nil, err
	}
	if e.Container == "" {
		return &connection{Host: h, entry: e}, nil
	}
	in, err := remote.ParseContainer(e.Container)
	if err != nil {
		return nil, errors.Join(usagef("container: NAME, docker:NAME or podman:NAME", "%s: %v", e.Name, err), h.Close())
	}
	inside, err := h.Container(ctx, in)
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return &connection{Host: inside, entry: e, around: h}, nil
}

func (a *app) connectHost(ctx context.Context, e configs.Host) (*remote.Host, error) {
	if e.Kind == configs.Local {
		return remote.Local(remote.LocalConfig{Name: e.Name}), nil
	}
	a.progress("%s: connecting", e.Name)
	return a.dial(ctx, e)
}

// dial fills the connection's settings from the hosts file, then from ssh_config
// and the user's own keys. The practice host brings all of them itself.
func (a *app) dial(ctx context.Context, e configs.Host) (*remote.Host, error) {
	c := remote.Config{Name: e.Name, Address: e.Address, User: e.User, Port: e.Port, AcceptNew: a.flags.acceptNew}
	own := filepath.Join(a.configDir(), "known_hosts")
	if e.KnownHosts != "" {
		own = e.KnownHosts
	}
	c.KnownHosts = []string{own}
	if e.IdentityFile != "" {
		c.IdentityFiles = []string{e.IdentityFile}
		c.IdentitiesOnly = e.Kind == configs.Lab
	}
	c.Jump = e.JumpHosts()
	if e.Kind == configs.Lab {
		return remote.Dial(ctx, c)
	}
	c.Resolve = func(ctx context.Context, name string) (remote.Alias, error) {
		return remote.ResolveAlias(ctx, name, remote.AliasOptions{Home: a.home})
	}
	if !complete(e) {
		alias, err := c.Resolve(ctx, e.Address)
		switch {
		case err == nil:
			alias.Fill(&c)
			c.Address = alias.HostName
		case !errors.Is(err, remote.ErrNoSSH):
			return nil, err
		}
	}
	a.fillUserDefaults(&c)
	if a.stdinTTY && a.stderrTTY {
		c.Prompt = a.askSecret
	}
	return remote.Dial(ctx, c)
}

// complete says that the hosts file leaves nothing for ssh_config to say: asking
// it would only cost time.
func complete(e configs.Host) bool {
	return net.ParseIP(e.Address) != nil && e.User != "" && e.Port != 0 && e.IdentityFile != "" && e.KnownHosts != ""
}

// fillUserDefaults adds what OpenSSH would use when nothing else says so.
func (a *app) fillUserDefaults(c *remote.Config) {
	if c.User == "" {
		c.User = a.getenv("USER")
	}
	if len(c.IdentityFiles) == 0 {
		for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
			file := filepath.Join(a.home, ".ssh", name)
			if _, err := os.Stat(file); err == nil {
				c.IdentityFiles = append(c.IdentityFiles, file)
			}
		}
	}
	if c.AgentSocket == "" {
		c.AgentSocket = a.getenv("SSH_AUTH_SOCK")
	}
	c.KnownHosts = append(c.KnownHosts, filepath.Join(a.home, ".ssh", "known_hosts"))
}

// labEntry is the practice host as it runs now.
func (a *app) labEntry(ctx context.Context) (configs.Host, error) {
	if a.demo != nil {
		return labConfig(a.demo.Host()), nil
	}
	running, err := lab.Status(ctx, a.labDir())
	if err != nil {
		return configs.Host{}, err
	}
	return labConfig(running.Host), nil
}

func labConfig(h lab.Host) configs.Host {
	return configs.Host{Name: labHost, Kind: configs.Lab, Address: h.Address, Port: h.Port, User: h.User,
		IdentityFile: h.IdentityFile, KnownHosts: h.KnownHosts, Python: h.Python, Cwd: h.Cwd, StateDir: h.StateDir, Env: h.Env}
}

// labDir is where the practice host keeps everything of its own.
func (a *app) labDir() string {
	if dir := a.getenv("SPECRUN_LAB"); dir != "" {
		return dir
	}
	return filepath.Join(a.dataDir(), "lab")
}
