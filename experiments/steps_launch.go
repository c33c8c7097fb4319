package experiments

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"specrun/deploy"
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
	LogPath string  `json:"log_path"`
	Mark    logMark `json:"log_mark"`
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
	if a.cfg.Attach != nil {
		return a.attachSteps()
	}
	patch := Step{Name: stepPatch, Look: a.lookPatch, Do: a.doPatch}
	if a.best != nil {
		patch.Look = a.lookBestPatch
	}
	var own []Step
	if a.cfg.Launch.Image != "" {
		patch.Look = a.lookFreshPatch
		own = []Step{a.containerStep()}
	}
	return append(own, []Step{
		{Name: stepLease, Look: a.lookLease, Do: a.doLease, Undo: a.undoLease, UndoName: "release"},
		patch,
		{Name: stepStart, Look: a.lookStart, Do: a.doStart, Change: func() record.Change { return record.Change{Launch: &a.rec} }, Undo: a.undoStart, UndoName: stepStop},
		{Name: stepReady, Look: a.lookReady, Do: a.doReady},
		{Name: stepCheck, Look: a.lookCheck, Do: a.doCheck},
	}...)
}

func (a *attempt) where() Where { return a.cfg.where() }

func (a *attempt) lookPatch(ctx context.Context) (Found, any, error) {
	if err := a.find(ctx); err != nil {
		return Absent, nil, err
	}
	state, err := a.current(ctx)
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
	state, err := a.ensure(ctx)
	if err != nil {
		return nil, err
	}
	a.x.noteRemoved(a.patches.Patches, state.Patches, a.x.found[a.where().key()])
	a.patches = state
	return patchEvidence{Python: a.cfg.Python, Want: a.cfg.Patches, State: state}, nil
}

// ensure makes the launch's patch set deployed. Who shares the files wants the same
// and may be changing them at this moment: then that is waited for.
func (a *attempt) ensure(ctx context.Context) (PatchState, error) {
	patcher := a.x.host.Patcher
	for try := 0; ; try++ {
		state, err := patcher.Ensure(ctx, a.where(), a.cfg.Patches)
		var locked *deploy.LockedError
		var drift *deploy.DriftError
		again := errors.As(err, &locked) && try < 50 || errors.As(err, &drift) && try < 3
		if !again {
			return state, err
		}
		select {
		case <-ctx.Done():
			return state, err
		case <-time.After(a.x.deps.Poll):
		}
		now, lookErr := patcher.Current(ctx, a.where())
		if lookErr == nil && now.holds(a.cfg.Patches) {
			return now, nil
		}
	}
}

func (a *attempt) lookStart(ctx context.Context) (Found, any, error) {
	st := server.State{Launch: a.rec.ID, Phase: server.Absent, ExitCode: -1}
	var err error
	if !a.fresh { // else nobody has ever started it
		if st, err = a.x.host.Server.Look(ctx, a.rec.ID); err != nil {
			return Absent, nil, err
		}
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
		return Absent, nil, &server.ExitedError{Host: a.x.host.Name, Code: st.ExitCode, Signal: st.Signal, LogPath: st.LogPath, Tail: a.tail(ctx), Start: a.cfg.Launch.Via == LaunchCommand}
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
	a.fresh = false
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
	gpus := a.cards
	if gpus == nil {
		gpus = []string{"all"}
	}
	about, err := a.about()
	if err != nil {
		return nil, err
	}
	launch := server.Launch{ID: a.rec.ID, About: about, Argv: a.argv, Python: a.cfg.Python, HostEnv: a.cfg.HostEnv,
		EnvFile: a.cfg.EnvFile, Env: env, LoginEnv: a.cfg.LoginEnv, Cwd: a.cfg.Cwd, Port: a.leases.Port, GPUs: gpus,
		Grace: time.Duration(a.x.plan.StopGrace)}
	a.cfg.Launch.launcher(&launch)
	id, err := a.x.host.Server.Start(ctx, launch)
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
	proof, err := a.x.host.Server.Stop(ctx, a.rec.ID)
	if err == nil {
		a.proof = &proof
		a.noteKilled(proof)
	}
	return proof, err
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
	a.ready, a.mark = before.Ready, before.Mark
	return Done, before, nil
}

func (a *attempt) doReady(ctx context.Context) (any, error) {
	p := a.x.plan.Ready
	probing := a.beginProbe(ctx) // beside the waiting, which is what takes long
	readiness := a.x.engine.Readiness(a.cfg)
	ready, err := a.x.host.Server.WaitReady(ctx, a.state, a.leases.Port, readiness, server.ReadyOptions{
		Timeout: time.Duration(p.Timeout), Stall: time.Duration(p.Stall), Poll: a.x.deps.Poll,
		OnProgress: func(p server.Progress) { a.progress(stepReady, PhaseNote, startText(p)) },
	})
	if err != nil {
		probing.cancel()
		if exited := (*server.ExitedError)(nil); errors.As(err, &exited) {
			exited.Start = a.cfg.Launch.Via == LaunchCommand
		}
		return nil, blamePatch(err, a.patches)
	}
	a.probed = probing.wait()
	a.ready, a.readiness = ready, readiness
	if a.cfg.Launch.Via == LaunchCommand { // which may have left another process to be the server
		if a.state, err = a.x.host.Server.Look(ctx, a.rec.ID); err != nil {
			return nil, err
		}
		if err := a.noteIdentity(a.state.Identity); err != nil {
			return nil, err
		}
	}
	if a.mark, err = a.readMark(ctx, ready.LogFile); err != nil && hostLost(err) {
		return nil, err
	} // else it cannot be read, which whoever reads it says
	if ready.Unmarked {
		a.progress(stepReady, PhaseNote, "it generates, though its log has no ready marker: the log is written in blocks")
	}
	return readyEvidence{Ready: ready, LogPath: a.state.LogPath, Mark: a.mark}, nil
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
	environ, err := a.readEnviron(ctx)
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
	if a.patches, err = a.deployedNow(ctx); err != nil {
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
