package deploy

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"specrun/patches"
	"specrun/remote"
)

// knownEngines are looked for in the command lines of running processes.
var knownEngines = []string{"sglang", "vllm"}

// packed is bytes as they travel in facts: base64 of a zlib stream.
type packed []byte

// UnmarshalJSON unpacks; it bounds the size so that a broken host cannot fill
// the memory.
func (p *packed) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil || s == "" {
		return err
	}
	raw, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return err
	}
	z, err := zlib.NewReader(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	*p, err = io.ReadAll(io.LimitReader(z, 256<<20))
	return err
}

// question is what probe.py is asked.
type question struct {
	Full    bool             `json:"full"`
	Targets []questionTarget `json:"targets"`
	Blobs   []string         `json:"blobs"`
	Engines []string         `json:"engines"`
	// Walk names packages whose folders are searched for claims, so that what
	// another user or another specrun patched is found without its patch.
	Walk []string `json:"walk"`
}

type questionTarget struct {
	Module  string `json:"module,omitempty"`
	Path    string `json:"path,omitempty"`
	Outline bool   `json:"outline,omitempty"`
}

// ReadFacts reads what the targets of ps look like on t, and everything the
// ledgers name: one script, at most one interpreter start. It writes nothing
// on the host. A module that is not found is no error here, NewPlan decides.
// Errors: *NoInterpreterError, those of t.Run.
func ReadFacts(ctx context.Context, t Target, w Where, ps []*patches.Patch) (*Facts, error) {
	return readFacts(ctx, t, w, ps, reading{full: true, walk: true})
}

// reading says how much is read.
type reading struct {
	full bool // contents and preconditions, not only hashes
	walk bool // search the engine's folders for claims
	any  bool // any python3 will do when none is named
}

func readFacts(ctx context.Context, t Target, w Where, ps []*patches.Patch, r reading) (*Facts, error) {
	q := question{Full: r.full, Engines: slices.Clone(knownEngines), Targets: []questionTarget{}, Blobs: []string{}, Walk: []string{}}
	var asked []Asked
	for _, p := range ps {
		q.Blobs = append(q.Blobs, p.SHA256())
		if p.Engine != "" && !slices.Contains(q.Engines, p.Engine) {
			q.Engines = append(q.Engines, p.Engine)
		}
		for _, target := range p.Targets {
			asked = append(asked, Asked{p, target})
			q.Targets = append(q.Targets, questionTarget{target.Module, target.Path, r.full && len(target.Requires) > 0})
			if top, _, ok := strings.Cut(target.Module, "."); ok && r.walk {
				q.Walk = append(q.Walk, top)
			}
		}
	}
	if r.walk {
		q.Walk = append(q.Walk, knownEngines...)
		slices.Sort(q.Walk)
		q.Walk = slices.Compact(q.Walk)
	}
	request, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("ask for facts: %w", err)
	}
	exports, err := exports(w.Env)
	if err != nil {
		return nil, err
	}
	fallback := "no" // patches go where the right interpreter imports from, not any
	if r.any || len(asked) == 0 {
		fallback = "yes"
	}
	var random [8]byte
	rand.Read(random[:]) // never fails
	mark := "specrun-facts-" + hex.EncodeToString(random[:])
	res, err := t.Run(ctx, remote.Script{Name: "facts", Text: shell("common.sh", "facts.sh"), Vars: []remote.Var{
		{Name: "python", Value: w.Python}, {Name: "state_dir", Value: w.StateDir}, {Name: "cwd", Value: w.Cwd},
		{Name: "exports", Value: exports}, {Name: "probe", Value: text("probe.py", "probe_modules.py", "probe_files.py", "probe_state.py", "probe_main.py")}, {Name: "mark", Value: mark},
		{Name: "request", Value: string(request)}, {Name: "engines", Value: strings.Join(q.Engines, " ")},
		{Name: "fallback", Value: fallback}}})
	if err != nil {
		return nil, factsError(t.Name(), w, res, err)
	}
	f := &Facts{}
	if err := decodeFacts(res.Stdout, mark, f); err != nil {
		return nil, fmt.Errorf("%s: read facts through %s: %w", t.Name(), w.Python, err)
	}
	if len(f.Found) != len(asked) {
		return nil, fmt.Errorf("%s: read facts: %d answers to %d questions", t.Name(), len(f.Found), len(asked))
	}
	f.Host, f.Asked, f.Full, f.Scoped = t.Name(), asked, r.full, w.Python != ""
	return f, nil
}

// decodeFacts finds the marked line: site hooks of the interpreter may print
// what they like around it.
func decodeFacts(out []byte, mark string, f *Facts) error {
	for l := range bytes.Lines(out) {
		rest, ok := bytes.CutPrefix(l, []byte(mark+" "))
		if !ok {
			continue
		}
		if version, old := bytes.CutPrefix(rest, []byte("old ")); old {
			return fmt.Errorf("it is Python %s, and 3.8 is needed", bytes.TrimSpace(version))
		}
		return json.Unmarshal(rest, f)
	}
	return fmt.Errorf("it printed no facts but %.200q", out)
}

func factsError(host string, w Where, res remote.Result, err error) error {
	var exit *remote.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	r := parseReport(res.Stdout)
	switch r.kind {
	case "no-interpreter":
		e := &NoInterpreterError{Host: host, Python: w.Python, Engine: w.Engine, Detail: r.fields["detail"]}
		if tail := lastLine(exit.Stderr); tail != "" {
			e.Detail += ": " + tail
		}
		for _, l := range remote.Lines(res.Stdout) {
			if l.Key == "candidate" {
				pid, rest, _ := strings.Cut(l.Value, " ")
				engine, python, _ := strings.Cut(rest, " ")
				e.Candidates = append(e.Candidates, Candidate{pid, python, engine})
			}
		}
		return e
	case "no-folder":
		return &FolderError{Host: host, Path: r.fields["path"]}
	}
	return err
}

// exports renders an environment as shell text; names are checked, values are
// quoted.
func exports(env map[string]string) (string, error) {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if !envName(name) {
			return "", fmt.Errorf("environment variable %q: not a name that a shell can set", name)
		}
		q, err := remote.Quote(env[name])
		if err != nil {
			return "", fmt.Errorf("environment variable %s: %w", name, err)
		}
		fmt.Fprintf(&b, "export %s=%s\n", name, q)
	}
	return b.String(), nil
}

func envName(s string) bool {
	for i, c := range []byte(s) {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || '9' < c) {
			return false
		}
	}
	return s != ""
}

func lastLine(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
