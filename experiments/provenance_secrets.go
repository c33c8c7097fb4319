package experiments

import (
	"cmp"
	"slices"
	"strings"
)

// words are those of a name, in small letters. The next one begins at a sign, or
// at a capital behind a small letter. Every name that is kept or shown comes by
// here, so this is a loop and not a pattern.
func words(name string) []string {
	var b strings.Builder
	b.Grow(len(name) + 8)
	small := false
	for i := range len(name) {
		c := name[i]
		switch {
		case c == '_', c == '-', c == '.':
			c = ' '
		case 'A' <= c && c <= 'Z':
			if small {
				b.WriteByte(' ')
			}
			c += 'a' - 'A'
		}
		b.WriteByte(c)
		small = 'a' <= name[i] && name[i] <= 'z'
	}
	return strings.Fields(b.String())
}

// isSecret says whether a variable or flag is named like one that holds a
// secret: HF_TOKEN, api-key, AWS_ACCESS_KEY_ID, but neither
// TOKENIZERS_PARALLELISM nor max_total_num_tokens.
func isSecret(name string) bool {
	all := words(name)
	for i, w := range all {
		last := i == len(all)-1 || i == len(all)-2 && (all[i+1] == "id" || strings.Trim(all[i+1], "0123456789") == "")
		switch w {
		case "secret", "secrets", "password", "passwd", "passphrase", "credential", "credentials", "apikey", "authtoken", "accesstoken":
			return true
		case "pwd": // alone it is the shell's folder
			if len(all) > 1 {
				return true
			}
		case "token", "key", "auth", "authorization", "pat", "cookie":
			if last && !(w == "token" && i > 0 && vocabulary[all[i-1]]) {
				return true
			}
		}
	}
	return false
}

// IsSecret says whether a variable or flag of that name, with that value, is taken
// for one that holds a secret.
func IsSecret(name, value string) bool { return isSecret(name) && !isEmptySecret(value) }

// vocabulary are words before "token" that make it one of a text.
var vocabulary = map[string]bool{"eos": true, "bos": true, "pad": true, "unk": true, "stop": true, "image": true, "start": true, "end": true,
	"per": true, "max": true, "next": true, "last": true, "first": true, "mask": true}

// isEmptySecret is true for values that tell only that there is none.
func isEmptySecret(v string) bool {
	switch strings.ToLower(strings.TrimSpace(v)) {
	case "", "none", "null", "false", "true", "0", "1":
		return true
	}
	// "", [], ***, ... hide or hold nothing.
	return strings.Trim(v, ".:*[]{}\"' ") == ""
}

func secretFlag(word string) bool {
	return strings.HasPrefix(word, "-") && !strings.Contains(word, "=") && isSecret(strings.TrimLeft(word, "-"))
}

// literalSecret is a secret that a plan holds as text.
type literalSecret struct{ name, value string }

// literalSecrets are those of the flags, arguments and variables of cells,
// sorted by name.
func literalSecrets(cells []Cell) []literalSecret {
	var all []literalSecret
	add := func(name, value string) {
		if s := (literalSecret{name, value}); !isEmptySecret(value) && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	for _, c := range cells {
		for _, f := range c.Server.Flags {
			if isSecret(f.Name) {
				for _, v := range f.Values {
					add("--"+f.Name, v)
				}
			}
		}
		for i, word := range c.Server.Args {
			switch name, value, with := strings.Cut(word, "="); {
			case !secretFlag(name):
			case with:
				add(name, value)
			case i+1 < len(c.Server.Args):
				add(name, c.Server.Args[i+1])
			}
		}
		for _, env := range []map[string]string{c.Server.HostEnv, c.Server.Env} {
			for name, value := range env {
				if isSecret(name) {
					add(name, value)
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b literalSecret) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.value, b.value))
	})
	return all
}

// secretNames are the names of literal secrets, each once.
func secretNames(all []literalSecret) []string {
	var names []string
	for _, s := range all {
		names = append(names, s.name)
	}
	return slices.Compact(names)
}

// secretAxis says why a sweep does not take a value that is a secret.
func secretAxis(key, what string) *ArgError {
	return &ArgError{Arg: key + "=...", Msg: what + " is a secret: it would be the name of a cell in every table, and stay in the shell's history",
		Advice: "export it, and name it in the spec: server.env.NAME: {from: env}; a flag is written in the spec"}
}

// refuseSecretParams finds params of cells that become a secret of the server.
func refuseSecretParams(cells []Cell) error {
	for _, c := range cells {
		for _, s := range literalSecrets([]Cell{c}) {
			for i, k := range c.combo.keys {
				v, text := c.combo.values[i].Value.(string)
				if k.kind == axisParam && text && v != "" && (v == s.value || len(v) >= shortestSecret && strings.Contains(s.value, v)) {
					return secretAxis(k.key, "what it sets, "+s.name+",")
				}
			}
		}
	}
	return nil
}
