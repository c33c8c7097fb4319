package origin

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"specrun/experiments"
)

// Comparison is the command that a written file plans, beside the one that it
// was made of.
type Comparison struct {
	Planned []string // with the file's port
	// Equal: the same words behind the engine's entry, in the same order, where
	// --a=b counts as --a b and --port may stand elsewhere.
	Equal     bool
	Reordered bool     // the same words in another order
	Missing   []string // words of the original that the plan has not
	Added     []string
	Python    string // interpreter of the original, when the plan's is written otherwise
}

// String says it in a line.
func (c Comparison) String() string {
	var s string
	switch {
	case c.Equal:
		s = fmt.Sprintf("the plan has the same command: %d words, equal", len(c.Planned))
	case c.Reordered:
		s = "the plan has the same words, in another order"
	default:
		s = "the plan's command differs"
		if len(c.Missing) > 0 {
			s += ": not in it: " + strings.Join(hideWords(c.Missing), " ")
		}
		if len(c.Added) > 0 {
			s += ": added: " + strings.Join(c.Added, " ")
		}
	}
	if c.Python != "" {
		s += "; the interpreter " + c.Python + " is written as its path"
	}
	return s
}

// Check reads a written file back and compares what it plans with the original.
// An error means that the file cannot be used: a *experiments.SpecError and the
// like.
func (d *Draft) Check(src []byte, engines func(string) (experiments.Engine, error)) (Comparison, error) {
	spec, err := experiments.LoadSpec("specrun.yaml", src)
	if err != nil {
		return Comparison{}, err
	}
	engine, err := engines(spec.Server.Engine)
	if err != nil {
		return Comparison{}, err
	}
	renderer, ok := engine.(experiments.Renderer)
	if !ok {
		return Comparison{}, fmt.Errorf("engine %s has no command line", spec.Server.Engine)
	}
	e, err := experiments.Resolve(spec, experiments.Options{Single: true, Renderer: renderer, Host: experiments.HostConfig{Name: d.options.Host},
		Python: d.unknownPython(),
		Patches: func(string) (experiments.PatchRef, error) {
			return experiments.PatchRef{}, errors.New("a draft names no patches")
		}})
	if err != nil {
		return Comparison{}, err
	}
	config := e.Cells[0].Server
	port := config.Port
	if port == 0 {
		port = 30000
	}
	argv, err := renderer.Argv(config, port)
	if err != nil {
		return Comparison{}, err
	}
	return d.compare(append(slices.Clone(config.Prefix), argv...)), nil
}

// unknownPython lets the plan be made when the interpreter is still to be named.
func (d *Draft) unknownPython() string {
	if d.python == "" {
		return "python3"
	}
	return ""
}

func (d *Draft) compare(planned []string) Comparison {
	c := Comparison{Planned: planned}
	before := d.original()
	after := takeApart(planned)
	want := slices.Concat(before.prefix, d.normal(before.rest))
	got := slices.Concat(after.prefix, d.normal(after.rest))
	if d.Engine == Another {
		want, got = before.rest, planned
	}
	c.Equal = slices.Equal(want, got)
	if before.python != after.python && d.python != "" {
		c.Python = before.python
	}
	if c.Equal {
		return c
	}
	c.Missing, c.Added = without(want, got), without(got, want)
	c.Reordered = len(c.Missing)+len(c.Added) == 0
	return c
}

// original is the command as it was, taken apart anew.
func (d *Draft) original() split {
	argv := d.command.Argv
	if d.run != nil {
		argv = d.run.argv
	}
	s := takeApart(argv)
	if s.engine == Another {
		s.rest = unwrap(s.rest).prefix
	} else {
		s.prefix = unwrap(s.prefix).prefix
	}
	return s
}

// without are the words of a that b has not, each as often as it is too many.
func without(a, b []string) []string {
	left := slices.Clone(b)
	var out []string
	for _, w := range a {
		if i := slices.Index(left, w); i >= 0 {
			left = slices.Delete(left, i, i+1)
			continue
		}
		out = append(out, w)
	}
	return out
}

// normal writes arguments in one way: --a b for --a=b, long names for short ones,
// the model in front for vLLM; without the port, and without secrets that were
// left out on purpose.
func (d *Draft) normal(words []string) []string {
	var out []string
	for i, word := range words {
		if word == "--" {
			out = append(out, words[i:]...)
			break
		}
		name, value, joined := strings.Cut(word, "=")
		if long := short[name]; d.Engine == VLLM && long != "" {
			name = "--" + long
		}
		switch {
		case joined && strings.HasPrefix(name, "--"):
			out = append(out, name, value)
		case joined:
			out = append(out, word)
		default:
			out = append(out, name)
		}
	}
	cut := func(flag string, n int) {
		for {
			i := slices.Index(out, flag)
			if i < 0 {
				return
			}
			out = slices.Delete(out, i, min(len(out), i+n))
		}
	}
	cut("--port", 2)
	for _, name := range d.omitted {
		cut("--"+name, 2)
	}
	for name := range instead[d.Engine] {
		cut("--"+name, 2)
	}
	if model, ok := d.args.find("model"); ok && d.Engine == VLLM {
		cut("--model", 1)
		if i := slices.Index(out, model); i >= 0 {
			out = slices.Delete(out, i, i+1)
		}
		out = append([]string{"--model", model}, out...)
	}
	return out
}
