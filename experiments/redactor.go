package experiments

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"specrun/experiments/record"
)

// redactor hides secrets in what is stored or shown. In place of one stands a
// short salted hash, so that a change of it shows between runs on one host. Not
// safe for concurrent use.
type redactor struct {
	salt   string
	named  map[string]string // variables that the spec calls secrets
	known  []string          // texts that were hidden: they are hidden wherever they stand
	hidden map[string]string // text -> what stands for it
}

// newRedactor hides for one host; named are the names of the spec's secrets.
func newRedactor(host string, named map[string]string) *redactor {
	return &redactor{salt: "specrun " + host, named: named, hidden: map[string]string{}}
}

// secretRounds make a guess cost half a millisecond.
const secretRounds = 2_500

// mostSecrets bounds what is remembered: a log may have something like a secret
// in each line.
const mostSecrets = 400

// unhashed stands for a secret that is one too many, or where such hashes are
// not allowed.
const unhashed = "(secret)"

// hide gives what stands for a secret. The value is hidden in texts from then on.
func (r *redactor) hide(value string) string {
	if stand, ok := r.hidden[value]; ok {
		return stand
	}
	if len(r.hidden) >= mostSecrets {
		return unhashed
	}
	stand := unhashed
	if sum, err := pbkdf2.Key(sha256.New, value, []byte(r.salt), secretRounds, 4); err == nil {
		stand = fmt.Sprintf("(secret, sha %x)", sum)
	}
	r.hidden[value] = stand
	for _, form := range forms(value) {
		if len(form) < shortestSecret || strings.Contains(standing, form) {
			continue
		}
		if _, ok := r.hidden[form]; !ok || form == value {
			r.hidden[form] = stand
			r.known = append(r.known, form)
		}
	}
	// A secret that holds another one is replaced before it.
	slices.SortStableFunc(r.known, func(a, b string) int { return len(b) - len(a) })
	return stand
}

// standing is what every stand-in has: a secret that is part of it is not looked
// for in texts.
const standing = "(secret, sha "

// shortestSecret is the least length that is looked for inside other texts: a
// shorter one would hit words.
const shortestSecret = 6

// longLine is how long a line of a secret must be to be hidden alone.
const longLine = 16

// forms are the ways in which a secret may stand in a text: as it is, quoted by
// JSON, Python, a shell or a URL, and each long line of it.
func forms(value string) []string {
	all := []string{value}
	add := func(form string) {
		if !slices.Contains(all, form) {
			all = append(all, form)
		}
	}
	if text, err := plainJSON(value); err == nil && len(text) > 2 {
		add(string(text[1 : len(text)-1]))
	}
	add(pythonQuotes.Replace(value))
	add(strings.ReplaceAll(value, "'", `'\''`))
	add(url.QueryEscape(value))
	add(url.PathEscape(value))
	if strings.Contains(value, "\n") {
		for line := range strings.Lines(value) {
			if line = strings.TrimSpace(line); len(line) >= longLine {
				add(line)
			}
		}
	}
	return all
}

var pythonQuotes = strings.NewReplacer(`\`, `\\`, "'", `\'`, "\n", `\n`, "\r", `\r`, "\t", `\t`)

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

var (
	// Of a URL: scheme, user, password.
	urlPassword = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)([^/\s:@"']*):([^/\s@"']+)@`)
	urlToken    = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)([^/\s:@"']{16,})@`)
	// name='value', "name": "value", name=['value', 'value'].
	quotedValue = regexp.MustCompile(`([A-Za-z0-9_.-]+)(["']?\s*[=:]\s*)([bru]?'(?:[^'\\\n]|\\.)+'|[bru]?"(?:[^"\\\n]|\\.)+"|[\[(][^\])\n]+[\])])`)
	quotedWord  = regexp.MustCompile(`'((?:[^'\\\n]|\\.)+)'|"((?:[^"\\\n]|\\.)+)"`)
	plainValue  = regexp.MustCompile(`\b([A-Za-z][A-Za-z0-9_-]*)=([^\s"',;)&$(\[{][^\s"',;)&]*)`)
	plainNames  = regexp.MustCompile(`(?i)^([A-Za-z0-9]+[_-])*(api[_-]?key|password|passwd|secret|(access|auth|hf)[_-]?token)$`)
	shellWord   = regexp.MustCompile(`(?i)\b((?:bearer|basic)\s+)([A-Za-z0-9._~+/=-]{8,})`)
	inlineFlag  = regexp.MustCompile(`(--?[A-Za-z][A-Za-z0-9_-]*)([= ])([^\s"']+)`)
)

// text hides what is secret in any text: values known to be secret, passwords in
// URLs, headers, and flags, variables and members that are named like secrets.
// It is quick where there is nothing, since it reads logs line by line.
func (r *redactor) text(s string) string {
	for _, v := range r.known {
		s = strings.ReplaceAll(s, v, r.hidden[v])
	}
	if strings.Contains(s, "://") {
		s = r.replace(urlPassword, s, func(m []string) string {
			if isStandIn(m[3]) {
				return m[0]
			}
			return m[1] + m[2] + ":" + r.hide(m[3]) + "@"
		})
		s = r.replace(urlToken, s, func(m []string) string { return m[1] + r.hide(m[2]) + "@" })
	}
	if strings.ContainsAny(s, `"'`) && strings.ContainsAny(s, "=:") {
		s = r.replace(quotedValue, s, func(m []string) string {
			if !isSecret(m[1]) {
				return m[0]
			}
			return m[1] + m[2] + r.quoted(m[3])
		})
	}
	if strings.Contains(s, "=") {
		s = r.replace(plainValue, s, func(m []string) string {
			named := m[1] == strings.ToUpper(m[1]) && isSecret(m[1]) || plainNames.MatchString(m[1])
			if !named || isEmptySecret(m[2]) || isStandIn(m[2]) {
				return m[0]
			}
			return m[1] + "=" + r.hide(m[2])
		})
	}
	if strings.Contains(s, "earer") || strings.Contains(s, "asic") || strings.Contains(s, "EARER") || strings.Contains(s, "ASIC") {
		s = r.replace(shellWord, s, func(m []string) string { return m[1] + r.hide(m[2]) })
	}
	if strings.HasPrefix(s, "-") || strings.Contains(s, "--") || strings.Contains(s, " -") {
		s = r.replace(inlineFlag, s, func(m []string) string {
			if !secretFlag(m[1]) || isEmptySecret(m[3]) || isStandIn(m[3]) || strings.HasPrefix(m[3], "-") {
				return m[0]
			}
			return m[1] + m[2] + r.hide(m[3])
		})
	}
	return s
}

func isStandIn(s string) bool { return strings.HasPrefix(s, "(secret") }

// quoted hides in quoted words: the value of a name that is a secret's. A list
// without quotes is none.
func (r *redactor) quoted(s string) string {
	return r.replace(quotedWord, s, func(m []string) string {
		value, quote := m[1]+m[2], m[0][:1]
		if isEmptySecret(value) || isStandIn(value) {
			return m[0]
		}
		return quote + r.hide(value) + quote
	})
}

var (
	// What follows "Key" in a record.Fact tells that it is a name.
	jsonMember = regexp.MustCompile(`"([A-Za-z0-9_.-]+)"(\s*:\s*)"((?:[^"\\]|\\.)+)"(,"Value":)?`)
	jsonString = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
)

// json hides in the strings of a JSON text, which stays one.
func (r *redactor) json(raw []byte) []byte {
	raw = jsonMember.ReplaceAllFunc(raw, func(member []byte) []byte {
		m := jsonMember.FindSubmatch(member)
		fact := string(m[1]) == "Key" && len(m[4]) > 0
		if fact || !isSecret(string(m[1])) || isEmptySecret(string(m[3])) || isStandIn(string(m[3])) {
			return member
		}
		return fmt.Appendf(nil, `"%s"%s"%s"%s`, m[1], m[2], r.hide(string(m[3])), m[4])
	})
	return jsonString.ReplaceAllFunc(raw, func(word []byte) []byte {
		var s string
		if err := json.Unmarshal(word, &s); err != nil {
			return word // no JSON, so there is none to keep
		}
		clean := r.text(s)
		if clean == s {
			return word
		}
		text, err := plainJSON(clean)
		if err != nil {
			return []byte(`"` + unhashed + `"`)
		}
		return text
	})
}

// data hides in what was collected of a run: words of the server and of the
// benchmark stand in facts, labels and checks.
func (r *redactor) data(d *record.RunData) {
	d.Provenance = r.facts(d.Provenance)
	d.Labels, d.Checks = slices.Clone(d.Labels), slices.Clone(d.Checks)
	for i := range d.Labels {
		d.Labels[i].Reason = r.text(d.Labels[i].Reason)
	}
	for i := range d.Checks {
		d.Checks[i].Explanation = r.text(d.Checks[i].Explanation)
	}
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
