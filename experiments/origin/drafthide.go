package origin

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// secretWord stands where a secret was.
const secretWord = "SECRET-LEFT-OUT"

// hideFlags takes out flags that hold a secret.
func (d *Draft) hideFlags() {
	var kept []flag
	for _, f := range d.args.flags {
		if !slices.ContainsFunc(f.values, func(v string) bool { return isSecret(f.name, v) }) {
			kept = append(kept, f)
			continue
		}
		if variable := instead[d.Engine][f.name]; variable != "" {
			d.secrets = append(d.secrets, variable)
			d.note("the flag %s holds a secret: it is taken from %s instead, which the server reads", f.name, variable)
			continue
		}
		d.omitted = append(d.omitted, f.name)
		d.note("the flag %s is left out: its value is a secret, which an experiment file does not hold", f.name)
	}
	d.args.flags = kept
	clean := hideWords(d.args.args)
	if !slices.Equal(clean, d.args.args) {
		d.note("a secret in server.args is left out")
		d.args.args = clean
	}
	if clean := hideWords(d.split.prefix); !slices.Equal(clean, d.split.prefix) {
		d.note("a secret in server.prefix is left out")
		d.split.prefix = clean
	}
}

// hideWords puts secretWord where a word is a secret.
func hideWords(words []string) []string {
	out := slices.Clone(words)
	for i, word := range out {
		name, value, joined := strings.Cut(word, "=")
		switch {
		case joined && isSecret(strings.TrimLeft(name, "-"), value):
			out[i] = name + "=" + secretWord
		case i > 0 && strings.HasPrefix(words[i-1], "-") && isSecret(strings.TrimLeft(words[i-1], "-"), word), secretShape(word):
			out[i] = secretWord
		}
	}
	return out
}

// hideEnv makes references of secrets.
func (d *Draft) hideEnv() {
	for name, value := range d.env {
		if !isName(name) || !utf8.ValidString(value) {
			d.note("the variable %s is left out: an experiment file cannot hold it", name)
			delete(d.env, name)
			continue
		}
		if isSecret(name, value) {
			delete(d.env, name)
			d.secrets = append(d.secrets, name)
		}
	}
	slices.Sort(d.secrets)
	d.secrets = slices.Compact(d.secrets)
	d.Needs = slices.Clone(d.secrets)
}
