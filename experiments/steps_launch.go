package experiments

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"specrun/deploy/server"
	"specrun/experiments/record"
)

type leaseEvidence struct {
	Port  int      `json:"port"`
	Names []string `json:"names"`
}

// patchEvidence is recorded before and after a patch set is changed.
type patchEvidence struct {
	Python string     `json:"python"`
	Found  []PatchRef `json:"found"`
	Want   []PatchRef `json:"want"`
	State  PatchState `json:"state"`
}

// readyEvidence is what later steps need of a server that was found ready.
type readyEvidence struct {
	server.Ready
	LogPath string `json:"log_path"`
}

// launchFacts is what a ready server was found to be.
type launchFacts struct {
	Checked Checked           `json:"checked"`
	Argv    []string          `json:"argv"`
	Environ map[string]string `json:"environ"` // of the process; secrets hidden
	Host    []record.Fact     `json:"host"`
	Launch  []record.Fact     `json:"launch,omitempty"` // what may be otherwise at the next launch
	Caches  []string          `json:"caches,omitempty"` // folders of compiled kernels
	// Announced are the profilers that the log names by then.
	Announced []PatchRef `json:"announced,omitempty"`
}

func (a *attempt) launchSteps() []Step {
	return []Step{
		{Name: stepLease, Look: a.lookLease, Do: a.doLease, Undo: a.undoLease, UndoName: "release"},
		{Name: stepPatch, Look: a.lookPatch, Do: a.doPatch},
		{Name: stepStart, Look: a.lookStart, Do: a.doStart, Change: func() record.Change { return record.Change{Launch: &a.rec} }, Undo: a.undoStart, UndoName: stepStop},
		{Name: stepReady, Look: a.lookReady, Do: a.doReady},
		{Name: stepCheck, Look: a.lookCheck, Do: a.doCheck},
	}
}

// lookLease chooses the port and finds out who listens on it. A port that our
// own server listens on is not in the way of a launch that goes on.
func (a *attempt) lookLease(ctx context.Context) (Found, any, error) {
	h := a.x.host
	port := a.cfg.Port
	if a.port != 0 {
		port = a.port
	}
	auto := port == 0
	if auto {
		free, err := h.Leases.FreePort(ctx, autoPort(a.rec.ID), autoPorts)
		if err != nil {
			return Absent, nil, err
		}
		port = free
	}
	ours := false
	if a.journal.lease != nil {
		st, err := h.Server.Look(ctx, a.rec.ID)
		if err != nil {
			return Absent, nil, err
		}
		ours = st.Phase == server.Running
	}
	if !ours && !auto {
		holder, err := h.Leases.PortHolder(ctx, port)
		if err != nil {
			return Absent, nil, err
		}
		if holder != nil {
			return Absent, nil, &server.PortError{Host: h.Name, Holder: *holder}
		}
	}
	cards, err := a.cards(ctx)
	if err != nil {
		return Absent, nil, err
	}
	a.leases = leaseEvidence{Port: port, Names: append([]string{server.PortLease(port)}, server.GPULeases(cards)...)}
	a.port = port // kept when the step is looked at again
	// Leases run out, so they are always taken (anew).
	return Partial, a.leases, nil
}

// cards name the launch's GPUs in leases: by UUID, so that one card has one name
// for everybody, and by index where the host does not tell. nil is all.
func (a *attempt) cards(ctx context.Context) ([]string, error) {
	gpus := a.gpus()
	if gpus == nil {
		return nil, nil
	}
	facts, err := a.x.hostFacts(ctx, a.where())
	if err != nil {
		return nil, err
	}
	for i, index := range gpus {
		for _, f := range facts {
			if f.Group == "gpu" && f.Key == index+" uuid" && strings.HasPrefix(f.Value, "GPU-") {
				gpus[i] = f.Value
			}
		}
	}
	return gpus, nil
}

// gpus are the indexes for CUDA_VISIBLE_DEVICES; nil for all.
func (a *attempt) gpus() []string {
	var out []string
	for _, g := range a.cfg.GPUs {
		out = append(out, strconv.Itoa(g))
	}
	return out
}

func (a *attempt) owner() server.Owner {
	what := "sweep " + a.x.sweepID
	if a.x.sweepID == "" {
		what = byHand
	}
	return server.Owner{Launch: a.rec.ID, Controller: a.x.deps.Controller, What: what}
}

func (a *attempt) doLease(ctx context.Context) (any, error) {
	// Another one may take an automatic port between looking and leasing.
	for try := 0; ; try++ {
		err := a.x.host.Leases.Acquire(ctx, a.leases.Names, a.owner(), a.x.deps.LeaseTTL)
		var held *server.HeldError
		if err == nil {
			a.keeper.start(a.x, a.leases.Names, a.owner())
			return a.leases, nil
		}
		if !errors.As(err, &held) || held.Lease.Name != server.PortLease(a.leases.Port) || a.cfg.Port != 0 || a.journal.lease != nil || try == 5 {
			return nil, err
		}
		a.port = 0
		_, evidence, err := a.lookLease(ctx)
		if err != nil {
			return nil, err
		}
		if err := a.record(ctx, "", stepLease, record.EventIntent, evidence, record.Change{}); err != nil {
			return nil, err
		}
	}
}

func (a *attempt) undoLease(ctx context.Context) (any, error) {
	return a.leases, a.x.host.Leases.Release(ctx, a.leases.Names, a.owner())
}

func (a *attempt) where() Where { return a.cfg.where() }

func (a *attempt) lookPatch(ctx context.Context) (Found, any, error) {
	if err := a.find(ctx); err != nil {
		return Absent, nil, err
	}
	state, err := a.x.host.Patcher.Current(ctx, a.where())
	if err != nil {
		return Absent, nil, err
	}
	if before := a.x.found[a.where().key()].Error; before != "" {
		return Absent, nil, fmt.Errorf("%s: its patches could not be read when the sweep began, so that they could not be put back: %s", a.cfg.Python, before)
	}
	ev := patchEvidence{Python: a.cfg.Python, Found: state.Patches, Want: a.cfg.Patches, State: state}
	a.patches = state
	if state.holds(a.cfg.Patches) {
		return Done, ev, nil
	}
	return Partial, ev, nil
}

func (a *attempt) doPatch(ctx context.Context) (any, error) {
	state, err := a.x.host.Patcher.Ensure(ctx, a.where(), a.cfg.Patches)
	if err != nil {
		return nil, err
	}
	a.x.noteRemoved(a.patches.Patches, state.Patches, a.x.found[a.where().key()])
	a.patches = state
	return patchEvidence{Python: a.cfg.Python, Want: a.cfg.Patches, State: state}, nil
}

func (a *attempt) lookStart(ctx context.Context) (Found, any, error) {
	st, err := a.x.host.Server.Look(ctx, a.rec.ID)
	if err != nil {
		return Absent, nil, err
	}
	a.state = st
	words, err := argv(a.x.engine, a.cfg, a.leases.Port)
	if err != nil {
		return Absent, nil, err
	}
	a.argv, a.rec.Argv = words, a.hider().argv(words)
	switch st.Phase {
	case server.Running:
		return Done, st.Identity, a.noteIdentity(st.Identity)
	case server.Exited:
		return Absent, nil, &server.ExitedError{Host: a.x.host.Name, Code: st.ExitCode, Signal: st.Signal, LogPath: st.LogPath, Tail: a.tail(ctx)}
	}
	return Absent, map[string]any{"argv": a.rec.Argv, "port": a.leases.Port}, nil
}

func (a *attempt) noteIdentity(id server.Identity) error {
	raw, err := json.Marshal(id)
	if err != nil {
		return fmt.Errorf("identity: %w", err)
	}
	a.rec.Identity = raw
	return nil
}

func (a *attempt) doStart(ctx context.Context) (any, error) {
	env := maps.Clone(a.cfg.Env)
	if env == nil {
		env = map[string]string{}
	}
	for name, from := range a.cfg.Secrets {
		value, ok := a.x.deps.Getenv(from)
		if !ok {
			return nil, &SecretError{Name: name, From: from}
		}
		env[name] = value
	}
	gpus := a.gpus()
	if gpus == nil {
		gpus = []string{"all"}
	}
	about, err := a.about()
	if err != nil {
		return nil, err
	}
	id, err := a.x.host.Server.Start(ctx, server.Launch{ID: a.rec.ID, About: about, Argv: a.argv, Python: a.cfg.Python, HostEnv: a.cfg.HostEnv,
		EnvFile: a.cfg.EnvFile, Env: env, LoginEnv: a.cfg.LoginEnv, Cwd: a.cfg.Cwd, Port: a.leases.Port, GPUs: gpus,
		Grace: time.Duration(a.x.plan.StopGrace)})
	if err != nil {
		return nil, err
	}
	if err := a.noteIdentity(id); err != nil {
		return nil, err
	}
	if a.state, err = a.x.host.Server.Look(ctx, a.rec.ID); err != nil {
		return nil, err
	}
	return id, nil
}

func (a *attempt) undoStart(ctx context.Context) (any, error) {
	return a.x.host.Server.Stop(ctx, a.rec.ID)
}

// lookReady trusts an earlier controller's ready only for the process that it
// was said of: asking again would disturb a benchmark that is running.
func (a *attempt) lookReady(context.Context) (Found, any, error) {
	raw, ok := a.journal.done[stepReady]
	if !ok {
		return Absent, nil, nil
	}
	var before readyEvidence
	if err := json.Unmarshal(raw, &before); err != nil {
		return Absent, nil, fmt.Errorf("journal of launch %s: ready: %w", a.rec.ID, err)
	}
	a.ready = before.Ready
	return Done, before, nil
}

func (a *attempt) doReady(ctx context.Context) (any, error) {
	p := a.x.plan.Ready
	probing := a.beginProbe(ctx) // beside the waiting, which is what takes long
	ready, err := a.x.host.Server.WaitReady(ctx, a.state, a.leases.Port, a.x.engine.Readiness(a.cfg), server.ReadyOptions{
		Timeout: time.Duration(p.Timeout), Stall: time.Duration(p.Stall), Poll: a.x.deps.Poll,
		OnProgress: func(p server.Progress) { a.progress(stepReady, PhaseNote, p.Milestone) },
	})
	if err != nil {
		probing.cancel()
		return nil, err
	}
	a.probed = probing.wait()
	a.ready = ready
	return readyEvidence{Ready: ready, LogPath: a.state.LogPath}, nil
}

func (a *attempt) lookCheck(context.Context) (Found, any, error) {
	raw, ok := a.journal.done[stepCheck]
	if !ok {
		return Absent, nil, nil
	}
	if err := json.Unmarshal(raw, &a.facts); err != nil {
		return Absent, nil, fmt.Errorf("journal of launch %s: check: %w", a.rec.ID, err)
	}
	return Done, a.facts, nil
}

// doCheck reads back what really runs. A flag that the server changed is a
// label, not an error; a server that does not answer is one.
func (a *attempt) doCheck(ctx context.Context) (any, error) {
	h := a.x.host
	checked, err := a.x.engine.Check(ctx, h.Server.Client(), a.ready.BaseURL, a.cfg, a.startLog)
	if err != nil {
		return nil, fmt.Errorf("read the configuration of the ready server back: %w", err)
	}
	environ, err := h.Server.Environ(ctx, a.state.Identity)
	if err != nil {
		return nil, fmt.Errorf("environment of the server process: %w", err)
	}
	// An earlier controller may have waited for readiness.
	if a.probed == nil || a.probed.err != nil {
		a.probed = a.beginProbe(ctx).wait()
	}
	if a.probed.err != nil {
		return nil, a.probed.err
	}
	// The server has read its files by now: what somebody changed since the patch
	// step is what it runs with.
	if a.patches, err = h.Patcher.Current(ctx, a.where()); err != nil {
		return nil, fmt.Errorf("read the engine's files again: %w", err)
	}
	checked.simulates(environ) // set by a file or a login shell, too
	hide := a.hider()
	kept := environment(environ, hide)
	hide.checked(&checked)
	a.facts = launchFacts{Announced: announced(a.tail(ctx)), Checked: checked, Argv: a.rec.Argv, Environ: kept,
		Host: hide.facts(a.probed.host), Launch: hide.facts(a.probed.launch.Facts), Caches: cacheFolders(environ, environ["USER"])}
	if err := a.keepDiff(ctx, hide, a.probed.launch.Diff); err != nil {
		return nil, err
	}
	for _, m := range checked.Mismatches {
		a.progress(stepCheck, PhaseNote, m.String())
	}
	return a.facts, nil
}
