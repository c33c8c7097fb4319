package deploy

import (
	"context"
	"embed"
	"fmt"
	"strings"

	"specrun/remote"
)

// Target is what this package needs of a host; *remote.Host is one. All calls
// block until done or ctx ends and may be made concurrently.
type Target interface {
	Name() string
	// Run sends one script. A status other than 0 is a *remote.ExitError with
	// the Result filled.
	Run(ctx context.Context, s remote.Script) (remote.Result, error)
}

// Where names the interpreter and environment as the server would have them.
// Paths are the host's and may begin with "~/".
type Where struct {
	Python   string            // "" = none known: only what the ledger names can be seen
	Env      map[string]string // added to the session's environment
	Cwd      string            // "" = the session's
	StateDir string            // "" = ${XDG_STATE_HOME:-~/.local/state}/specrun
	Engine   string            // that it is to have, for the advice when it does not run; "" = any
}

//go:embed scripts/*.sh scripts/*.py
var scripts embed.FS

// text joins embedded files into one program, without the lines that are
// comments: each byte counts on a slow line.
func text(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		data, err := scripts.ReadFile("scripts/" + name)
		if err != nil {
			panic(err) // embedded at build time: a wrong name is a wrong build
		}
		b.WriteString(bare(string(data)))
	}
	return b.String()
}

// shell is text for a script: what all packages share comes first.
func shell(names ...string) string { return bare(remote.HostLib()) + text(names...) }

func bare(code string) string {
	var b strings.Builder
	for l := range strings.Lines(code) {
		if word := strings.TrimSpace(l); word != "" && !strings.HasPrefix(word, "#") {
			b.WriteString(l)
		}
	}
	return b.String()
}

// words renders values as shell words for one "set --".
func words(values ...string) (string, error) {
	quoted := make([]string, len(values))
	for i, v := range values {
		q, err := remote.Quote(v)
		if err != nil {
			return "", err
		}
		quoted[i] = q
	}
	return strings.Join(quoted, " "), nil
}

// report is what a script said: a result, or an error with its details.
type report struct {
	kind   string // of the error, "" when there is none
	fields map[string]string
	result string
	notes  []string
}

func parseReport(out []byte) report {
	r := report{fields: map[string]string{}}
	for _, l := range remote.Lines(out) {
		switch l.Key {
		case "error":
			// The first one is the cause; a script that fails later because of
			// it must not hide it.
			if r.kind == "" {
				r.kind = l.Value
			}
		case "result":
			r.result = l.Value
		case "note":
			r.notes = append(r.notes, l.Value)
		default:
			if _, ok := r.fields[l.Key]; !ok {
				r.fields[l.Key] = l.Value
			}
		}
	}
	return r
}

// cleanPath says whether scripts can carry a path: absolute and on one line.
func cleanPath(path string) error {
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "\n\x00") {
		return fmt.Errorf("path %q on the host is not absolute or has a line break in it", path)
	}
	return nil
}
