package origin

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// assigned says that a word is NAME=value, NAME+=value or NAME=(...).
func (w word) assigned() bool {
	if len(w.segments) == 0 || w.segments[0].quoted || w.segments[0].variable != "" {
		return false
	}
	name, _, ok := strings.Cut(w.segments[0].text, "=")
	return ok && isName(strings.TrimSuffix(name, "+"))
}

// assign sets the variable of NAME=value, or exports that of NAME.
func (r *reader) assign(w word, doubt string, exported bool) {
	if !w.assigned() {
		name, plain := w.literal()
		if v, known := r.vars[name]; plain && known && exported {
			v.exported = true
			r.vars[name] = v
		}
		return
	}
	name, v := r.evaluate(w)
	v.exported = exported || r.exportAll || r.vars[name].exported
	if doubt != "" {
		v.unknown = fmt.Sprintf("not known, since it is assigned on line %d and %s", w.line, doubt)
	}
	r.vars[name] = v
}

// evaluate computes an assignment.
func (r *reader) evaluate(w word) (string, variable) {
	name, first, _ := strings.Cut(w.segments[0].text, "=")
	name, more := strings.CutSuffix(name, "+")
	v := variable{line: w.line, array: w.isArray}
	bad := func(why string) (string, variable) {
		v.values, v.unknown = []string{""}, fmt.Sprintf("not known, since line %d has %s", w.line, why)
		return name, v
	}
	if w.isArray {
		for _, element := range w.array {
			fields, why := r.fields(element)
			if why != "" {
				return bad(why)
			}
			v.values = append(v.values, fields...)
		}
	} else {
		segments := slices.Clone(w.segments)
		segments[0].text = first
		text, why := r.text(segments)
		if why != "" {
			return bad(why)
		}
		v.values = []string{text}
	}
	if !more {
		return name, v
	}
	before, known := r.vars[name]
	switch {
	case known && before.unknown != "":
		v.unknown = before.unknown
	case w.isArray:
		v.values = append(slices.Clone(before.values), v.values...)
	case known && before.array:
		v.array, v.values = true, append(slices.Clone(before.values[:max(0, len(before.values)-1)]), lastOf(before.values)+v.values[0])
	case known:
		v.values[0] = before.values[0] + v.values[0]
	}
	return name, v
}

func lastOf(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

// text expands segments to one text, as in an assignment.
func (r *reader) text(segments []segment) (string, string) {
	var b strings.Builder
	for _, s := range segments {
		values, why := r.values(s)
		if why != "" {
			return "", why
		}
		b.WriteString(strings.Join(values, " "))
	}
	return b.String(), ""
}

// values are what stands for a segment: several for all elements of an array.
func (r *reader) values(s segment) ([]string, string) {
	switch {
	case s.unknown != "":
		return nil, s.unknown
	case s.tilde:
		if home, why := r.values(segment{variable: "HOME"}); why == "" {
			return home, ""
		}
		return []string{"~"}, ""
	case s.variable == "":
		return []string{s.text}, ""
	}
	v, set, why := r.lookup(s)
	empty := !set || len(v.values) == 0 || len(v.values) == 1 && v.values[0] == ""
	missing := !set || strings.HasPrefix(s.op, ":") && empty
	if why == "" && set && v.unknown != "" {
		return nil, "$" + s.variable + " is " + v.unknown
	}
	switch op := strings.TrimPrefix(s.op, ":"); {
	case op == "+" && missing:
		return []string{""}, ""
	case op == "+":
		return r.operand(s)
	case (op == "-" || op == "=") && missing:
		values, bad := r.operand(s)
		if bad == "" && !set {
			r.note("%s is taken as not set, so it is %q", s.variable, strings.Join(values, " "))
		}
		if op == "=" && bad == "" {
			r.vars[s.variable] = variable{values: values}
		}
		return values, bad
	case !set:
		return nil, why
	}
	switch {
	case s.star && s.quoted:
		return []string{strings.Join(v.values, " ")}, ""
	case s.all || s.star || !v.array:
		return v.values, ""
	}
	if len(v.values) == 0 {
		return []string{""}, ""
	}
	return v.values[:1], ""
}

func (r *reader) operand(s segment) ([]string, string) {
	text, why := r.text(s.operand)
	return []string{text}, why
}

// lookup finds a variable; why says where an unset one would come from.
func (r *reader) lookup(s segment) (v variable, set bool, why string) {
	name := s.variable
	if name == "*" {
		name = "@"
	}
	if v, set = r.vars[name]; set {
		return v, true, ""
	}
	switch {
	case name == "@":
		r.note("the script's own arguments are taken as none")
		return variable{array: true}, true, ""
	case !isName(name):
		return v, false, fmt.Sprintf("$%s is known only when it runs", name)
	}
	if value, known := r.outer(name); known {
		return variable{values: []string{value}, exported: true}, true, ""
	}
	return v, false, fmt.Sprintf("$%s is not assigned in it, so it comes from the environment that it is run in", name)
}

// fields expands a word as a shell does: variables that are not quoted are split
// at blanks, and give no word at all when they are empty.
func (r *reader) fields(w word) ([]string, string) {
	var out []string
	var b strings.Builder
	begun := false
	end := func() {
		if begun {
			out = append(out, b.String())
		}
		b.Reset()
		begun = false
	}
	if w.glob && !w.isArray {
		return nil, "a pattern that names files; quote it where it is text"
	}
	if w.braces() && !r.posix {
		return nil, "braces with a list, of which bash makes several words and sh one; quote them where they are text"
	}
	for _, s := range w.segments {
		values, why := r.values(s)
		if why != "" {
			return nil, why
		}
		if s.variable == "" || s.quoted {
			if s.variable != "" && s.all && len(values) == 0 {
				continue // "$@" without arguments is no word
			}
			for i, v := range values {
				if i > 0 {
					end()
				}
				b.WriteString(v)
				begun = true
			}
			continue
		}
		for i, v := range values {
			if i > 0 {
				end()
			}
			if strings.ContainsAny(v, "*?[") {
				return nil, "$" + s.variable + " with a pattern that names files; quote it where it is text"
			}
			if strings.HasPrefix(v, " ") || strings.HasPrefix(v, "\t") || strings.HasPrefix(v, "\n") {
				end()
			}
			for j, part := range strings.Fields(v) {
				if j > 0 {
					end()
				}
				b.WriteString(part)
				begun = true
			}
			if strings.TrimRight(v, " \t\n") != v {
				end()
			}
		}
	}
	end()
	return out, ""
}

// listInBraces is {a,b} or {1..4}.
var listInBraces = regexp.MustCompile(`\{[^{}]*,[^{}]*\}|\{[^{},.]+\.\.[^{},]+\}`)

// braces says that a word is several in bash; what is quoted or expanded in it
// takes apart nothing.
func (w word) braces() bool {
	if w.isArray {
		return false
	}
	var b strings.Builder
	for _, s := range w.segments {
		if s.quoted || s.variable != "" || s.unknown != "" || s.tilde {
			b.WriteByte('x')
		} else {
			b.WriteString(s.text)
		}
	}
	return listInBraces.MatchString(b.String())
}

// argv expands the words of a command.
func (r *reader) argv(words []word) ([]string, string) {
	var argv []string
	for _, w := range words {
		fields, why := r.fields(w)
		if why != "" {
			return nil, why
		}
		if len(w.segments) > 0 && w.segments[0].tilde && len(fields) > 0 && strings.HasPrefix(fields[0], "~") && !interpreterAt(words, w) {
			return nil, "~ is the home folder on the host; write it out, or give --host"
		}
		argv = append(argv, fields...)
	}
	return argv, ""
}

// interpreterAt says that a word is one whose "~/" specrun itself expands: the
// program, or an interpreter before -m.
func interpreterAt(words []word, w word) bool {
	for i := range words {
		if &words[i].segments[0] != &w.segments[0] {
			continue
		}
		if i == 0 {
			return true
		}
		if i+1 < len(words) {
			next, _ := words[i+1].literal()
			return next == "-m"
		}
	}
	return false
}

// looksLikeServer says of a command that cannot be expanded whether its plain
// words name an engine.
func looksLikeServer(words []word) bool {
	var plain []string
	for _, w := range words {
		var b strings.Builder
		for _, s := range w.segments {
			b.WriteString(s.text)
		}
		plain = append(plain, b.String())
	}
	return startsServer(plain)
}
