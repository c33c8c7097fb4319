package origin

import (
	"path"
	"slices"
	"strings"
)

// Shells run a text of their own, and terminals and remote shells hand one on.
var (
	shells   = []string{"sh", "bash", "dash", "zsh", "ash", "ksh"}
	carriers = []string{"tmux", "screen", "ssh", "su", "script"}
)

// maxDepth bounds texts within texts; a text that names itself cannot be written,
// but eval in eval can.
const maxDepth = 5

// eval reads its words as the text that they make together; what it assigns
// counts from here on. false when they are not known.
func (r *reader) eval(args []word, doubt string) bool {
	words, why := r.argv(args)
	if why != "" || r.depth >= maxDepth || len(args) == 0 {
		return false
	}
	outer, blocks := r.lex, len(r.blocks)
	if doubt != "" {
		r.open("eval", args[0].line)
	}
	r.lex = lexer{src: strings.Join(words, " "), line: args[0].line}
	r.depth++
	for r.statement() {
	}
	r.depth--
	r.lex, r.blocks = outer, r.blocks[:min(blocks, len(r.blocks))]
	return true
}

// nested finds the text that a command gives to a shell: that of sh -c at its
// end, or of a carrier such as tmux, which is left out as a whole. front is what
// stands before it.
func nested(argv []string) (front []string, text string, found bool) {
	for i, word := range argv {
		if slices.Contains(shells, path.Base(word)) && i+3 == len(argv) && isTextOption(argv[i+1]) {
			front, text, found = argv[:i], argv[i+2], true
			break
		}
	}
	at := 0
	for at < len(argv) && slices.Contains(dropped, path.Base(argv[at])) {
		at++
	}
	if at == len(argv) || !slices.Contains(carriers, path.Base(argv[at])) {
		return front, text, found
	}
	if found {
		return nil, text, true
	}
	for _, word := range slices.Backward(argv[at+1:]) {
		if strings.ContainsAny(word, " \t") {
			return nil, word, true
		}
	}
	return nil, "", false
}

// isTextOption says that a word is -c, also among other letters: -lc.
func isTextOption(word string) bool {
	return strings.HasPrefix(word, "-") && !strings.HasPrefix(word, "--") && strings.HasSuffix(word, "c")
}

// within looks into a text that the command of f gives to a shell. Where a server
// is started there, that is the command; f is as it was otherwise.
func (r *reader) within(f *finding, argv []string) (_ []string, why string) {
	front, text, ok := nested(argv)
	if !ok || r.depth >= maxDepth {
		return argv, ""
	}
	in := &reader{file: r.file, lex: lexer{src: text, line: f.line}, outer: r.outer, vars: map[string]variable{}, depth: r.depth + 1, posix: r.posix, cwd: r.cwd, venv: r.venv}
	if _, ok := readContainer(argv); ok { // folders of its own
		in.cwd, in.venv = "", ""
	}
	for name, v := range r.vars {
		if v.exported {
			in.vars[name] = v
		}
	}
	for in.statement() {
	}
	switch {
	case in.failed != nil && in.failed.server && (in.found == nil || !in.found.server):
		f.server = true
		return argv, in.failed.why
	case in.found == nil || !in.found.server:
		return argv, ""
	}
	if left := argv[:len(argv)-1]; len(left) > len(front) {
		r.note("left out: %s; what it is given to run was read as the command", strings.Join(left[len(front):], " "))
	}
	f.command = in.found.command
	f.command.Notes = append(f.command.Notes, in.notes...)
	return slices.Concat(front, in.found.command.Argv), ""
}

// readsCommands says that a command is a shell whose commands stand in a
// here-document.
func readsCommands(argv []string, redirects []token) bool {
	return len(argv) > 0 && (slices.Contains(shells, path.Base(argv[0])) || slices.Contains(carriers, path.Base(argv[0]))) &&
		slices.ContainsFunc(redirects, func(t token) bool { return t.inWord })
}
