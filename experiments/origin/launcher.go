package origin

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Engines that are told apart.
const (
	SGLang  = "sglang"
	VLLM    = "vllm"
	Another = "command" // anything else: its command line is kept as it is
)

// Command is what starts a server, wherever it was read.
type Command struct {
	From string // for people: "process 4242", "launch.sh line 12"
	Argv []string
	// Env is what it was given beside what any session has: of a process, what
	// Keep chose.
	Env     map[string]string
	Cwd     string // "" when not known
	Venv    string // virtual environment that is active; "" for none
	Program string // path of the first word, when it was looked up
	Log     string // where its output goes; "" when not known
	Port    int    // it listens on; 0 when not known
	Devices map[string]int
	// Container is the name of one that it runs in, and Runtime what runs that:
	// docker or podman.
	Container, Runtime string
	Notes              []string
}

// split is a command line taken apart: Prefix, Python, the entry of the engine,
// and what stands behind it.
type split struct {
	engine  string
	prefix  []string // before the interpreter
	python  string   // "" when the command does not name one
	options []string // of the interpreter: -u
	entry   []string // -m sglang.launch_server
	rest    []string
}

// modules are those that are an engine's server, with the word that must follow.
var modules = map[string]struct{ engine, word string }{
	"sglang.launch_server":               {SGLang, ""},
	"sglang.cli.main":                    {SGLang, "serve"},
	"vllm.entrypoints.openai.api_server": {VLLM, ""},
	"vllm.entrypoints.cli.main":          {VLLM, "serve"},
}

// programs are console scripts of engines; each is followed by serve.
var programs = map[string]string{"sglang": SGLang, "vllm": VLLM}

// files end the path of an engine's server that is run as a file.
var files = map[string]string{
	"sglang/launch_server.py":               SGLang,
	"vllm/entrypoints/openai/api_server.py": VLLM,
}

var pythonName = regexp.MustCompile(`^(python|pypy)[0-9.]*$`)

// takeApart finds the engine in a command line; engine is Another when there is
// none that is known.
func takeApart(argv []string) split {
	for i, word := range argv {
		next := func(n int) string {
			if i+n < len(argv) {
				return argv[i+n]
			}
			return ""
		}
		if m, known := modules[next(1)]; word == "-m" && known && (m.word == "" || next(2) == m.word) {
			n := 2
			if m.word != "" {
				n = 3
			}
			return behind(argv, i, n, m.engine, true)
		}
		if engine := programs[path.Base(word)]; engine != "" && next(1) == "serve" {
			return behind(argv, i, 2, engine, false)
		}
		for file, engine := range files {
			if i > 0 && (word == file || strings.HasSuffix(word, "/"+file)) {
				return behind(argv, i, 1, engine, true)
			}
		}
	}
	return split{engine: Another, rest: argv}
}

// behind splits argv at an entry of n words. In front of a console script an
// interpreter stands only where the kernel put it, as /proc shows.
func behind(argv []string, at, n int, engine string, needsPython bool) split {
	s := split{engine: engine, entry: argv[at : at+n], rest: argv[at+n:], prefix: argv[:at]}
	p := at - 1
	for p >= 0 && (strings.HasPrefix(argv[p], "-") || p > 0 && slices.Contains([]string{"-X", "-W"}, argv[p-1])) {
		p--
	}
	if p >= 0 && (needsPython || pythonName.MatchString(path.Base(argv[p]))) {
		s.prefix, s.python, s.options = argv[:p], argv[p], argv[p+1:at]
		return s
	}
	if !needsPython && strings.Contains(argv[at], "/") {
		s.python = path.Join(path.Dir(argv[at]), "python3")
	}
	return s
}

// Engine names the engine that a command line starts, "" when it is none that is
// known.
func Engine(argv []string) string {
	if s := takeApart(argv); s.engine != Another {
		return s.engine
	}
	return ""
}

// others are programs that are servers of engines whose command lines are kept as
// they are.
var others = []string{"llama-server", "trtllm-serve", "tritonserver", "text-generation-launcher", "lmdeploy"}

// ServerPattern is an extended regular expression that an argument of every server
// that Serves knows matches, and of few processes else: not of the many that only
// run from a folder named like an engine.
func ServerPattern() string {
	var names []string
	for _, known := range [][]string{slices.Sorted(maps.Keys(modules)), slices.Sorted(maps.Keys(programs)), slices.Sorted(maps.Keys(files)), others} {
		names = append(names, known...)
	}
	return "(^|/)(" + strings.ReplaceAll(strings.Join(names, "|"), ".", "[.]") + ")$"
}

// Serves names the engine that a process of this command line is a server of, ""
// when it is none that is known: also for one that only starts a server, such as
// timeout or docker run, and for one that set itself a title, as workers do.
func Serves(argv []string) string {
	if s := takeApart(argv); s.engine != Another {
		if len(s.prefix) > 0 {
			return ""
		}
		return s.engine
	}
	for i, word := range argv[:min(2, len(argv))] {
		if name := path.Base(word); slices.Contains(others, name) && (i == 0 || pythonName.MatchString(path.Base(argv[0]))) {
			return name
		}
	}
	return ""
}

// startsServer says that a command line is surely a server's.
func startsServer(argv []string) bool {
	if Engine(argv) != "" {
		return true
	}
	if _, ok := readContainer(argv); ok {
		return true
	}
	for _, w := range argv {
		if slices.Contains(others, path.Base(w)) {
			return true
		}
	}
	return false
}

// dropped are programs in front of a server that only detach it, which specrun
// does itself.
var dropped = []string{"nohup", "setsid", "exec", "command", "time"}

// wrap is what stood in front of the interpreter: what stays, what was left out,
// and the assignments of env(1).
type wrap struct {
	prefix  []string
	left    []string
	env     map[string]string
	unset   []string
	cleared bool // env -i
}

// unwrap takes apart what stands in front of a server.
func unwrap(words []string) wrap {
	w := wrap{env: map[string]string{}}
	for len(words) > 0 {
		switch name := path.Base(words[0]); {
		case slices.Contains(dropped, name):
			w.left = append(w.left, words[0])
			words = words[1:]
			for name != "nohup" && len(words) > 0 && strings.HasPrefix(words[0], "-") {
				w.left = append(w.left, words[0])
				words = words[1:]
			}
		case name == "env":
			words = w.takeEnv(words[1:])
		case len(w.prefix) == 0 && isAssignment(words[0]):
			name, value, _ := strings.Cut(words[0], "=")
			w.env[name] = value
			words = words[1:]
		default:
			w.prefix = append(w.prefix, words...)
			return w
		}
	}
	return w
}

func isAssignment(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	return ok && isName(name)
}

// takeEnv reads options and assignments of env(1).
func (w *wrap) takeEnv(words []string) []string {
	for len(words) > 0 {
		switch word := words[0]; {
		case word == "-" || word == "-i" || word == "--ignore-environment":
			w.cleared = true
		case word == "-u" && len(words) > 1:
			w.unset = append(w.unset, words[1])
			words = words[1:]
		case strings.HasPrefix(word, "--unset="):
			w.unset = append(w.unset, strings.TrimPrefix(word, "--unset="))
		case word == "--":
		case strings.HasPrefix(word, "-"):
			w.left = append(w.left, "env "+word)
		case isAssignment(word):
			name, value, _ := strings.Cut(word, "=")
			w.env[name] = value
		default:
			return words
		}
		words = words[1:]
	}
	return words
}
