package origin

import (
	"strings"
)

// segment is a part of a word: text, or what a shell would put there.
type segment struct {
	text   string
	quoted bool // no splitting, no patterns

	// One of these makes it something else than text.
	variable string    // name; "@" are the script's own arguments
	all      bool      // ${NAME[@]}: each element a word
	star     bool      // ${NAME[*]}: within quotes one word of all
	op       string    // :- - := = :+ + :? ?, "" for none
	operand  []segment // of op
	tilde    bool
	unknown  string // why its value cannot be known: "the command substitution $(...)"
}

// word is one word of a command, not expanded.
type word struct {
	segments []segment
	line     int
	glob     bool   // holds an unquoted * ? or [
	array    []word // of NAME=(...), behind the = of the last segment
	isArray  bool
}

// literal is the text of a word that holds nothing else; "" and false else.
func (w word) literal() (text string, plain bool) {
	plain = !w.isArray
	for _, s := range w.segments {
		if s.variable != "" || s.unknown != "" || s.tilde {
			return "", false
		}
		text += s.text
		plain = plain && !s.quoted
	}
	return text, plain
}

type tokenKind int

const (
	tokenWord tokenKind = iota
	tokenOperator
	tokenRedirect
	tokenEnd
)

// token is a word, an operator such as && or a line break, or a redirection with
// the word behind it.
type token struct {
	kind   tokenKind
	text   string // of an operator; of a redirection what stands before its word: 2>
	word   word
	line   int
	inWord bool // a redirection whose word is a here-document, which is skipped
}

// lexer splits a shell text. It never fails: what it does not understand
// becomes a segment whose value is unknown.
type lexer struct {
	src  string
	at   int
	line int
	here []heredoc // bodies that begin on the next line
	open int       // line of the quote that is not closed; 0: all are
}

type heredoc struct {
	end  string
	tabs bool // <<-
}

func (x *lexer) peek(s string) bool { return strings.HasPrefix(x.src[x.at:], s) }

func (x *lexer) done() bool { return x.at >= len(x.src) }

// step takes n bytes.
func (x *lexer) step(n int) string {
	s := x.src[x.at : x.at+n]
	x.line += strings.Count(s, "\n")
	x.at += n
	return s
}

// blanks skips what separates words.
func (x *lexer) blanks() {
	for !x.done() {
		switch {
		case x.peek("\\\n"):
			x.step(2)
		case x.peek("\\\r\n"):
			x.step(3)
		case x.peek(" "), x.peek("\t"), x.peek("\r"):
			x.step(1)
		case x.peek("#"):
			end := strings.IndexByte(x.src[x.at:], '\n')
			if end < 0 {
				end = len(x.src) - x.at
			}
			x.step(end)
		default:
			return
		}
	}
}

var operators = [...]string{"&&", "||", ";;", "|&", "\n", ";", "|", "(", ")"}

var redirections = [...]string{"&>>", "&>", "<<<", "<<-", "<<", "<>", ">>", ">&", "<&", ">|", ">", "<"}

// next gives the next token.
func (x *lexer) next() token {
	x.blanks()
	t := token{line: x.line}
	if x.done() {
		t.kind = tokenEnd
		return t
	}
	fd := 0
	for x.at+fd < len(x.src) && x.src[x.at+fd] >= '0' && x.src[x.at+fd] <= '9' {
		fd++
	}
	rest := x.src[x.at+fd:]
	for _, r := range redirections {
		if !strings.HasPrefix(rest, r) || fd > 0 && r[0] == '&' {
			continue
		}
		if strings.HasPrefix(rest, "<(") || strings.HasPrefix(rest, ">(") {
			break // a word of its own
		}
		t.kind, t.text = tokenRedirect, x.step(fd+len(r))
		x.blanks()
		t.word = x.word()
		if r == "<<" || r == "<<-" {
			end, _ := t.word.literal()
			x.here = append(x.here, heredoc{end, r == "<<-"})
			t.inWord = true
		}
		return t
	}
	for _, op := range operators {
		if !x.peek(op) {
			continue
		}
		t.kind, t.text = tokenOperator, x.step(len(op))
		if op == "\n" {
			x.skipHere()
		}
		return t
	}
	if x.peek("&") {
		t.kind, t.text = tokenOperator, x.step(1)
		return t
	}
	t.word = x.word()
	return t
}

// skipHere skips the bodies of here-documents.
func (x *lexer) skipHere() {
	for _, h := range x.here {
		for !x.done() {
			end := strings.IndexByte(x.src[x.at:], '\n') + 1
			if end == 0 {
				end = len(x.src) - x.at
			}
			line := strings.TrimSuffix(strings.TrimSuffix(x.step(end), "\n"), "\r")
			if h.tabs {
				line = strings.TrimLeft(line, "\t")
			}
			if line == h.end {
				break
			}
		}
	}
	x.here = nil
}

// word reads to the next unquoted blank or operator.
func (x *lexer) word() word {
	w := word{line: x.line}
	x.segments(&w, " \t\r\n;&|()<>")
	return w
}

// segments reads into w up to an unquoted byte of stop, which stays.
func (x *lexer) segments(w *word, stop string) {
	for !x.done() {
		c := x.src[x.at]
		switch {
		case x.peek("<(") || x.peek(">("):
			x.step(1)
			x.parens()
			w.segments = append(w.segments, segment{unknown: "the process substitution"})
			continue
		case strings.IndexByte(stop, c) >= 0:
			if c == '(' && w.assigns() {
				x.array(w)
				continue
			}
			return
		case x.peek("\\\n"):
			x.step(2)
			continue
		}
		switch c {
		case '\'':
			end := strings.IndexByte(x.src[x.at+1:], '\'')
			if end < 0 {
				x.open = x.line
				x.step(len(x.src) - x.at)
				w.segments = append(w.segments, segment{unknown: unclosed})
				return
			}
			text := x.step(end + 2)
			w.add(text[1:len(text)-1], true)
		case '"':
			x.step(1)
			x.double(w)
		case '\\':
			x.step(1)
			if !x.done() {
				w.add(x.step(runeLength(x.src[x.at:])), true)
			}
		case '$':
			x.dollar(w, false)
		case '`':
			x.backtick(w)
		case '~':
			x.step(1)
			if before, _ := w.literal(); (before == "" && len(w.segments) == 0 || strings.HasSuffix(before, "=")) && (x.done() || strings.IndexByte("/ \t\n;&|)\"'", x.src[x.at]) >= 0) {
				w.segments = append(w.segments, segment{tilde: true})
				continue
			}
			w.add("~", false)
		default:
			if c == '*' || c == '?' || c == '[' {
				w.glob = true
			}
			w.add(x.step(runeLength(x.src[x.at:])), false)
		}
	}
}

func runeLength(s string) int {
	n := 1
	for n < len(s) && s[n]&0xC0 == 0x80 {
		n++
	}
	return n
}

func (w *word) add(text string, quoted bool) {
	if n := len(w.segments); n > 0 {
		if last := &w.segments[n-1]; last.variable == "" && last.unknown == "" && !last.tilde && last.quoted == quoted {
			last.text += text
			return
		}
	}
	w.segments = append(w.segments, segment{text: text, quoted: quoted})
}

// assigns says that the word so far is NAME= or NAME+=.
func (w *word) assigns() bool {
	text, plain := w.literal()
	name, ok := strings.CutSuffix(text, "=")
	return plain && ok && isName(strings.TrimSuffix(name, "+"))
}

// array reads the elements of NAME=(...).
func (x *lexer) array(w *word) {
	w.isArray = true
	x.step(1)
	for {
		x.blanks()
		switch {
		case x.done():
			w.segments = append(w.segments, segment{unknown: "a list that is not closed"})
			return
		case x.peek(")"):
			x.step(1)
			return
		case x.peek("\n"):
			x.step(1)
		case strings.IndexByte(";&|(<>", x.src[x.at]) >= 0:
			x.step(1)
			w.segments = append(w.segments, segment{unknown: "the list"})
		default:
			w.array = append(w.array, x.word())
		}
	}
}
