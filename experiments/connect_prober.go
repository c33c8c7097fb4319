package experiments

import (
	"bytes"
	"compress/zlib"
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"specrun/experiments/record"
	"specrun/remote"
)

var (
	//go:embed scripts/smi.sh
	smiText string
	//go:embed scripts/hostfacts.sh
	hostFactsText string
	//go:embed scripts/launchfacts.sh
	launchFactsText string
	//go:embed scripts/launchfacts.py
	launchFactsProgram string
)

// remoteProber reads facts over a connection. What was read of files is kept for
// as long as they look the same.
type remoteProber struct {
	h   RemoteHost
	now func() time.Time

	mu       sync.Mutex
	sections map[string]section // by interpreter and name
}

// section is what one look at a set of files gave.
type section struct {
	listing string // names, sizes, times of the files
	facts   []record.Fact
	diff    []byte
}

func newProber(h RemoteHost) *remoteProber {
	return &remoteProber{h: h, now: time.Now, sections: map[string]section{}}
}

// Facts implements Prober.
func (p *remoteProber) Facts(ctx context.Context, w Where) ([]record.Fact, error) {
	res, err := p.h.Run(ctx, remote.Script{Name: "hostfacts", Text: remote.HostLib() + smiText + hostFactsText})
	if err != nil {
		return nil, err
	}
	a := readProbe(res.Stdout)
	a.facts = append(a.facts, a.cards.facts()...)
	a.facts = append(a.facts, topology(a.topo)...)
	if len(a.facts) == 0 {
		return nil, errors.New(p.h.Name() + ": host facts: no answer")
	}
	return a.facts, nil
}

// ask is what launchfacts.py is asked.
type ask struct {
	Engine  string               `json:"engine"`
	Patched map[string][2]string `json:"patched"`
	Models  [][3]string          `json:"models"`
	Known   map[string]string    `json:"known"`
}

// Launch implements Prober.
func (p *remoteProber) Launch(ctx context.Context, q LaunchQuery) (LaunchProbe, error) {
	question := ask{Engine: q.Engine, Patched: map[string][2]string{}, Models: [][3]string{}, Known: p.known(q.Where)}
	for _, f := range q.Patched {
		if f.Pristine != "" {
			question.Patched[f.Path] = [2]string{f.SHA256, f.Pristine}
		}
	}
	for _, m := range q.Models {
		question.Models = append(question.Models, [3]string{m.What, m.Path, m.Revision})
	}
	text, err := json.Marshal(question)
	if err != nil {
		return LaunchProbe{}, fmt.Errorf("facts of the launch: %w", err)
	}
	exports, err := exportsOf(q.Where.Env)
	if err != nil {
		return LaunchProbe{}, fmt.Errorf("facts of the launch: %w", err)
	}
	var vars []remote.Var
	for _, v := range [][2]string{{"PID", fmt.Sprint(q.PID)}, {"SESSION", fmt.Sprint(q.Session)}, {"python", q.Where.Python}, {"cwd", q.Where.Cwd},
		{"exports", exports}, {"program", launchFactsProgram}, {"ask", string(text)}} {
		vars = append(vars, remote.Var{Name: v[0], Value: v[1]})
	}
	sent := p.now()
	res, err := p.h.Run(ctx, remote.Script{Name: "launchfacts", Text: remote.HostLib() + smiText + launchFactsText, Vars: vars})
	got := p.now()
	if err != nil {
		return LaunchProbe{}, fmt.Errorf("facts of the launch: %w", err)
	}
	a := readProbe(res.Stdout)
	out := LaunchProbe{Facts: append(a.facts, a.cards.facts()...)}
	out.Facts = append(out.Facts, usersFacts(a.users)...)
	if offset, ok := clockOffset(sent, got, a.begin, a.end); ok {
		out.Facts = append(out.Facts, record.Fact{Group: "host", Key: "clock_offset_ms", Value: offset})
	}
	for _, name := range sortedKeys(a.sections) {
		s := p.remember(q.Where, name, a.sections[name])
		out.Facts = append(out.Facts, s.facts...)
		if s.diff != nil {
			out.Diff = s.diff
		}
	}
	return out, nil
}

func (p *remoteProber) known(w Where) map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]string{}
	for key, s := range p.sections {
		if name, ok := strings.CutPrefix(key, w.key()+"\x00"); ok {
			out[name] = s.listing
		}
	}
	return out
}

// remember takes a section in, or gives back what it held when the host said
// only that it is as before.
func (p *remoteProber) remember(w Where, name string, s section) section {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := w.key() + "\x00" + name
	if before, ok := p.sections[key]; ok && before.listing == s.listing && len(s.facts) == 0 {
		return before
	}
	p.sections[key] = s
	return s
}

// probeAnswer is what the scripts print, by kind of line.
type probeAnswer struct {
	facts      []record.Fact
	sections   map[string]section
	cards      cardRows
	topo       []string
	users      [][]string
	begin, end string
}

// readProbe reads an answer. Lines of another kind are what programs on the host
// print of their own accord.
func readProbe(out []byte) probeAnswer {
	a := probeAnswer{sections: map[string]section{}}
	now := "" // the section that facts belong to
	for line := range strings.Lines(string(out)) {
		kind, rest, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !ok {
			continue
		}
		cells := strings.Split(rest, "\t")
		switch {
		case kind == "fact" && len(cells) == 3:
			f := record.Fact{Group: cells[0], Key: cells[1], Value: cells[2]}
			if s, ok := a.sections[now]; ok {
				s.facts = append(s.facts, f)
				a.sections[now] = s
			} else {
				a.facts = append(a.facts, f)
			}
		case kind == "section" && len(cells) == 2:
			now = cells[0]
			a.sections[now] = section{listing: cells[1]}
		case kind == "diff" && len(cells) == 1:
			if s, ok := a.sections[now]; ok {
				s.diff = unpack(cells[0])
				a.sections[now] = s
			}
		case kind == "fields":
			a.cards.fields = strings.Split(rest, ",")
		case kind == "card":
			a.cards.rows = append(a.cards.rows, strings.Split(rest, ","))
		case kind == "topo":
			a.topo = append(a.topo, rest)
		case kind == "user" && len(cells) == 4:
			a.users = append(a.users, cells)
		case kind == "begin":
			a.begin = rest
		case kind == "end":
			a.end = rest
			now = ""
		}
	}
	return a
}

// unpack gives nil for what is broken: a diff is an extra.
func unpack(text string) []byte {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	z, err := zlib.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil
	}
	out, err := io.ReadAll(io.LimitReader(z, 4<<20))
	if err != nil {
		return nil
	}
	return out
}

// exportsOf renders an environment as shell text. A name that a shell cannot
// take decides nothing about imports.
func exportsOf(env map[string]string) (string, error) {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if !envName.MatchString(name) {
			continue
		}
		quoted, err := remote.Quote(env[name])
		if err != nil {
			return "", fmt.Errorf("environment variable %s: %w", name, err)
		}
		fmt.Fprintf(&b, "export %s=%s\n", name, quoted)
	}
	return b.String(), nil
}
