package engine

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"specrun/deploy/server"
)

// command is any server that is started by a command line of its own: llama.cpp,
// TensorRT-LLM and others. Of its log only crashes are known, of its
// configuration nothing.
type command struct{}

// PortMark stands for the port in the words of a server of engine command.
const PortMark = "${port}"

func (command) Name() string { return "command" }

// Argv is prefix, command, flags and args, the port put in where PortMark is.
func (command) Argv(s Server) ([]string, error) {
	if len(s.Command) == 0 {
		return nil, fmt.Errorf("command: server.command is missing: the program and its arguments")
	}
	if s.Port < 1 || s.Port > 65535 {
		return nil, fmt.Errorf("command: port %d", s.Port)
	}
	for _, f := range s.Flags {
		if f.Name == "" || strings.HasPrefix(f.Name, "-") || strings.ContainsAny(f.Name, " =\n") {
			return nil, fmt.Errorf("command: %q is no name of a flag: write it without dashes", f.Name)
		}
	}
	argv := slices.Concat(s.Prefix, s.Command, Render(s.Flags, s.Args))
	for i, word := range argv {
		argv[i] = strings.ReplaceAll(word, PortMark, strconv.Itoa(s.Port))
	}
	return argv, nil
}

// NamesPort says whether a server of engine command is told its port.
func NamesPort(s Server) bool {
	return slices.ContainsFunc(slices.Concat(s.Prefix, s.Command, Render(s.Flags, s.Args)), func(w string) bool { return strings.Contains(w, PortMark) })
}

// Canonical implements Engine: the order of flags may mean something.
func (command) Canonical(flags []Flag) []Flag {
	return slices.DeleteFunc(slices.Clone(flags), func(f Flag) bool { return f.Kind == Omitted })
}

// WithoutSpeculation implements Engine.
func (command) WithoutSpeculation() string { return "" }

// CrashIn implements Engine.
func (command) CrashIn(tail []byte) *server.Crash { return explainer{}.in(tail) }

// EffectiveConfig implements Engine: there is nothing to ask.
func (command) EffectiveConfig(context.Context, *http.Client, string, StartLog) (map[string]string, error) {
	return map[string]string{}, nil
}

// Compare implements Engine.
func (command) Compare([]Flag, map[string]string) []Mismatch { return nil }

// Model implements Engine. A server that lists no models takes any name.
func (command) Model(ctx context.Context, client *http.Client, base string) (string, error) {
	name, err := firstModel(ctx, client, base)
	if absent(err) {
		return anyModel, nil
	}
	return name, err
}

// Readiness implements Engine: the marker, when there is one, then the URL, then
// one real completion where the server has a route for one.
func (command) Readiness(s Server) server.Readiness {
	r := &commandReadiness{startLog: newStartLog(startText{}), url: s.URL}
	if s.Marker != "" {
		// A spec's marker was compiled when it was read.
		r.text.ready, r.bad = regexp.Compile(s.Marker)
	}
	return r
}

// commandReadiness follows one start.
type commandReadiness struct {
	startLog
	url string
	bad error // of the marker
}

// Unmarked implements server.Unmarked.
func (r *commandReadiness) Unmarked() bool { return r.text.ready == nil }

// Probe implements server.Readiness.
func (r *commandReadiness) Probe(ctx context.Context, client *http.Client, base string) error {
	if r.bad != nil {
		return fmt.Errorf("server.ready.marker: %w", r.bad)
	}
	if r.url != "" {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/"+strings.TrimPrefix(r.url, "/"), nil)
		if err != nil {
			return fmt.Errorf("server.ready.url: %w", err)
		}
		if err := do(client, req, nil); err != nil {
			return fmt.Errorf("server.ready.url: %w", err)
		}
	}
	tried, err := completeAny(ctx, client, base)
	if err == nil && !tried && r.url == "" && r.text.ready == nil {
		return fmt.Errorf("it has neither /v1/completions nor /v1/chat/completions; server.ready.url or marker says how it is known to serve")
	}
	return err
}
