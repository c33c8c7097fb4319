package experiments

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"specrun/experiments/engine"
)

// settler is a Renderer that knows what a release of its engine makes of a
// server without an error.
type settler interface {
	// settle says so; version is "" when the host was not asked. A server that the
	// release refuses is an *engine.ImpossibleError.
	settle(c ServerConfig, version string) (settlement, error)
}

// settlement is a server as a release will run it.
type settlement struct {
	server     ServerConfig // flags by the names that the release knows
	canonical  ServerConfig
	unused     []string // variables that do not matter
	notes      []string
	changes    []string // what runs otherwise than asked
	maxRunning int      // requests at once; 0 unknown
}

// settle implements settler.
func (k knownEngine) settle(c ServerConfig, version string) (settlement, error) {
	out := settlement{server: c, canonical: c}
	flags, err := engineFlags(c.Flags)
	if err != nil {
		return out, err
	}
	e, ok := k.Engine.(engine.Settler)
	if !ok {
		out.canonical.Flags = serverFlags(k.Engine.Canonical(flags))
		return out, nil
	}
	env := maps.Clone(c.HostEnv)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, c.Env)
	s, err := e.Settle(flags, env, version)
	if err != nil {
		return out, err
	}
	out.server.Flags = serverFlags(s.Flags)
	if len(s.Env) > 0 {
		out.server.Env = maps.Clone(c.Env)
		maps.Copy(out.server.Env, s.Env)
	}
	out.canonical = out.server
	out.canonical.Flags = serverFlags(s.Canonical)
	out.unused, out.notes, out.changes, out.maxRunning = s.Unused, s.Notes, s.Changes, s.MaxRunning
	return out, nil
}

func serverFlags(flags []engine.Flag) []ServerFlag {
	out := make([]ServerFlag, len(flags))
	for i, f := range flags {
		out[i] = ServerFlag{Name: f.Name, Kind: f.Kind.String(), Values: f.Values}
	}
	return out
}

// settle gives a cell the server that the release will run, and what tells it
// from others.
func (b *cellBuilder) settle(cell *Cell) error {
	s, ok := b.opts.Renderer.(settler)
	if !ok {
		var err error
		cell.argv, err = b.opts.Renderer.Canonical(cell.Server)
		return err
	}
	out, err := s.settle(cell.Server, b.opts.EngineVersion)
	if err != nil {
		return err
	}
	cell.Server, cell.unused, cell.notes, cell.changes = out.server, out.unused, out.notes, out.changes
	if n := out.maxRunning; n > 0 && cell.Bench.Concurrency > n {
		cell.changes = append(cell.changes, fmt.Sprintf("%d requests at once were asked for, %d run: a speculative server has max-running-requests %d unless it is set",
			cell.Bench.Concurrency, n, n))
	}
	cell.argv, err = b.opts.Renderer.Argv(out.canonical, shownPort)
	return err
}

// withoutVars leaves variables out that do not matter.
func withoutVars(env map[string]string, names []string) map[string]string {
	if len(names) == 0 {
		return env
	}
	out := maps.Clone(env)
	maps.DeleteFunc(out, func(name, _ string) bool { return slices.Contains(names, name) })
	return out
}

// impossible is the reason why a combination is left out of a sweep; "" when err
// is another error.
func impossible(err error) string {
	var refused *engine.ImpossibleError
	if !errors.As(err, &refused) {
		return ""
	}
	return refused.Error()
}

// take keeps what is to be said about a cell once for all cells.
func (e *Experiment) take(c Cell) {
	for _, n := range c.notes {
		if !slices.Contains(e.Notes, n) {
			e.Notes = append(e.Notes, n)
		}
	}
	for _, change := range c.changes {
		n := change + " (" + c.name() + ")"
		if !slices.Contains(e.Notes, n) {
			e.Notes = append(e.Notes, n)
		}
	}
}

// name tells the cell from others in notes.
func (c Cell) name() string {
	if c.Baseline {
		return "baseline"
	}
	return "cell " + c.combo.String()
}

// whyEqual explains a merge by what the engine changes of either cell.
func whyEqual(a, b Cell) string {
	var all []string
	for _, text := range slices.Concat(a.changes, b.changes) {
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	for _, name := range slices.Concat(a.unused, b.unused) {
		if text := name + " has no effect here"; !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return strings.Join(all, "; ")
}
