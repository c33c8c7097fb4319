package experiments

import (
	"context"
	"errors"
	"fmt"

	"specrun/deploy/server"
	"specrun/remote"
)

// Containers are those of a host: an execution goes into the one that its server
// lives in, and everything it does to a host it does there.
type Containers interface {
	// Enter goes into a container, found by its id, or by its name when that is not
	// known yet; the place it returns has the id. The inner host's Close closes
	// everything, its Leave leaves the outer one open.
	Enter(ctx context.Context, p server.Place) (*Host, server.Place, error)
	// Start makes the container of a launch, or finds the one that runs.
	Start(ctx context.Context, i server.Instance) (server.Place, error)
	// Find finds the running container of a launch; nil: there is none.
	Find(ctx context.Context, engine, launch string) (*server.Place, error)
	// Remove removes the container of a launch and says where its server's log is
	// kept on the host.
	Remove(ctx context.Context, engine, launch string) (log string, err error)
}

// stepContainer makes the container of a launch that has one of its own.
const stepContainer = "container"

// disposable tells that each launch has a container of its own: what is patched in
// it goes with it, so that nothing is found there and nothing put back.
func (p *Plan) disposable() bool { return len(p.Cells) > 0 && p.Cells[0].Server.Launch.Image != "" }

// place is the container that runs already and that the plan's servers live in; nil
// when they live on the host, or in containers of their own.
func (p *Plan) place() *server.Place {
	if len(p.Cells) == 0 || p.Cells[0].Server.Launch.Container == "" {
		return nil
	}
	l := p.Cells[0].Server.Launch
	return &server.Place{Container: remote.Container{Engine: l.Via, Name: l.Container}}
}

// enter goes from the host into the container that the execution is in, if any.
func (x *execution) enter(ctx context.Context, h *Host) (*Host, error) {
	if x.inside == nil {
		return h, nil
	}
	if h.Containers == nil {
		return nil, fmt.Errorf("%s: container %s: containers cannot be entered from here", h.Name, x.inside.Name)
	}
	inner, place, err := h.Containers.Enter(ctx, *x.inside)
	if err != nil {
		return nil, err
	}
	x.inside = &place
	return inner, nil
}

// goInside makes a launch's own container the host of all that follows.
func (x *execution) goInside(ctx context.Context, p server.Place) error {
	if x.inside != nil && x.inside.ID == p.ID {
		return nil // a step that is looked at again
	}
	if x.inside != nil {
		x.goOutside()
	}
	inner, place, err := x.host.Containers.Enter(ctx, p)
	if err != nil {
		return err
	}
	x.inside, x.host = &place, inner
	x.shared.Store(inner)
	return nil
}

// goOutside makes the host itself the host again.
func (x *execution) goOutside() {
	if x.inside == nil || x.host.Leave == nil {
		return
	}
	x.inside, x.host = nil, x.host.Leave()
	x.shared.Store(x.host)
}

// containerGone says that the container of before, and all in it, is no more.
func containerGone(err error) bool {
	var c *remote.ContainerError
	return errors.As(err, &c) && c.Gone()
}

func (a *attempt) instance() server.Instance {
	l := a.cfg.Launch
	return server.Instance{Engine: l.Via, Launch: a.rec.ID, Image: l.Image, Args: l.RunArgs}
}

func (a *attempt) containerStep() Step {
	return Step{Name: stepContainer, Look: a.lookContainer, Do: a.doContainer, Undo: a.undoContainer, UndoName: "remove"}
}

func (a *attempt) lookContainer(ctx context.Context) (Found, any, error) {
	p, err := a.x.host.Containers.Find(ctx, a.cfg.Launch.Via, a.rec.ID)
	if err != nil {
		return Absent, nil, err
	}
	if p == nil {
		return Absent, map[string]string{"image": a.cfg.Launch.Image}, nil
	}
	return Done, p, a.x.goInside(ctx, *p)
}

func (a *attempt) doContainer(ctx context.Context) (any, error) {
	p, err := a.x.host.Containers.Start(ctx, a.instance())
	if err != nil {
		return nil, err
	}
	return p, a.x.goInside(ctx, p)
}

// undoContainer removes the container; the log that was in it is on the host then.
func (a *attempt) undoContainer(ctx context.Context) (any, error) {
	log, err := a.x.host.Containers.Remove(ctx, a.cfg.Launch.Via, a.rec.ID)
	if err != nil {
		return nil, err
	}
	a.x.goOutside()
	if a.state.LogPath != "" {
		a.state.LogPath, a.mark.File = log, "" // the same bytes in another file
	}
	return map[string]string{"log": log}, nil
}

// takeInside goes into the container of a launch that an earlier controller left,
// so that server and benchmark are looked at where they are.
func (a *attempt) takeInside(ctx context.Context) error {
	if a.cfg.Launch.Image == "" {
		return nil
	}
	p, err := a.x.host.Containers.Find(ctx, a.cfg.Launch.Via, a.rec.ID)
	if err != nil || p == nil {
		return err
	}
	return a.x.goInside(ctx, *p)
}

// lookFreshPatch is lookPatch in a container that was made for the launch: what is
// found there matters to nobody.
func (a *attempt) lookFreshPatch(ctx context.Context) (Found, any, error) {
	state, err := a.current(ctx)
	if err != nil {
		return Absent, nil, err
	}
	a.patches = state
	ev := patchEvidence{Python: a.cfg.Python, Found: state.Patches, Want: a.cfg.Patches, State: state}
	if state.holds(a.cfg.Patches) {
		return Done, ev, nil
	}
	return Partial, ev, nil
}

// launcher is how package server starts the cell's server on whatever host it has.
func (c LaunchConfig) launcher(l *server.Launch) {
	switch c.Via {
	case LaunchSystemd:
		l.Unit = &server.Unit{Name: c.Unit, User: c.UserUnit}
	case LaunchCommand:
		l.Commands = &server.Commands{Start: c.Start, Stop: c.Stop, Status: c.Status}
	}
}
