package engine

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"specrun/deploy/server"
)

// Engine is one kind of inference server. Its methods keep no state and may be
// called concurrently.
type Engine interface {
	Name() string
	// Argv returns the whole command line of a server. It refuses what cannot
	// work, such as a port given twice.
	Argv(s Server) ([]string, error)
	// Readiness returns what waits for one launch of s; take a new one for each.
	Readiness(s Server) server.Readiness
	// EffectiveConfig asks a running server what it runs with, after it resolved
	// its defaults: names with underscores, values as JSON prints them, strings
	// bare. What the server does not tell itself is read from the log of its
	// start, which is asked for only then. It is empty for an engine that tells
	// nothing.
	EffectiveConfig(ctx context.Context, client *http.Client, base string, log StartLog) (map[string]string, error)
	// Compare names the flags whose effective value is another than was asked.
	// Flags that the server does not report are left out.
	Compare(asked []Flag, effective map[string]string) []Mismatch
	// Canonical returns flags such that servers which the engine makes equal have
	// equal ones, whatever the order they were given in.
	Canonical(flags []Flag) []Flag
	// WithoutSpeculation says what else the engine changes when speculation is
	// off; "" when nothing is known.
	WithoutSpeculation() string
	// CrashIn finds in the end of a log why its server died; nil when it does not
	// say.
	CrashIn(tail []byte) *server.Crash
	// Model returns the name under which the server answers for its model.
	Model(ctx context.Context, client *http.Client, base string) (string, error)
}

// Periodic is an Engine whose server prints by the clock, not by what it did, how
// much of its drafts was accepted.
type Periodic interface {
	// LogEvery is the time between two such lines of a server with these flags and
	// this environment; 0 when it prints none.
	LogEvery(flags []Flag, env map[string]string) time.Duration
}

// Server is what to start.
type Server struct {
	Prefix []string // in front of the interpreter: numactl, nsys, ...
	Python string   // interpreter on the host
	Flags  []Flag   // in order
	Args   []string // behind all flags, verbatim
	Port   int

	// Of engine command only.
	Command []string // program and arguments; PortMark stands for the port
	Marker  string   // regular expression over log lines of a ready server; "" none
	URL     string   // path that answers 200 once it is ready; "" none
}

// StartLog reads what a server wrote to its log until it was ready.
type StartLog func(ctx context.Context) ([]byte, error)

// Mismatch is a flag whose effective value is another than was asked.
type Mismatch struct {
	Flag      string // as in the spec
	Asked     string
	Effective string
	Rule      string // why the server does that, when it is known; else ""
}

func (m Mismatch) String() string {
	s := fmt.Sprintf("%s: asked %s, runs with %s", m.Flag, m.Asked, m.Effective)
	if m.Rule != "" {
		s += " (" + m.Rule + ")"
	}
	return s
}

// UnknownError says that no engine has this name.
type UnknownError struct {
	Name  string
	Known []string
}

func (e *UnknownError) Error() string { return fmt.Sprintf("unknown engine %q", e.Name) }

// Hint names those that there are.
func (e *UnknownError) Hint() string {
	return "server.engine is one of: " + strings.Join(e.Known, ", ")
}

// engines in the order of their names.
var engines = []Engine{command{}, sglang{}, vllm{}}

// Names lists the engines that Lookup knows, sorted.
func Names() []string {
	names := make([]string, len(engines))
	for i, e := range engines {
		names[i] = e.Name()
	}
	return names
}

// Lookup returns the engine of that name, or an *UnknownError.
func Lookup(name string) (Engine, error) {
	for _, e := range engines {
		if e.Name() == name {
			return e, nil
		}
	}
	return nil, &UnknownError{Name: name, Known: Names()}
}

// checkFlags refuses what no engine can be started with.
func checkFlags(s Server) error {
	for _, f := range s.Flags {
		if f.Kind == Omitted {
			continue
		}
		if f.Name == "port" {
			return fmt.Errorf("flag port: set server.port instead, specrun checks and leases it")
		}
		if f.Name == "" || strings.HasPrefix(f.Name, "-") || strings.ContainsAny(f.Name, " =\n") {
			return fmt.Errorf("%q is no name of a flag: write it without dashes", f.Name)
		}
		if n := len(f.Values); (f.Kind == Value || f.Kind == JSON) && n != 1 || f.Kind == Bare && n != 0 {
			return fmt.Errorf("flag %s (%v) with %d values", f.Name, f.Kind, n)
		}
	}
	for _, a := range s.Args {
		if a == "--port" || strings.HasPrefix(a, "--port=") {
			return fmt.Errorf("--port in server.args: set server.port instead, specrun checks and leases it")
		}
	}
	return nil
}
