package origin

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// ScriptError says what in a shell text cannot be known without running it.
type ScriptError struct {
	File string
	Line int
	Msg  string
}

func (e *ScriptError) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg) }

// Hint says what the user can do.
func (e *ScriptError) Hint() string {
	if e.Msg == unclosed {
		return "no shell takes it so: close the quote; in --from-cmd '...' quotes inside are the other ones"
	}
	return "start the server and use specrun init --from-pid PID, or give the command as it is run to --from-cmd"
}

const unknowable = "the command cannot be known without running it: "

// unclosed is what is said of a text that ends within a quote.
const unclosed = "a quote that is not closed"

// Lookup gives a variable of the environment in which a script would run.
type Lookup func(name string) (value string, known bool)

// Script reads a shell text that starts a server: the last command that is one,
// else the last command. Nothing is run: variables that the text assigns,
// ${X:-default}, arrays and cd are followed, and what cannot be known is a
// *ScriptError as soon as the server's command depends on it. outer gives the
// variables that the text does not assign; nil knows none.
func Script(name, src string, outer Lookup) (Command, error) {
	if outer == nil {
		outer = func(string) (string, bool) { return "", false }
	}
	src = strings.TrimPrefix(src, "\ufeff")
	r := &reader{file: name, lex: lexer{src: src, line: 1}, outer: outer, vars: map[string]variable{}, posix: posixScript.MatchString(src)}
	for r.statement() {
	}
	switch {
	case r.failed != nil && (r.found == nil || r.failed.server && (r.failed.line > r.found.line || !r.found.server)):
		return Command{}, r.failed.err
	case r.found == nil && r.lex.open != 0:
		return Command{}, &ScriptError{File: name, Line: r.lex.open, Msg: unclosed}
	case r.found == nil:
		return Command{}, &ScriptError{File: name, Line: 1, Msg: "no command is in it"}
	}
	c := r.found.command
	c.Notes = append(c.Notes, r.notes...)
	c.From = name
	if strings.Contains(strings.TrimSpace(src), "\n") {
		c.From = fmt.Sprintf("%s line %d", name, r.found.line)
	}
	return c, nil
}

// posixScript says that a text names a shell without bash's additions.
var posixScript = regexp.MustCompile(`^#![^\n]*\b(sh|dash|ash)\b`)

// variable is what is known of a shell variable.
type variable struct {
	values   []string // of an array; one of a scalar
	array    bool
	exported bool
	unknown  string // why the value is not known
	line     int
}

// reader follows a script.
type reader struct {
	file  string
	lex   lexer
	outer Lookup
	vars  map[string]variable

	posix     bool // it is no script of bash's
	depth     int  // of texts within the text
	cwd       string
	venv      string // folder of the virtual environment that is active
	exportAll bool   // set -a
	blocks    []block
	maybe     string // why the next command may not be run; "" when it is
	piped     bool   // the next command reads what the last one prints

	found  *finding
	failed *finding // the last command that cannot be known
	notes  []string
}

// block is something that is open: if, for, a function.
type block struct {
	kind string
	line int
}

// finding is a command that may be the server's.
type finding struct {
	command Command
	err     *ScriptError
	why     string // of err
	line    int
	server  bool
}

// statement reads one simple command with what ends it; false at the end.
func (r *reader) statement() bool {
	var words []word
	var redirects []token
	first := true
	for {
		t := r.lex.next()
		switch {
		case t.kind == tokenWord && first && r.keyword(t):
			continue
		case t.kind == tokenWord:
			words = append(words, t.word)
			first = false
			continue
		case t.kind == tokenRedirect:
			redirects = append(redirects, t)
			first = false
			continue
		case t.kind == tokenOperator && t.text == "(" && len(words) == 1: // NAME()
			r.open("a function", t.line)
			r.lex.next() // its )
			words, first = nil, true
			continue
		case t.kind == tokenOperator && t.text == "(":
			r.open("(", t.line)
			continue
		}
		end := ""
		if t.kind == tokenOperator {
			end = t.text
		}
		r.command(words, redirects, end)
		if end == ")" {
			r.close("(")
		}
		return t.kind != tokenEnd
	}
}

// keyword handles a word of the shell's grammar; false when it is none.
func (r *reader) keyword(t token) bool {
	text, plain := t.word.literal()
	if !plain {
		return false
	}
	switch text {
	case "if", "while", "until":
		r.open(text, t.line)
	case "for", "case", "select":
		r.open(text, t.line)
		r.head(text)
	case "then", "elif", "else", "do", "!", "time":
	case "function":
		r.open("a function", t.line)
		r.lex.next()
		at := r.lex
		if r.lex.next().text == "(" {
			r.lex.next()
		} else {
			r.lex = at
		}
	case "{":
		r.open("{", t.line)
	case "}":
		r.close("{", "a function")
	case "fi":
		r.close("if")
	case "done":
		r.close("for", "while", "until", "select")
	case "esac":
		r.close("case")
	default:
		return false
	}
	return true
}

// head reads what stands behind for and case: a variable that is not known from
// then on, and words.
func (r *reader) head(kind string) {
	for n := 0; ; n++ {
		t := r.lex.next()
		name, _ := t.word.literal()
		switch {
		case t.kind == tokenEnd, t.kind == tokenOperator && (t.text == "\n" || t.text == ";"):
			return
		case n == 0 && kind != "case" && isName(name):
			r.vars[name] = variable{unknown: "it is set by a " + kind, line: t.line}
		case kind == "case" && name == "in":
			return
		}
	}
}

func (r *reader) open(kind string, line int) {
	// The { of a function belongs to it.
	if n := len(r.blocks); kind == "{" && n > 0 && r.blocks[n-1].kind == "a function" {
		return
	}
	r.blocks = append(r.blocks, block{kind, line})
}

func (r *reader) close(kinds ...string) {
	for i := len(r.blocks) - 1; i >= 0; i-- {
		if slices.Contains(kinds, r.blocks[i].kind) {
			r.blocks = r.blocks[:i]
			return
		}
	}
}

// doubt says why a command may not be run, or more than once; "" when it is run
// exactly once.
func (r *reader) doubt() string {
	for _, b := range r.blocks {
		if b.kind != "(" && b.kind != "{" {
			kind := b.kind
			if !strings.HasPrefix(kind, "a ") {
				kind = "the " + kind
			}
			return fmt.Sprintf("it is inside %s that begins on line %d", kind, b.line)
		}
	}
	return r.maybe
}

// sure are commands of which nobody expects that they fail.
var sure = []string{"", "cd", "export", "source", ".", "set", "mkdir", "ulimit", "umask", "true", ":", "echo", "printf", "unset", "conda", "mamba", "module", "declare", "readonly"}

// helpers are commands that start no server.
var helpers = append([]string{"sleep", "wait", "tail", "head", "rm", "exit", "return", "trap", "nvidia-smi", "kill", "pkill", "killall", "curl", "wget", "tee", "cat",
	"shift", "read", "test", "[", "[[", "date", "hostname", "which", "pip", "pip3", "git", "chmod", "cp", "mv", "ln", "ls", "grep", "awk", "sed", "touch", "disown",
	"fuser", "lsof", "pgrep", "ps", "local", "getopts", "mapfile", "readarray", "false", "break", "continue", "pushd", "popd", "shopt", "alias", "eval"}, sure...)

// command takes one simple command, with the operator that ends it.
func (r *reader) command(words []word, redirects []token, end string) {
	doubt := r.doubt()
	var assigned []word
	for len(words) > 0 && words[0].assigned() {
		assigned, words = append(assigned, words[0]), words[1:]
	}
	name := ""
	if len(words) > 0 {
		name, _ = words[0].literal()
	}
	switch {
	case len(words) == 0:
		for _, w := range assigned {
			r.assign(w, doubt, false)
		}
	case r.builtin(name, words, doubt):
	case name == "tee" && r.piped:
		r.teed(words)
	default:
		r.candidate(words, assigned, redirects, end, doubt)
	}
	if len(words)+len(assigned)+len(redirects) == 0 && end == "\n" {
		return // a line that continues: a &&, then a line break
	}
	r.piped = end == "|" || end == "|&"
	r.maybe = ""
	switch {
	case end == "||":
		r.maybe = "it is run only when what stands before || fails"
	case end == "&&" && (doubt != "" || !slices.Contains(sure, name)):
		r.maybe = "it is run only when what stands before && succeeds"
	}
}

// candidate is a command that may be the server's.
func (r *reader) candidate(words, assigned []word, redirects []token, end, doubt string) {
	f := finding{line: words[0].line}
	argv, why := r.argv(words)
	if why == "" && len(argv) > 0 {
		if argv, why = r.within(&f, argv); why == "" {
			f.server = startsServer(argv)
		}
	} else {
		f.server = looksLikeServer(words)
	}
	name := ""
	if len(argv) > 0 {
		name = path.Base(argv[0])
	}
	switch {
	case !f.server && (len(argv) == 0 && why == "" || name != "" && slices.Contains(helpers, name) || doubt != "" || r.piped):
		return
	case why == "" && doubt != "":
		why = doubt
	}
	if why == "" && !f.server && readsCommands(argv, redirects) {
		why = "what the shell reads from a here-document is not looked into"
	}
	if why == "" {
		within := f.command.Env
		f.command.Argv = argv
		f.command.Env, why = r.environment(assigned)
		maps.Copy(f.command.Env, within)
	}
	if why != "" {
		if why != unclosed && !strings.HasPrefix(why, unknowable) {
			why = unknowable + why
		}
		f.why, f.err = why, &ScriptError{File: r.file, Line: f.line, Msg: why}
		if f.server || r.failed == nil || !r.failed.server {
			r.failed = &f
		}
		return
	}
	if r.found != nil && r.found.server && !f.server {
		return
	}
	if f.command.Cwd == "" {
		f.command.Cwd = r.cwd
	}
	if f.command.Venv == "" {
		f.command.Venv = r.venv
	}
	var left []string
	for _, t := range redirects {
		file, why := r.fields(t.word)
		left = append(left, t.text+strings.Join(file, " "))
		if why == "" && len(file) == 1 && (t.text == ">" || t.text == ">>" || t.text == "1>" || t.text == "1>>" || strings.HasPrefix(t.text, "&>")) {
			f.command.Log = file[0]
		}
	}
	switch end {
	case "&":
		left = append(left, end)
	case "|", "|&":
		left = append(left, append([]string{end}, hideWords(r.readers())...)...)
	}
	if len(left) > 0 {
		f.command.Notes = append(f.command.Notes, fmt.Sprintf("left out: %s; specrun starts a server detached and keeps its log", strings.Join(left, " ")))
	}
	if r.found != nil && r.found.server {
		r.note("line %d starts a server as well: the one of line %d is read", r.found.line, f.line)
	}
	r.found = &f
}

// readers are the words of the commands that read what the last one prints, as
// they are written; nothing is taken from the text.
func (r *reader) readers() []string {
	at := r.lex
	var words []string
	for piped := true; ; {
		t := at.next()
		switch {
		case t.kind == tokenWord || t.kind == tokenRedirect:
			text, _ := t.word.literal()
			if len(t.word.segments) > 0 && text == "" {
				text = "..." // what only a shell can tell
			}
			words, piped = append(words, t.text+text), false
		case t.kind == tokenOperator && t.text == "\n" && piped:
			// a shell reads on behind a |
		case t.kind == tokenOperator && (t.text == "|" || t.text == "|&"):
			words, piped = append(words, t.text), true
		case t.kind == tokenOperator && t.text == "&":
			return append(words, t.text)
		default:
			return words
		}
	}
}

// environment is what the command gets beside what it inherits: variables that
// were exported, and assignments before it.
func (r *reader) environment(assigned []word) (map[string]string, string) {
	env := map[string]string{}
	for name, v := range r.vars {
		switch {
		case !v.exported || v.array:
		case v.unknown != "":
			r.note("%s (line %d) is left out of server.env: %s", name, v.line, v.unknown)
		default:
			env[name] = v.values[0]
		}
	}
	for _, w := range assigned {
		name, v := r.evaluate(w)
		if v.unknown != "" {
			return nil, fmt.Sprintf("%s is %s", name, v.unknown)
		}
		env[name] = v.values[0]
	}
	return env, ""
}
