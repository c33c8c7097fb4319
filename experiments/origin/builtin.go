package origin

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// builtin handles what changes the shell itself; false for any other command.
func (r *reader) builtin(name string, words []word, doubt string) bool {
	args := words[1:]
	switch name {
	case "export", "declare", "typeset", "readonly", "local":
		exported := name == "export"
		for _, w := range args {
			if text, _ := w.literal(); strings.HasPrefix(text, "-") {
				exported = exported || strings.Contains(text, "x")
				continue
			}
			r.assign(w, doubt, exported)
		}
	case "unset":
		for _, w := range args {
			if text, _ := w.literal(); isName(text) {
				delete(r.vars, text)
			}
		}
	case "read", "mapfile", "readarray", "getopts":
		for _, w := range args {
			if text, _ := w.literal(); isName(text) {
				r.vars[text] = variable{unknown: "it is read by " + name, line: w.line}
			}
		}
	case "cd", "pushd":
		r.changeFolder(words, doubt)
	case "source", ".":
		r.source(words, doubt)
	case "set":
		r.set(args, doubt)
	case "shift":
		if v, set := r.vars["@"]; set {
			v.unknown = fmt.Sprintf("not known, since line %d shifts them", words[0].line)
			r.vars["@"] = v
		}
	case "eval":
		return r.eval(args, doubt)
	case "conda", "mamba", "micromamba", "module":
		if len(args) > 0 {
			if text, _ := args[0].literal(); text == "run" {
				return false // it starts something
			}
		}
		r.note("line %d (%s) changes the environment in a way that only running it tells: look at server.python and server.env", words[0].line, name)
	case ":":
		for _, w := range args {
			_, _ = r.fields(w) // for its ${X:=default}; its value is of no use
		}
	default:
		return false
	}
	return true
}

func (r *reader) note(format string, args ...any) {
	if n := fmt.Sprintf(format, args...); !slices.Contains(r.notes, n) {
		r.notes = append(r.notes, n)
	}
}

// set follows what makes variables exported, and set -- WORDS.
func (r *reader) set(args []word, doubt string) {
	for i, w := range args {
		text, _ := w.literal()
		switch {
		case text == "-a" || text == "allexport" && i > 0 && !args[i-1].is("+o"):
			r.exportAll = true
		case text == "+a" || text == "allexport":
			r.exportAll = false
		case text == "--" || !strings.HasPrefix(text, "-") && !strings.HasPrefix(text, "+") && (i == 0 || !args[i-1].is("-o") && !args[i-1].is("+o")):
			if text == "--" {
				args = args[1:]
			}
			v := variable{array: true, line: w.line}
			for _, given := range args[i:] {
				fields, why := r.fields(given)
				if why != "" {
					v.unknown = fmt.Sprintf("not known, since line %d has %s", w.line, why)
				}
				v.values = append(v.values, fields...)
			}
			if doubt != "" {
				v.unknown = fmt.Sprintf("not known, since it is set on line %d and %s", w.line, doubt)
			}
			r.vars["@"] = v
			return
		}
	}
}

func (w word) is(text string) bool {
	have, _ := w.literal()
	return have == text
}

// changeFolder follows cd.
func (r *reader) changeFolder(words []word, doubt string) {
	to, why := []string{"~"}, ""
	if len(words) > 1 {
		to, why = r.fields(words[len(words)-1])
	}
	switch {
	case doubt != "":
		why = doubt
	case why == "" && len(to) != 1:
		why = "it names no folder"
	case why == "" && !path.IsAbs(to[0]) && !strings.HasPrefix(to[0], "~") && r.cwd == "":
		why = "it is relative to where the script is run"
	}
	if why != "" {
		r.cwd = ""
		r.note("the folder of line %d (cd) is not known (%s): set server.cwd if a path is relative", words[0].line, why)
		return
	}
	if path.IsAbs(to[0]) || strings.HasPrefix(to[0], "~") {
		r.cwd = to[0]
		return
	}
	r.cwd = path.Join(r.cwd, to[0])
}

// source reads which virtual environment is activated; other files are not looked
// into.
func (r *reader) source(words []word, doubt string) {
	if len(words) < 2 {
		return
	}
	file, why := r.fields(words[1])
	if why == "" && doubt == "" && len(file) == 1 {
		if venv, ok := strings.CutSuffix(file[0], "/bin/activate"); ok {
			if !path.IsAbs(venv) && !strings.HasPrefix(venv, "~") {
				venv = path.Join(r.cwd, venv)
			}
			r.venv = venv
			return
		}
	}
	shown := "a file"
	if len(file) == 1 {
		shown = file[0]
	}
	r.note("line %d reads %s, which was not looked into: what it sets is not in the spec", words[0].line, shown)
}

// teed takes the log of a server whose output goes into tee.
func (r *reader) teed(words []word) {
	if file, why := r.fields(words[len(words)-1]); why == "" && len(file) == 1 && r.found != nil {
		r.found.command.Log = file[0]
	}
}
