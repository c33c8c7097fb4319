package experiments

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"specrun/deploy/server"
	"specrun/experiments/record"
)

// Names of the step that binds a launch to a server of somebody else.
const (
	stepAttach = "attach"
	stepDetach = "detach"
)

// attachEvidence is what was found of a server that somebody else runs.
type attachEvidence struct {
	Identity server.Identity `json:"identity"`
	Port     int             `json:"port"`
	Socket   server.Holder   `json:"listener"`
	Argv     []string        `json:"argv,omitempty"` // secrets hidden
	User     string          `json:"user,omitempty"`
	Python   string          `json:"python,omitempty"`
	Log      string          `json:"log,omitempty"`
	Started  string          `json:"started,omitempty"`
	Unread   []string        `json:"unread,omitempty"` // what could not be read, and why
}

// attachSteps are a launch's own steps when somebody else runs the server: what
// begins and ends is the binding, never the server.
func (a *attempt) attachSteps() []Step {
	return []Step{
		{Name: stepAttach, Look: a.lookAttach, Do: a.doAttach, Change: func() record.Change { return record.Change{Launch: &a.rec} },
			Undo: a.undoStart, UndoName: stepDetach},
		{Name: stepReady, Look: a.lookReady, Do: a.doAnswer},
		{Name: stepCheck, Look: a.lookCheck, Do: a.doCheck},
	}
}

func (a *attempt) lookAttach(ctx context.Context) (Found, any, error) {
	port, err := a.cfg.Attach.port()
	if err != nil {
		return Absent, nil, err
	}
	a.leases.Port = port
	st, err := a.x.host.Server.Look(ctx, a.rec.ID)
	if err != nil {
		return Absent, nil, err
	}
	switch st.Phase {
	case server.Absent:
		return Absent, map[string]any{"url": a.cfg.Attach.URL, "pid": a.cfg.Attach.PID}, nil
	case server.Exited:
		return Absent, nil, a.attachedEnded(st)
	}
	// An earlier controller's binding: what it found is in the journal, and is
	// looked at again where that was cut off.
	a.state = st
	raw, ok := a.journal.done[stepAttach]
	if !ok {
		return Partial, st.Identity, nil
	}
	if err := json.Unmarshal(raw, &a.attachedTo); err != nil {
		return Absent, nil, fmt.Errorf("journal of launch %s: attach: %w", a.rec.ID, err)
	}
	return Done, a.attachedTo, a.tookUp()
}

func (a *attempt) doAttach(ctx context.Context) (any, error) {
	foreign := a.x.host.Foreign
	found, err := foreign.Attach(ctx, server.AttachTo{Launch: a.rec.ID, PID: a.cfg.Attach.PID, Port: a.leases.Port, Log: a.cfg.Attach.Log})
	if err != nil {
		return nil, err
	}
	a.state = found.State
	ev := attachEvidence{Identity: found.State.Identity, Port: a.leases.Port, Socket: found.Holder, Log: found.State.LogPath, Unread: found.Unread, User: found.Holder.User}
	ev.Socket.Command = strings.Join(a.hider().argv(strings.Fields(ev.Socket.Command)), " ")
	if p := found.Process; p != nil {
		ev.User, ev.Started, ev.Python = p.User, p.Started.UTC().Format(time.RFC3339), interpreterOf(*p)
		environment(p.Environ, a.hider()) // its secrets are known from here on
		ev.Argv = a.hider().argv(p.Argv)
	}
	a.attachedTo = ev
	if err := a.tookUp(); err != nil {
		return nil, err
	}
	a.progress(stepAttach, PhaseNote, a.attachedText())
	for _, u := range ev.Unread {
		a.progress(stepAttach, PhaseNote, "not read: "+u)
	}
	if err := a.noteHolders(ctx); err != nil {
		return nil, err
	}
	return ev, nil
}

// tookUp makes what was found of the server part of the launch.
func (a *attempt) tookUp() error {
	a.rec.Argv = a.attachedTo.Argv
	if a.cfg.Python == "" {
		a.cfg.Python = a.attachedTo.Python
	}
	return a.noteIdentity(a.attachedTo.Identity)
}

func (a *attempt) attachedText() string {
	who := a.attachedTo.Socket.String()
	if id := a.attachedTo.Identity; id.PID != 0 {
		who = fmt.Sprintf("process %d of user %s, running since %s", id.PID, a.attachedTo.User, a.attachedTo.Started)
	}
	return "attached to " + a.cfg.Attach.URL + ": " + who
}

// noteHolders names who has leased GPUs of the host: no lease is taken, so the
// number may be disturbed, and whoever reads it should know by whom.
func (a *attempt) noteHolders(ctx context.Context) error {
	leases, err := a.x.host.Foreign.Leases(ctx)
	if err != nil {
		return err
	}
	for _, l := range leases {
		if !strings.HasPrefix(l.Name, "gpu-") || l.Expired && !l.Alive {
			continue
		}
		text := fmt.Sprintf("%s is leased by %s (%s)", l.Name, l.Owner.Controller, firstOf(l.Owner.What, "launch "+l.Owner.Launch))
		a.attachedTo.Unread = append(a.attachedTo.Unread, "whether it is alone on the GPUs: "+text)
		a.progress(stepAttach, PhaseNote, text)
	}
	return nil
}

// doAnswer makes the server generate once: what does not answer is not measured.
func (a *attempt) doAnswer(ctx context.Context) (any, error) {
	base := strings.TrimRight(a.cfg.Attach.URL, "/")
	began := a.x.deps.Now()
	probing := a.beginProbe(ctx)
	limited, cancel := context.WithTimeout(ctx, attachProbe)
	defer cancel()
	a.readiness = a.x.engine.Readiness(a.cfg)
	if err := a.readiness.Probe(limited, a.x.host.Server.Client(), base); err != nil {
		probing.cancel()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		st, lookErr := a.x.host.Server.Look(ctx, a.rec.ID)
		if lookErr != nil {
			return nil, lookErr
		}
		if st.Phase != server.Running {
			return nil, a.attachedEnded(st)
		}
		return nil, &server.NotReadyError{Host: a.x.host.Name, After: a.x.deps.Now().Sub(began).Round(time.Second), Probe: err, LogPath: st.LogPath}
	}
	a.probed = probing.wait()
	a.ready = server.Ready{BaseURL: base, Listener: a.attachedTo.Socket, LogOffset: a.state.LogSize, Elapsed: a.x.deps.Now().Sub(began)}
	a.ready.LogFile = a.state.LogFile
	if a.state.LogPath != "" {
		var err error
		if a.mark, err = a.readMark(ctx, a.state.LogFile); err != nil && hostLost(err) {
			return nil, err
		} // else whoever reads it says so
	}
	return readyEvidence{Ready: a.ready, LogPath: a.state.LogPath, Mark: a.mark}, nil
}

// attachProbe bounds the generation that shows that a running server serves.
const attachProbe = 2 * time.Minute

// attachedEnded says that a server of somebody else is not the one any more that
// the launch was bound to.
func (a *attempt) attachedEnded(st server.State) *failure {
	what := "has ended"
	if st.Replaced != nil {
		what = "was started anew or replaced: its port is held by " + st.Replaced.String() + " now"
	}
	return &failure{class: record.ClassServerDied, ends: true, err: &diedError{
		fmt.Sprintf("%s: the server at %s (process %d) %s", a.x.host.Name, a.cfg.Attach.URL, st.Identity.PID, what),
		"specrun resume measures what is left when it serves again"}}
}

// readEnviron is the environment of the launch's process; nil, nil of one of
// somebody else that may not be read, which was said then.
func (a *attempt) readEnviron(ctx context.Context) (map[string]string, error) {
	id := a.state.Identity
	if a.cfg.Attach != nil && id.PID == 0 {
		return nil, nil
	}
	environ, err := a.x.host.Server.Environ(ctx, id)
	if err == nil || a.cfg.Attach == nil || hostLost(err) || errors.Is(err, server.ErrGone) || ctx.Err() != nil {
		return environ, err
	}
	return nil, nil
}

// deployedNow reads the engine's files as they are now. Those of a server of
// somebody else may not be found, and it may have loaded others: they explain,
// and nothing was asked of them.
func (a *attempt) deployedNow(ctx context.Context) (PatchState, error) {
	if a.cfg.Attach == nil {
		return a.x.host.Patcher.Current(ctx, a.where())
	}
	if a.cfg.Python == "" {
		return PatchState{}, nil
	}
	state, err := a.x.host.Patcher.Current(ctx, a.where())
	if err != nil && !hostLost(err) && ctx.Err() == nil {
		a.progress(stepCheck, PhaseNote, "the engine's files could not be read: "+err.Error())
		return PatchState{}, nil
	}
	state.Patches = nil
	return state, err
}

// attachFacts are what a number of such a server has to be read with.
func (a *attempt) attachFacts() []record.Fact {
	if a.cfg.Attach == nil {
		return nil
	}
	var f facts
	f.add("command", "attached", a.cfg.Attach.URL)
	f.add("command", "user", a.attachedTo.User)
	f.add("command", "server_started", a.attachedTo.Started)
	for _, u := range a.attachedTo.Unread {
		f.add("workload", "note", "not known of the attached server: "+u)
	}
	return f.list
}

// interpreterOf is the Python that runs a process, "" when none does.
func interpreterOf(p server.Process) string {
	for _, program := range []string{p.Program, p.Exe} {
		if strings.HasPrefix(path.Base(program), "python") {
			return program
		}
	}
	return ""
}

// attaches says that a plan measures a server that somebody else runs.
func (p *Plan) attaches() bool {
	return slices.ContainsFunc(p.Cells, func(c Cell) bool { return c.Server.Attach != nil })
}
