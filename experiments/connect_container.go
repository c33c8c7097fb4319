package experiments

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"specrun/deploy/server"
	"specrun/remote"
)

// enterable is a RemoteHost that can go into its containers; *remote.Host is one.
type enterable interface {
	Container(ctx context.Context, c remote.Container) (*remote.Host, error)
}

// remoteContainers are the containers of a connection's host.
type remoteContainers struct {
	h     RemoteHost
	o     ConnectOptions
	outer *Host
}

func (c remoteContainers) Enter(ctx context.Context, p server.Place) (*Host, server.Place, error) {
	h, ok := c.h.(enterable)
	if !ok {
		return nil, p, errors.New(c.h.Name() + ": containers cannot be entered from here")
	}
	name := remote.Container{Engine: p.Engine, Name: p.Name}
	if p.ID != "" { // another one of that name is not the one that is meant
		name.Name = p.ID
	}
	in, err := h.Container(ctx, name)
	var gone *remote.ContainerError
	if errors.As(err, &gone) {
		gone.Name = p.Name
	}
	if err != nil {
		return nil, p, err
	}
	at, _ := in.Inside()
	p.ID = at.ID
	o := c.o
	o.StateDir = p.StateDir
	inner := Connect(in, o)
	servers := placedServer{remoteServer: inner.Server.(remoteServer), outer: c.h, state: c.o.StateDir, place: p, hostPorts: at.HostNetwork}
	inner.Name, inner.Server, inner.Containers = c.outer.Name, servers, c
	inner.Leases = splitLeases{outer: c.outer.Leases, inner: inner.Leases, hostPorts: at.HostNetwork}
	inner.Foreign = nil // who else runs there is not looked for
	inner.Leave = func() *Host {
		in.Close() // its processes have ended: nothing is lost by an error
		return c.outer
	}
	inner.Close = func() error { return errors.Join(in.Close(), c.outer.Close()) }
	return inner, p, nil
}

func (c remoteContainers) Start(ctx context.Context, i server.Instance) (server.Place, error) {
	return server.StartInstance(ctx, c.h, i)
}

func (c remoteContainers) Find(ctx context.Context, engine, launch string) (*server.Place, error) {
	return server.FindInstance(ctx, c.h, engine, launch)
}

func (c remoteContainers) Remove(ctx context.Context, engine, launch string) (string, error) {
	return server.RemoveInstance(ctx, c.h, c.o.StateDir, engine, launch)
}

// placedServer runs servers in a container and lets its host know of them.
type placedServer struct {
	remoteServer
	outer     RemoteHost
	state     string // folder on outer
	place     server.Place
	hostPorts bool
}

func (s placedServer) Start(ctx context.Context, l server.Launch) (server.Identity, error) {
	port := 0
	if s.hostPorts {
		port = l.Port
	}
	// Before anything runs: a controller that ends here leaves nothing that nobody
	// finds.
	if err := server.NotePlace(ctx, s.outer, s.state, l, s.place, port, server.Identity{}); err != nil {
		return server.Identity{}, err
	}
	id, err := s.remoteServer.Start(ctx, l)
	if err != nil {
		return id, err
	}
	return id, server.NotePlace(ctx, s.outer, s.state, l, s.place, port, id)
}

// Look takes a container that is gone for what it is: the end of all in it.
func (s placedServer) Look(ctx context.Context, launch string) (server.State, error) {
	st, err := s.remoteServer.Look(ctx, launch)
	return s.orGone(ctx, launch, st, err)
}

func (s placedServer) LookClosely(ctx context.Context, launch string, port int, used bool) (server.State, error) {
	st, err := s.remoteServer.LookClosely(ctx, launch, port, used)
	return s.orGone(ctx, launch, st, err)
}

func (s placedServer) orGone(ctx context.Context, launch string, st server.State, err error) (server.State, error) {
	if containerGone(err) {
		return server.Look(ctx, s.outer, s.state, launch)
	}
	st.In = &s.place
	return st, err
}

// Stop also removes a container that was made for the launch.
func (s placedServer) Stop(ctx context.Context, launch string) (server.Proof, error) {
	return server.Stop(ctx, s.outer, s.state, launch, server.StopOptions{Grace: s.o.Grace, Release: true})
}

// splitLeases are those of a launch in a container: GPUs are the host's, and so are
// ports where both share the network; patch sets, and ports of the container's own,
// are kept in the container.
type splitLeases struct {
	outer, inner Leases
	hostPorts    bool
}

func (l splitLeases) split(names []string) (outer, inner []string) {
	for _, n := range names {
		switch {
		case strings.HasPrefix(n, "patches-"), strings.HasPrefix(n, "port-") && !l.hostPorts:
			inner = append(inner, n)
		default:
			outer = append(outer, n)
		}
	}
	return outer, inner
}

// Acquire takes the host's first: who waits has its place in the queue there.
func (l splitLeases) Acquire(ctx context.Context, q server.LeaseRequest) (server.Grant, error) {
	host, inside := q, q
	host.Names, inside.Names = l.split(q.Names)
	host.Queue, _ = l.split(q.Queue)
	inside.Queue, inside.Parent = nil, ""
	host.Found, host.Set = "", ""
	if l.hostPorts {
		inside.Port = server.PortRequest{}
	} else {
		host.Port = server.PortRequest{}
	}
	var grant server.Grant
	var err error
	if len(host.Names)+len(host.Queue) > 0 || host.Port.From != 0 {
		if grant, err = l.outer.Acquire(ctx, host); err != nil {
			return grant, err
		}
	}
	if len(inside.Names) == 0 && inside.Port.From == 0 {
		return grant, nil
	}
	in, err := l.inner.Acquire(ctx, inside)
	if err != nil {
		taken := slices.Clone(host.Names)
		if grant.Port != 0 {
			taken = append(taken, server.PortLease(grant.Port))
		}
		if len(taken) > 0 {
			err = errors.Join(err, l.outer.Release(ctx, taken, q.Owner))
		}
		return grant, err
	}
	if in.Port != 0 {
		grant.Port = in.Port
	}
	grant.Sharers = in.Sharers
	return grant, nil
}

// each calls f for the leases of either side that names has some of; nil is all of
// both.
func (l splitLeases) each(names []string, f func(Leases, []string) error) error {
	if names == nil {
		return errors.Join(f(l.inner, nil), f(l.outer, nil))
	}
	outer, inner := l.split(names)
	var errs []error
	if len(inner) > 0 {
		errs = append(errs, f(l.inner, inner))
	}
	if len(outer) > 0 {
		errs = append(errs, f(l.outer, outer))
	}
	return errors.Join(errs...)
}

func (l splitLeases) Refresh(ctx context.Context, names []string, owner server.Owner, ttl time.Duration) error {
	return l.each(names, func(of Leases, names []string) error { return of.Refresh(ctx, names, owner, ttl) })
}

func (l splitLeases) Leave(ctx context.Context, names []string, owner server.Owner) error {
	return l.each(names, func(of Leases, names []string) error { return of.Leave(ctx, names, owner) })
}

// Release gives back; what was in a container that is gone went with it.
func (l splitLeases) Release(ctx context.Context, names []string, owner server.Owner) error {
	return l.each(names, func(of Leases, names []string) error {
		err := of.Release(ctx, names, owner)
		if containerGone(err) {
			return nil
		}
		return err
	})
}

func (l splitLeases) Reclaim(ctx context.Context, names []string, owner server.Owner) error {
	return l.each(names, func(of Leases, names []string) error { return of.Reclaim(ctx, names, owner) })
}

func (l splitLeases) Last(ctx context.Context, names []string, owner server.Owner, ttl time.Duration) (*server.Lease, error) {
	return l.inner.Last(ctx, names, owner, ttl) // of patch sets
}

func (l splitLeases) Met(ctx context.Context, port int) ([]string, error) {
	if l.hostPorts {
		return l.outer.Met(ctx, port)
	}
	return l.inner.Met(ctx, port)
}
