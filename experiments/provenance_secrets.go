package experiments

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// redactor hides secrets in what is stored or shown. In place of one stands a
// short salted hash, so that a change of it shows between runs on one host. Not
// safe for concurrent use.
type redactor struct {
	salt   string
	named  map[string]string // variables that the spec calls secrets
	known  []string          // values that were hidden: they are hidden wherever they stand
	hidden map[string]string // value -> what stands for it
}

// newRedactor hides for one host; named are the names of the spec's secrets.
func newRedactor(host string, named map[string]string) *redactor {
	return &redactor{salt: "specrun " + host, named: named, hidden: map[string]string{}}
}

// secretRounds make a guess cost half a millisecond.
const secretRounds = 2_500

// hide gives what stands for a secret. The value is hidden in texts from then on.
func (r *redactor) hide(value string) string {
	if stand, ok := r.hidden[value]; ok {
		return stand
	}
	sum, err := pbkdf2.Key(sha256.New, value, []byte(r.salt), secretRounds, 4)
	stand := "(secret)" // where such hashes are not allowed
	if err == nil {
		stand = fmt.Sprintf("(secret, sha %x)", sum)
	}
	r.hidden[value] = stand
	if len(value) >= shortestSecret {
		r.known = append(r.known, value)
		// A secret that holds another one is replaced before it.
		slices.SortFunc(r.known, func(a, b string) int { return len(b) - len(a) })
	}
	return stand
}

// shortestSecret is the least length that is looked for inside other texts: a
// shorter one would hit words.
const shortestSecret = 6

// wordBreaks are where a name has its next word: at a sign, or a capital.
var wordBreaks = regexp.MustCompile(`[_\-. ]+|([a-z])([A-Z])`)

// words are those of a name, in small letters.
func words(name string) []string {
	name = wordBreaks.ReplaceAllString(name, "$1 $2")
	return strings.Fields(strings.ToLower(name))
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

// vocabulary are words before "token" that make it one of a text.
var vocabulary = map[string]bool{"eos": true, "bos": true, "pad": true, "unk": true, "stop": true, "image": true, "start": true, "end": true,
	"per": true, "max": true, "next": true, "last": true, "first": true, "mask": true}

// isEmptySecret is true for values that tell only that there is none.
func isEmptySecret(v string) bool {
	switch strings.ToLower(strings.TrimSpace(v)) {
	case "", "none", "null", "false", "true", "0", "1", "[]", "{}", `""`, "''", "***", "******":
		return true
	}
	return false
}

// value hides one that is named like a secret, and what is secret in any other.
func (r *redactor) value(name, value string) string {
	if _, ours := r.named[name]; (ours && value != "") || isSecret(name) && !isEmptySecret(value) {
		return r.hide(value)
	}
	return r.text(value)
}

// values hides in all of them; secrets of one are hidden in the others.
func (r *redactor) values(all map[string]string) map[string]string {
	out := make(map[string]string, len(all))
	for range 2 {
		for name, value := range all {
			out[name] = r.value(name, value)
		}
	}
	return out
}

// argv hides the values of flags that are named like secrets: --api-key VALUE
// and --api-key=VALUE.
func (r *redactor) argv(argv []string) []string {
	out := make([]string, len(argv))
	for i, word := range argv {
		name, value, with := strings.Cut(word, "=")
		switch {
		case i > 0 && secretFlag(argv[i-1]) && !strings.HasPrefix(word, "--") && !isEmptySecret(word):
			out[i] = r.hide(word)
		case with && secretFlag(name) && !isEmptySecret(value):
			out[i] = name + "=" + r.hide(value)
		default:
			out[i] = word
		}
	}
	for i := range out {
		out[i] = r.text(out[i])
	}
	return out
}

func secretFlag(word string) bool {
	return strings.HasPrefix(word, "-") && !strings.Contains(word, "=") && isSecret(strings.TrimLeft(word, "-"))
}

var (
	// Of a URL: scheme, user, password.
	urlPassword = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)([^/\s:@"']*):([^/\s@"']+)@`)
	urlToken    = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)([^/\s:@"']{16,})@`)
	jsonMember  = regexp.MustCompile(`"([A-Za-z0-9_.-]+)"(\s*:\s*)"((?:[^"\\]|\\.)+)"`)
	shellWord   = regexp.MustCompile(`(?i)\b((?:bearer|basic)\s+)([A-Za-z0-9._~+/=-]{8,})`)
	inlineFlag  = regexp.MustCompile(`(--?[A-Za-z][A-Za-z0-9_-]*)([= ])([^\s"']+)`)
)

// text hides what is secret in any text: values known to be secret, passwords in
// URLs, members of JSON, headers and flags that are named like secrets.
func (r *redactor) text(s string) string {
	for _, v := range r.known {
		s = strings.ReplaceAll(s, v, r.hidden[v])
	}
	s = r.replace(urlPassword, s, func(m []string) string {
		if strings.HasPrefix(m[3], "(secret") {
			return m[0]
		}
		return m[1] + m[2] + ":" + r.hide(m[3]) + "@"
	})
	s = r.replace(urlToken, s, func(m []string) string { return m[1] + r.hide(m[2]) + "@" })
	s = r.replace(jsonMember, s, func(m []string) string {
		if !isSecret(m[1]) || isEmptySecret(m[3]) || strings.HasPrefix(m[3], "(secret") {
			return m[0]
		}
		return `"` + m[1] + `"` + m[2] + `"` + r.hide(m[3]) + `"`
	})
	s = r.replace(shellWord, s, func(m []string) string { return m[1] + r.hide(m[2]) })
	return r.replace(inlineFlag, s, func(m []string) string {
		if !secretFlag(m[1]) || isEmptySecret(m[3]) || strings.HasPrefix(m[3], "(secret") || strings.HasPrefix(m[3], "-") {
			return m[0]
		}
		return m[1] + m[2] + r.hide(m[3])
	})
}

func (r *redactor) replace(pattern *regexp.Regexp, s string, with func(match []string) string) string {
	return pattern.ReplaceAllStringFunc(s, func(m string) string { return with(pattern.FindStringSubmatch(m)) })
}

// checked hides in what a server says of itself, in place.
func (r *redactor) checked(c *Checked) {
	c.Effective = r.values(c.Effective)
	for i, m := range c.Mismatches {
		c.Mismatches[i].Asked, c.Mismatches[i].Effective = r.value(m.Flag, m.Asked), r.value(m.Flag, m.Effective)
	}
}

// literalSecrets are the flags and variables of cells that hold a secret as
// text, sorted.
func literalSecrets(cells []Cell) []string {
	seen := map[string]bool{}
	for _, c := range cells {
		for _, f := range c.Server.Flags {
			if v := strings.Join(f.Values, " "); isSecret(f.Name) && !isEmptySecret(v) {
				seen["--"+f.Name] = true
			}
		}
		for i, word := range c.Server.Args {
			name, value, with := strings.Cut(word, "=")
			if secretFlag(name) && (with && !isEmptySecret(value) || !with && i+1 < len(c.Server.Args)) {
				seen[name] = true
			}
		}
		for _, env := range []map[string]string{c.Server.HostEnv, c.Server.Env} {
			for name, value := range env {
				if isSecret(name) && !isEmptySecret(value) {
					seen[name] = true
				}
			}
		}
	}
	return sortedKeys(seen)
}
