package experiments

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"specrun/deploy/server"
	"specrun/experiments/engine"
)

// Engines finds an engine by its name in an experiment file, for Deps and for
// Options; an unknown one is an *engine.UnknownError.
func Engines(name string) (Engine, error) {
	e, err := engine.Lookup(name)
	if err != nil {
		return nil, err
	}
	return knownEngine{e}, nil
}

// knownEngine adapts package engine.
type knownEngine struct{ engine.Engine }

// Argv implements Renderer.
func (k knownEngine) Argv(c ServerConfig, port int) ([]string, error) {
	s, err := engineServer(c, port)
	if err != nil {
		return nil, err
	}
	return k.Engine.Argv(s)
}

// Canonical implements Renderer.
func (k knownEngine) Canonical(c ServerConfig) ([]string, error) {
	s, err := engineServer(c, shownPort)
	if err != nil {
		return nil, err
	}
	s.Flags = k.Engine.Canonical(s.Flags)
	return k.Engine.Argv(s)
}

// Readiness implements Engine.
func (k knownEngine) Readiness(c ServerConfig) server.Readiness {
	return k.Engine.Readiness(engine.Server{Marker: c.Ready.Marker, URL: c.Ready.URL})
}

// Shell implements Renderer.
func (k knownEngine) Shell(argv []string, env map[string]string, cwd string) string {
	return engine.ShellQuote(argv, env, cwd)
}

// labKey is what the practice host's stand-in says of itself.
const labKey = "specrun_lab"

// Check implements Engine.
func (k knownEngine) Check(ctx context.Context, client *http.Client, base string, c ServerConfig, startLog StartLog) (Checked, error) {
	flags, err := engineFlags(c.Flags)
	if err != nil {
		return Checked{}, err
	}
	var out Checked
	if out.Effective, err = k.EffectiveConfig(ctx, client, base, startLog); err != nil {
		return out, err
	}
	if out.Model, err = k.Model(ctx, client, base); err != nil {
		return out, err
	}
	out.Version = out.Effective["version"]
	for _, m := range k.Compare(flags, out.Effective) {
		out.Mismatches = append(out.Mismatches, Mismatch{Flag: m.Flag, Asked: m.Asked, Effective: m.Effective, Rule: m.Rule})
	}
	if strings.Contains(out.Effective[labKey], "simulated") {
		out.Simulated = "the server is the practice host's stand-in"
	}
	out.simulates(c.Env)
	return out, nil
}

// simulates takes note of an environment that makes the engine draw acceptance.
func (c *Checked) simulates(env map[string]string) {
	if v := env["SGLANG_SIMULATE_ACC_LEN"]; v != "" && v != "-1" {
		c.Simulated = "acceptance is simulated (SGLANG_SIMULATE_ACC_LEN=" + v + ")"
		c.AcceptanceSimulated = true
	}
}

// periodic is an Engine whose server prints by the clock how much it accepts.
type periodic interface {
	// LogEvery is the time between two such lines; 0 when there are none.
	LogEvery(c ServerConfig) time.Duration
}

// LogEvery says so of the engines that do.
func (k knownEngine) LogEvery(c ServerConfig) time.Duration {
	p, ok := k.Engine.(engine.Periodic)
	if !ok || !asksSpeculation(c) && c.Attach == nil {
		return 0
	}
	flags, err := engineFlags(c.Flags)
	if err != nil { // nothing was started with them
		return 0
	}
	env := maps.Clone(c.HostEnv)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, c.Env)
	return p.LogEvery(flags, env)
}

// CrashIn implements Engine.
func (k knownEngine) CrashIn(tail []byte) *server.Crash { return k.Engine.CrashIn(tail) }

// engineServer is a configuration as package engine has it, prefix aside.
func engineServer(c ServerConfig, port int) (engine.Server, error) {
	flags, err := engineFlags(c.Flags)
	if err != nil {
		return engine.Server{}, err
	}
	return engine.Server{Python: c.Python, Flags: flags, Args: c.Args, Port: port, Command: c.Command, Marker: c.Ready.Marker, URL: c.Ready.URL}, nil
}

func engineFlags(flags []ServerFlag) ([]engine.Flag, error) {
	out := make([]engine.Flag, len(flags))
	for i, f := range flags {
		kind, err := engine.ParseKind(f.Kind)
		if err != nil {
			return nil, fmt.Errorf("flag %s: %w", f.Name, err)
		}
		out[i] = engine.Flag{Name: f.Name, Kind: kind, Values: f.Values}
	}
	return out, nil
}
