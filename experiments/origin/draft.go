package origin

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Options are what a command does not say.
type Options struct {
	Host string // for hosts: of the file; "" leaves it open
	Name string // of the experiment; "" makes one of the model's
}

// Draft is an experiment file to be written, with what there is to say about it.
type Draft struct {
	Engine string
	Lifted []string // "steps: --speculative-num-steps 3": what became a param
	Notes  []string // what is not as it was, or could not be known
	Needs  []string // variables to export before the server can start
	// Argv is the command as it was, prefix and all, less what only detached it.
	Argv []string

	command  Command
	options  Options
	run      *containerRun
	split    split
	args     arguments
	words    []string // of server.command
	python   string
	cwd      string
	port     int
	gpus     []int
	env      map[string]string
	secrets  []string // variables that are references
	omitted  []string // secret flags, left out
	params   []param
	rules    []string
	lifted   map[string]string // flag -> the template that stands for its value
	baseline []string          // flags that it removes
}

// param is what became a parameter.
type param struct {
	name, values, fallback, help string
}

// defaultPorts are those on which an engine listens when nothing is said.
var defaultPorts = map[string]int{SGLang: 30000, VLLM: 8000}

// InvalidError says that a command cannot be written into an experiment file.
type InvalidError struct{ Word, Why string }

func (e *InvalidError) Error() string { return fmt.Sprintf("%q %s", e.Word, e.Why) }

// Hint says what the user can do.
func (e *InvalidError) Hint() string {
	return "give the command of the server itself, with the flag that says its port, or --from-pid of the process that listens"
}

// NewDraft makes an experiment file of a command. It fails with an *InvalidError
// on words that YAML cannot hold, and when there are none.
func NewDraft(c Command, o Options) (*Draft, error) {
	d := &Draft{command: c, options: o, cwd: c.Cwd, env: map[string]string{}, lifted: map[string]string{}, Notes: slices.Clone(c.Notes)}
	maps.Copy(d.env, c.Env)
	argv := c.Argv
	if run, ok := readContainer(argv); ok {
		d.contain(run)
		argv = run.argv
	}
	if len(argv) == 0 {
		return nil, &InvalidError{strings.Join(c.Argv, " "), "names no server"}
	}
	for _, word := range argv {
		if !utf8.ValidString(word) {
			return nil, &InvalidError{word, "is no UTF-8 text, which YAML cannot hold"}
		}
	}
	d.split = takeApart(argv)
	d.unwrapped()
	d.Engine = d.split.engine
	if d.Engine != Another {
		d.known()
	} else if err := d.another(); err != nil {
		return nil, err
	}
	d.setGPUs()
	d.hideEnv()
	return d, nil
}

// From says where the command was read.
func (d *Draft) From() string { return d.command.From }

// Axis is what a first sweep of the file varies: "steps=1..4"; "" when nothing
// became a param with values.
func (d *Draft) Axis() string {
	for _, p := range d.params {
		if p.values != "" {
			return p.name + "=" + strings.NewReplacer("[", "", "]", "", " ", "").Replace(p.values)
		}
	}
	return ""
}

func (d *Draft) note(format string, args ...any) {
	d.Notes = append(d.Notes, fmt.Sprintf(format, args...))
}

// unwrapped takes away what stands in front of the server.
func (d *Draft) unwrapped() {
	front := &d.split.prefix
	if d.split.engine == Another {
		front = &d.split.rest
	}
	w := unwrap(*front)
	*front = w.prefix
	if len(w.left) > 0 {
		d.note("left out: %s; specrun starts a server detached", strings.Join(w.left, " "))
	}
	if w.cleared {
		d.note("env -i is left out: specrun starts a server in the session's environment, with the one of the spec over it")
	}
	maps.Copy(d.env, w.env)
	for _, name := range w.unset {
		delete(d.env, name)
		d.note("%s was taken out of the environment (env -u): if the session has it, write %s: null into server.env", name, name)
	}
	if d.split.engine != Another && len(d.split.prefix) > 0 {
		switch name := path.Base(d.split.prefix[0]); name {
		case "uv", "conda", "poetry", "pipenv", "pdm", "micromamba", "hatch":
			d.note("%s chooses the interpreter: set server.python to its path and take the prefix out, or patches cannot find the engine's files", name)
		case "sudo":
			d.note("the prefix begins with sudo: specrun needs no root, and stops only what its user may stop")
		}
	}
}

// interpreterEnv are variables that do what an option of the interpreter does.
var interpreterEnv = map[string][2]string{"-u": {"PYTHONUNBUFFERED", "1"}, "-B": {"PYTHONDONTWRITEBYTECODE", "1"}, "-O": {"PYTHONOPTIMIZE", "1"},
	"-OO": {"PYTHONOPTIMIZE", "2"}, "-s": {"PYTHONNOUSERSITE", "1"}, "-P": {"PYTHONSAFEPATH", "1"}}

// known drafts the server of an engine that is known.
func (d *Draft) known() {
	s := d.split
	for i := 0; i < len(s.options); i++ {
		option := s.options[i]
		v, known := interpreterEnv[option]
		switch {
		case known:
			d.env[v[0]] = v[1]
			d.note("the interpreter's %s is written as %s=%s in server.env", option, v[0], v[1])
		case option == "-X" && i+1 < len(s.options) && s.options[i+1] == "faulthandler":
			d.env["PYTHONFAULTHANDLER"] = "1"
			i++
			d.note("the interpreter's -X faulthandler is written as PYTHONFAULTHANDLER=1 in server.env")
		default:
			d.note("the interpreter's option %s is left out", option)
		}
	}
	d.python = s.python
	switch {
	case d.command.Program != "" && len(s.prefix) == 0 && s.python != "" && len(d.command.Argv) > 0 && s.python == d.command.Argv[0]:
		d.python = d.command.Program
	case strings.HasPrefix(s.python, "./") || strings.Contains(s.python, "/") && !path.IsAbs(s.python) && !strings.HasPrefix(s.python, "~"):
		if d.cwd != "" {
			d.python = path.Join(d.cwd, s.python)
		}
	case d.command.Venv != "" && !strings.Contains(s.python, "/"):
		d.python = path.Join(d.command.Venv, "bin", firstOf(s.python, "python3"))
	}
	switch {
	case d.python == "":
		d.note("which interpreter runs %s is not known: set server.python", strings.Join(s.entry, " "))
	case !strings.Contains(d.python, "/") && d.run == nil:
		d.note("%s is looked up in PATH on the host: write its path into server.python, so that patches go where it imports from", d.python)
	}
	if written, want := strings.Join(s.entry, " "), entries[d.Engine]; written != want {
		d.note("%s is started as %s, which is the same server", written, want)
	}
	d.args = readFlags(d.Engine, s.rest)
	d.Notes = append(d.Notes, d.args.notes...)
	if len(d.args.args) > 0 {
		d.note("at the end of the command, as server.args: %s", strings.Join(hideWords(d.args.args), " "))
	}
	if config, ok := d.args.find("config"); ok {
		d.note("flags also come from %s, which was not looked into", config)
	}
	d.setPort()
	d.hideFlags()
	if d.Engine == SGLang {
		d.liftSGLang()
	} else {
		d.liftVLLM()
	}
}

// entries are how specrun starts the engines.
var entries = map[string]string{SGLang: "-m sglang.launch_server", VLLM: "-m vllm.entrypoints.cli.main serve"}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

func (d *Draft) setPort() {
	port, err := strconv.Atoi(d.args.port)
	switch {
	case d.args.ports > 1:
		d.note("--port is given %d times, the last one counts", d.args.ports)
		fallthrough
	case d.args.ports == 1 && err == nil && port > 0 && port <= 65535:
		d.port = port
	case d.args.ports == 1:
		d.note("--port %s is no number: server.port is auto", d.args.port)
	default:
		d.port = defaultPorts[d.Engine]
		if d.command.Port > 0 {
			d.port = d.command.Port
		}
		d.note("--port %d is added: specrun always says the port", d.port)
	}
}

// another drafts a server of which only the command line is known.
func (d *Draft) another() error {
	d.port = d.command.Port
	words := slices.Clone(d.split.rest)
	if len(words) == 0 {
		return &InvalidError{strings.Join(d.command.Argv, " "), "names no server"}
	}
	said := false
	for i := range words {
		name, value, joined := strings.Cut(words[i], "=")
		isPort := strings.Contains(strings.ToLower(name), "port") && strings.HasPrefix(name, "-")
		switch {
		case isPort && joined && d.isPort(value):
			words[i] = name + "=\x00"
		case i > 0 && strings.HasPrefix(words[i-1], "-") && strings.HasSuffix(strings.ToLower(words[i-1]), "port") && d.isPort(words[i]):
			words[i] = "\x00"
		case d.port > 0 && strings.HasSuffix(words[i], ":"+strconv.Itoa(d.port)):
			words[i] = strings.TrimSuffix(words[i], strconv.Itoa(d.port)) + "\x00"
		default:
			continue
		}
		said = true
	}
	d.words = words
	if only := slices.Index(words, strconv.Itoa(d.port)); !said && d.port > 0 && only > 0 && !slices.Contains(words[only+1:], words[only]) {
		words[only], said = "\x00", true
	}
	if !said && d.port == 0 {
		return &InvalidError{path.Base(d.split.rest[0]), "is no engine that is known, listens on no port that can be seen, and is told none: is it a server?"}
	}
	if !said {
		d.note("no word of the command is the port on which it listens: set server.port, and write ${port} where it belongs")
	}
	for i, word := range words {
		name := ""
		if i > 0 {
			name = strings.TrimLeft(words[i-1], "-")
		}
		flag, value, joined := strings.Cut(word, "=")
		switch {
		case i > 0 && strings.HasPrefix(words[i-1], "-") && !strings.HasPrefix(word, "-") && isSecret(name, word):
			words[i] = secretWord
		case joined && isSecret(strings.TrimLeft(flag, "-"), value):
			words[i] = flag + "=" + secretWord
		case secretShape(word):
			words[i] = secretWord
		default:
			continue
		}
		d.note("a secret stood in the command: %s stands for it, so the server does not start like this; give it by server.env if the program reads one", secretWord)
	}
	d.note("no engine that is known: nothing is read back from the server, and nothing could be lifted into params")
	return nil
}

// secretWord stands where a secret was.
const secretWord = "SECRET-LEFT-OUT"

// isPort takes a word for the port when it is the one listened on, or, when that
// is not known, any number that can be one.
func (d *Draft) isPort(word string) bool {
	n, err := strconv.Atoi(word)
	if err != nil || n < 1 || n > 65535 || d.port > 0 && n != d.port {
		return false
	}
	d.port = n
	return true
}

// hideFlags takes out flags that hold a secret.
func (d *Draft) hideFlags() {
	var kept []flag
	for _, f := range d.args.flags {
		if !slices.ContainsFunc(f.values, func(v string) bool { return isSecret(f.name, v) }) {
			kept = append(kept, f)
			continue
		}
		if variable := instead[d.Engine][f.name]; variable != "" {
			d.secrets = append(d.secrets, variable)
			d.note("the flag %s holds a secret: it is taken from %s instead, which the server reads", f.name, variable)
			continue
		}
		d.omitted = append(d.omitted, f.name)
		d.note("the flag %s is left out: its value is a secret, which an experiment file does not hold", f.name)
	}
	d.args.flags = kept
	clean := hideWords(d.args.args)
	if !slices.Equal(clean, d.args.args) {
		d.note("a secret in server.args is left out")
		d.args.args = clean
	}
	if clean := hideWords(d.split.prefix); !slices.Equal(clean, d.split.prefix) {
		d.note("a secret in server.prefix is left out")
		d.split.prefix = clean
	}
}

// hideWords puts secretWord where a word is a secret.
func hideWords(words []string) []string {
	out := slices.Clone(words)
	for i, word := range out {
		name, value, joined := strings.Cut(word, "=")
		switch {
		case joined && isSecret(strings.TrimLeft(name, "-"), value):
			out[i] = name + "=" + secretWord
		case i > 0 && strings.HasPrefix(words[i-1], "-") && isSecret(strings.TrimLeft(words[i-1], "-"), word), secretShape(word):
			out[i] = secretWord
		}
	}
	return out
}

// hideEnv makes references of secrets.
func (d *Draft) hideEnv() {
	for name, value := range d.env {
		if !isName(name) || !utf8.ValidString(value) {
			d.note("the variable %s is left out: an experiment file cannot hold it", name)
			delete(d.env, name)
			continue
		}
		if isSecret(name, value) {
			delete(d.env, name)
			d.secrets = append(d.secrets, name)
		}
	}
	slices.Sort(d.secrets)
	d.secrets = slices.Compact(d.secrets)
	d.Needs = slices.Clone(d.secrets)
}

var ascending = regexp.MustCompile(`^[0-9]+(,[0-9]+)*$`)

// setGPUs makes server.gpus of CUDA_VISIBLE_DEVICES.
func (d *Draft) setGPUs() {
	visible, set := d.env["CUDA_VISIBLE_DEVICES"]
	if !set {
		return
	}
	var gpus []int
	for name := range strings.SplitSeq(visible, ",") {
		name = strings.TrimSpace(name)
		index, known := d.command.Devices[name]
		if !known && ascending.MatchString(name) {
			var err error
			index, err = strconv.Atoi(name)
			known = err == nil && index < 1024
		}
		if !known {
			if strings.HasPrefix(visible, "MIG-") {
				d.note("CUDA_VISIBLE_DEVICES=%s stays in server.env: parts of GPUs have no number, so server.gpus is all", visible)
				return
			}
			d.note("CUDA_VISIBLE_DEVICES=%s stays in server.env, and is refused there: say by their numbers in server.gpus which GPUs those are, and remove it", visible)
			return
		}
		gpus = append(gpus, index)
	}
	d.gpus = gpus
	delete(d.env, "CUDA_VISIBLE_DEVICES")
}

// contain takes over a "docker run".
func (d *Draft) contain(run containerRun) {
	if clean := hideWords(run.args); !slices.Equal(clean, run.args) {
		run.args = clean
		d.note("a secret in the options of %s run is left out", run.runtime)
	}
	d.run = &run
	maps.Copy(d.env, run.env)
	d.secrets = append(d.secrets, run.fromEnv...)
	d.cwd = run.cwd
	if len(run.left) > 0 {
		d.note("left out of %s run: %s; specrun names, detaches and removes the container of each launch", run.runtime, strings.Join(hideWords(run.left), " "))
	}
}
