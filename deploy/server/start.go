package server

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"specrun/remote"
)

// Start starts the server of l and returns its identity as soon as the process
// exists; it does not wait until it serves. It starts at most one process for
// l.ID: called again, also from elsewhere or while the first call still runs, it
// returns that one's identity, running or not.
//
// It refuses, with nothing started, with a *PortError or *GPUBusyError that
// names the holder, a *RefusedError (no such folder, program, env file), a
// *StoppedError (l.ID was stopped), a *MarkedError (an earlier stop on the host
// could not be proved). A lost connection leaves it open whether it
// started: call it again.
func Start(ctx context.Context, h Host, l Launch) (Identity, error) {
	if err := l.check(); err != nil {
		return Identity{}, err
	}
	if l.LoginEnv && l.Base == nil {
		base, err := LoginEnv(ctx, h)
		if err != nil {
			return Identity{}, err
		}
		l.Base = base
	}
	values, err := l.serve()
	if err != nil {
		return Identity{}, err
	}
	commands, err := l.commandLibrary()
	if err != nil {
		return Identity{}, err
	}
	unit, err := l.unitVars()
	if err != nil {
		return Identity{}, err
	}
	shell := l.Shell
	if shell == "" {
		shell = "/bin/sh"
	}
	s := script("start", unitText+commandText+startText,
		remote.Var{Name: "STATE", Value: l.StateDir},
		remote.Var{Name: "ID", Value: l.ID},
		remote.Var{Name: "PORT", Value: strconv.Itoa(l.Port)},
		remote.Var{Name: "GPU_WAIT", Value: centis(cmp.Or(l.gpuWait, gpuWait))},
		remote.Var{Name: "GPUS", Value: strings.Join(l.GPUs, ",")},
		remote.Var{Name: "CWD", Value: l.Cwd},
		remote.Var{Name: "ENV_FILE", Value: l.EnvFile},
		remote.Var{Name: "PYTHON", Value: l.Python},
		remote.Var{Name: "PROGRAM", Value: l.program()},
		remote.Var{Name: "SH", Value: shell},
		remote.Var{Name: "ABOUT", Value: l.About},
		remote.Var{Name: "GRACE", Value: centis(l.Grace)},
		remote.Var{Name: "VALUES", Value: values},
		remote.Var{Name: "LIBRARY", Value: library()},
		remote.Var{Name: "LAUNCHER", Value: launchText},
		remote.Var{Name: "COMMANDS", Value: commands},
	)
	s.Vars = append(s.Vars, unit...)
	res, err := h.Run(ctx, s)
	if err != nil {
		return Identity{}, fmt.Errorf("start launch %s: %w", l.ID, err)
	}
	return started(h.Name(), l, res.Stdout)
}

const (
	// gpuWait is how long a start waits for memory that no process holds any more.
	gpuWait = 10 * time.Second
	// adoptWait is how long a server has to show after its start command has ended.
	adoptWait = 3 * time.Second
)

func started(host string, l Launch, out []byte) (Identity, error) {
	var state, reason, detail, identity, unit string
	var port *Holder
	var gpus []GPUHolder
	for _, f := range remote.Lines(out) {
		switch f.Key {
		case "state":
			state = f.Value
		case "reason":
			reason = f.Value
		case "detail":
			detail = f.Value
		case "identity":
			identity = f.Value
		case "unit":
			unit = f.Value
		case "listener":
			if port == nil {
				holder, err := parseHolder(l.Port, f.Value)
				if err != nil {
					return Identity{}, err
				}
				port = &holder
			}
		case "gpu":
			if state == "marked" {
				continue // as a stop says it
			}
			g, err := parseGPU(f.Value, true)
			if err != nil {
				return Identity{}, err
			}
			gpus = append(gpus, g)
		}
	}
	switch {
	case state == "marked":
		marks, err := parseMarks(host, remote.Lines(out))
		if err != nil {
			return Identity{}, err
		}
		if len(marks) > 0 {
			return Identity{}, &MarkedError{Host: host, Marks: marks}
		}
	case state == "started":
		return parseIdentity(identity)
	case state == "unit":
		return Identity{}, parseUnitBusy(host, unit)
	case state == "stopped":
		return Identity{}, &StoppedError{Host: host, Launch: l.ID}
	case state == "port" && port != nil:
		return Identity{}, &PortError{Host: host, Holder: *port}
	case state == "gpu":
		return Identity{}, &GPUBusyError{Host: host, Holders: gpus}
	case state == "refused":
		return Identity{}, &RefusedError{Host: host, Launch: l.ID, Reason: reason, Detail: detail}
	}
	return Identity{}, fmt.Errorf("%s: start launch %s: unexpected answer %q", host, l.ID, out)
}

// LoginEnv reads the environment that a login shell of this user has on the
// host. It runs the user's profile, so it may be slow; read it once per host and
// pass it as Launch.Base.
func LoginEnv(ctx context.Context, h Host) (map[string]string, error) {
	// The mark needs to be no secret, only a line that no profile prints.
	const mark = "specrun-login-environment-6f1d2c"
	s := script("login", loginText, remote.Var{Name: "MARK", Value: mark})
	s.Timeout = 2 * time.Minute
	res, err := h.Run(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("read the login shell's environment: %w", err)
	}
	_, rest, ok := strings.Cut(string(res.Stdout), mark+"\n")
	body, _, closed := strings.Cut(rest, "\n"+mark)
	if !ok || !closed {
		return nil, &RefusedError{Host: h.Name(), Launch: "login_env", Reason: "login_env",
			Detail: "the login shell printed no environment"}
	}
	env := parseEnviron([]byte(body))
	// These describe that shell, not the session.
	for _, name := range []string{"_", "SHLVL", "PWD", "OLDPWD"} {
		delete(env, name)
	}
	return env, nil
}
