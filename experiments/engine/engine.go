package engine

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"specrun/deploy/server"
)

// Engine is one kind of inference server. Its methods keep no state and may be
// called concurrently.
type Engine interface {
	Name() string
	// Argv returns the whole command line of a server. It refuses what cannot
	// work, such as a port given twice.
	Argv(s Server) ([]string, error)
	// Readiness returns what waits for one launch; take a new one for each.
	Readiness() server.Readiness
	// EffectiveConfig asks a running server what it runs with, after it resolved
	// its defaults: names with underscores, values as JSON prints them, strings
	// bare.
	EffectiveConfig(ctx context.Context, client *http.Client, base string) (map[string]string, error)
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

// Server is what to start.
type Server struct {
	Prefix []string // in front of the interpreter: numactl, nsys, ...
	Python string   // interpreter on the host
	Flags  []Flag   // in order
	Args   []string // behind all flags, verbatim
	Port   int
}

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

// Names lists the engines that Lookup knows, sorted.
func Names() []string { return []string{"sglang"} }

// Lookup returns the engine of that name, or an *UnknownError.
func Lookup(name string) (Engine, error) {
	if slices.Contains(Names(), name) {
		return sglang{}, nil
	}
	return nil, &UnknownError{Name: name, Known: Names()}
}
