package origin

import "strings"

// double reads behind an opening double quote.
func (x *lexer) double(w *word) {
	begin, line := x.at, x.line
	for !x.done() {
		switch c := x.src[x.at]; {
		case c == '"':
			if x.at == begin {
				w.add("", true) // "" is a word, "$@" may be none
			}
			x.step(1)
			return
		case c == '$':
			x.dollar(w, true)
		case c == '`':
			x.backtick(w)
		case x.peek("\\\n"):
			x.step(2)
		case c == '\\' && x.at+1 < len(x.src) && strings.IndexByte("$`\"\\", x.src[x.at+1]) >= 0:
			x.step(1)
			w.add(x.step(1), true)
		default:
			w.add(x.step(1), true)
		}
	}
	x.open = line
	w.segments = append(w.segments, segment{unknown: unclosed})
}

func (x *lexer) backtick(w *word) {
	x.step(1)
	for !x.done() && !x.peek("`") {
		if x.peek("\\") && x.at+1 < len(x.src) {
			x.step(1)
		}
		x.step(1)
	}
	if !x.done() {
		x.step(1)
	}
	w.segments = append(w.segments, segment{unknown: "the command substitution `...`"})
}

// parens takes a balanced (...), quotes respected.
func (x *lexer) parens() {
	depth := 0
	for !x.done() {
		switch c := x.src[x.at]; c {
		case '(':
			depth++
		case ')':
			depth--
		case '\\':
			x.step(1)
		case '\'', '"':
			x.step(1)
			for !x.done() && x.src[x.at] != c {
				if c == '"' && x.peek("\\") && x.at+1 < len(x.src) {
					x.step(1)
				}
				x.step(1)
			}
		}
		if x.done() {
			return
		}
		x.step(1)
		if depth == 0 {
			return
		}
	}
}

// dollar reads what begins with $.
func (x *lexer) dollar(w *word, quoted bool) {
	x.step(1)
	switch {
	case x.peek("(("):
		x.parens()
		w.segments = append(w.segments, segment{unknown: "the arithmetic $((...))"})
	case x.peek("("):
		x.parens()
		w.segments = append(w.segments, segment{unknown: "the command substitution $(...)"})
	case x.peek("{"):
		x.step(1)
		w.segments = append(w.segments, x.braces(quoted))
	case x.peek("'") && !quoted:
		w.segments = append(w.segments, segment{unknown: "the text $'...'"})
		x.step(1)
	default:
		n := nameLength(x.src[x.at:])
		if n == 0 && !x.done() && strings.IndexByte("@*#?$!-0123456789", x.src[x.at]) >= 0 {
			n = 1
		}
		if n == 0 {
			w.add("$", quoted)
			return
		}
		name := x.step(n)
		w.segments = append(w.segments, segment{variable: name, quoted: quoted, all: name == "@", star: name == "*"})
	}
}

// braces reads behind ${ up to its }.
func (x *lexer) braces(quoted bool) segment {
	s := segment{quoted: quoted}
	n := nameLength(x.src[x.at:])
	if n == 0 && !x.done() && strings.IndexByte("@*0123456789", x.src[x.at]) >= 0 {
		n = 1
	}
	s.variable = x.step(n)
	s.all, s.star = s.variable == "@", s.variable == "*"
	if x.peek("[@]") || x.peek("[*]") {
		s.all = x.step(3) == "[@]"
		s.star = !s.all
	}
	for _, op := range [...]string{":-", ":=", ":+", ":?", "-", "=", "+", "?"} {
		if s.variable != "" && x.peek(op) {
			s.op = x.step(len(op))
			break
		}
	}
	inner := word{line: x.line}
	x.segments(&inner, "}")
	if x.peek("}") {
		x.step(1)
	} else {
		return segment{unknown: "a ${ that is not closed"}
	}
	switch {
	case s.variable == "" || s.op == "" && len(inner.segments) > 0:
		return segment{unknown: "the expansion ${" + s.variable + "...}"}
	case s.op != "":
		s.operand = inner.segments
	}
	return s
}

func nameLength(s string) int {
	n := 0
	for n < len(s) && (s[n] == '_' || s[n] >= 'A' && s[n] <= 'Z' || s[n] >= 'a' && s[n] <= 'z' || n > 0 && s[n] >= '0' && s[n] <= '9') {
		n++
	}
	return n
}

func isName(s string) bool { return s != "" && nameLength(s) == len(s) }
